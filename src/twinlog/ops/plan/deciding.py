"""Lets the code of a run decide about topics to create and change, and asks the target whether it would accept them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import read_broker_setting
from twinlog.kafka.protocol import error_codes
from twinlog.mirror.topics.acls import missing_acls
from twinlog.mirror.topics.changes import TopicChanges
from twinlog.mirror.topics.configs import ConfigSync
from twinlog.mirror.topics.create import ReducedTopic, negotiate
from twinlog.mirror.topics.internal_topics import absent, internal_topics, offset_syncs, too_loose
from twinlog.mirror.topics.remote_topics import new_remote_topics
from twinlog.mirror.topology.plugins import config_filter_of
from twinlog.mirror.topology.topology import Topology
from twinlog.model.acls import AclOperation, ResourceType, TopicAcl
from twinlog.model.topics import MAX_MESSAGE_BYTES, ConfigEntry, ConfigSource, NewTopic, Refusal, listed, own_settings
from twinlog.model.types import Alias, TopicName
from twinlog.ops.inventory import Inventory
from twinlog.ops.plan.flow_plan import NewRemoteTopic, PartitionGrowth, Problem, ProblemKind, SettingChange
from twinlog.settings.flow import FlowSettings

_BROKER_LIMIT = "message.max.bytes"


@dataclass(slots=True)
class PlanFindings:
    """The warnings of a plan."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, problems: Iterable[Problem], notes: Iterable[str] = ()) -> None:
        self.problems += problems
        self.notes += notes

    def refused(self, kind: ProblemKind, step: Callable[[], object]) -> bool:
        """Whether a step that a run takes, too, is refused: that is a problem then."""
        try:
            step()
        except RefusedError as error:
            self.problems.append(Problem.of(kind, error))
            return True
        return False


@dataclass(frozen=True, slots=True)
class PlannedChanges:
    """The changes of a flow, by the inventories of its clusters: `here` is the source, `there` the target.

    With `validates` the target is asked whether it would accept them, by requests that change nothing; otherwise only
    requests that read are sent.
    """

    flow: FlowSettings
    topology: Topology
    source: ClusterAdmin
    target: ClusterAdmin
    here: Inventory
    there: Inventory
    findings: PlanFindings
    validates: bool = True

    def creations(self, changes: TopicChanges) -> tuple[list[NewRemoteTopic], dict[TopicName, list[ConfigEntry]]]:
        """Remote topics to create, and the settings that they will have, as far as the target reports them."""
        new = new_remote_topics(self.flow, config_filter_of(self.flow), changes.create, self.here.configs)
        created, configs = self._validated(self.target, new)
        origin = {pair.remote: pair.source.name for pair in changes.create}
        return [
            NewRemoteTopic(
                self.flow.target, one.name, origin[one.name], one.partitions, one.replication_factor, one.configs
            )
            for one in created
        ], configs

    def internal(self) -> tuple[list[NewRemoteTopic], list[SettingChange]]:
        """The internal topics of the flow: topics to create, and settings of existing topics that are too weak."""
        topics = internal_topics(self.flow)
        missing = absent(topics, {self.flow.source: self.here.topics, self.flow.target: self.there.topics})
        found = []
        for admin in (self.source, self.target):
            wanted = [topic for topic in missing if topic.cluster == admin.alias]
            # Copying works even if this topic is missing.
            optional = {offset_syncs(self.flow).name} if self.flow.emit_offset_syncs else set()
            created, _ = self._validated(admin, [topic.new() for topic in wanted], optional)
            found += [
                NewRemoteTopic(Alias(admin.alias), one.name, None, one.partitions, one.replication_factor, one.configs)
                for one in created
            ]
        return found, self._bounds()

    def growth(self, changes: TopicChanges) -> tuple[PartitionGrowth, ...]:
        """Remote topics that get more partitions."""
        if not changes.grow:
            return ()
        wanted = {pair.remote: pair.source.partitions for pair in changes.grow}
        refused = self.target.validate_partitions(wanted) if self.validates else {}
        self._refusals(refused)
        return tuple(
            PartitionGrowth(pair.remote, self.there.topics[pair.remote].topic.partitions, pair.source.partitions)
            for pair in changes.grow
            if pair.remote not in refused or error_codes.refused(refused[pair.remote].code)
        )

    def settings(self, changes: TopicChanges) -> tuple[list[SettingChange], dict[TopicName, list[ConfigEntry]]]:
        """Settings of remote topics to change, and all settings of these topics as they will be."""
        if self.flow.sync_topic_configs_interval_s is None:
            return [], {}
        sync = ConfigSync(self.flow, self.source, self.target)
        decided = sync.decide_changes(changes.pairs, self.here.configs, self.there.configs)
        if not decided:
            return [], {}
        made, troubles = sync.rehearse(decided, self.there.configs) if self.validates else (dict(decided), [])
        for topic, wanted in decided.items():
            if self.there.may(AclOperation.ALTER_CONFIGS, topic) is False:
                made[topic] = wanted
        for trouble in troubles:
            self.findings.problems.append(
                Problem.of("permission" if isinstance(trouble, RefusedError) else "refused", trouble)
            )
        found, will_be = [], {}
        for topic, wanted in sorted(made.items()):
            before = own_settings(self.there.configs[topic])
            found += [
                SettingChange(self.flow.target, topic, change.name, before.get(change.name), change.value)
                for change in wanted
            ]
            new = {change.name: change.value for change in wanted if change.value is not None}
            will_be[topic] = [
                ConfigEntry(entry.name, new.get(entry.name, entry.value), entry.source)
                for entry in self.there.configs[topic]
            ]
        return found, will_be

    def acls(self, left_out: Callable[[TopicName], bool]) -> list[TopicAcl]:
        """ACLs to create on the target."""
        if self.flow.sync_topic_acls_interval_s is None or self.here.acls is None or self.there.acls is None:
            return []
        here, there = (
            [acl.of_topic for acl in inventory.lasting_acls if acl.resource == ResourceType.TOPIC]
            for inventory in (self.here, self.there)
        )
        return missing_acls(self.topology, here, there, left_out)

    def _bounds(self) -> list[SettingChange]:
        found = []
        for topic in internal_topics(self.flow):
            admin, inventory = (
                (self.source, self.here) if topic.cluster == self.flow.source else (self.target, self.there)
            )
            entries = inventory.configs.get(topic.name)
            if entries is None:
                continue
            missing, _ = too_loose(entries, topic.bounds)
            if missing and inventory.may(AclOperation.ALTER_CONFIGS, topic.name) is False:
                lacks = admin.client.lacks("ALTER_CONFIGS", f"topic {topic.name}", "keeping it small")
                self.findings.notes.append(str(lacks))
                continue
            before = {entry.name: entry.value for entry in entries}
            found += [
                SettingChange(topic.cluster, topic.name, name, before[name], value) for name, value in missing.items()
            ]
        return found

    def _validated(
        self, admin: ClusterAdmin, topics: Sequence[NewTopic], optional: Iterable[TopicName] = ()
    ) -> tuple[list[NewTopic], dict[TopicName, list[ConfigEntry]]]:
        """Return those of `topics` that the cluster would create, in the form it would accept, with all their
        settings."""
        if not topics:
            return [], {}
        configs: dict[TopicName, list[ConfigEntry]] = {}

        def send(some: Sequence[NewTopic]) -> dict[TopicName, Refusal]:
            refused, known = admin.validate_topics(some)
            configs.update(known)
            return refused

        if not self.validates:
            return list(topics), self._limits(admin, topics)
        refused, reduced = negotiate(topics, send, send)
        self._refusals({name: refusal for name, refusal in refused.items() if name not in optional})
        self.findings.notes += [f"{name}: {refused[name].text}" for name in optional if name in refused]
        self._reductions(admin, reduced)
        last = {topic.name: topic for topic in topics} | {one.topic.name: one.topic for one in reduced}
        # A topic that only lacks a permission is created once the permission is present.
        kept = {name for name, refusal in refused.items() if error_codes.refused(refusal.code)}
        made = [topic for name, topic in last.items() if name not in refused or name in kept]
        configs |= self._limits(admin, [topic for topic in made if topic.name not in configs])
        return made, configs

    def _limits(self, admin: ClusterAdmin, topics: Sequence[NewTopic]) -> dict[TopicName, list[ConfigEntry]]:
        """The record size limits of new topics, for a cluster that hides their future settings (before KIP-525)."""
        if not topics:
            return {}
        try:
            default = admin.call(read_broker_setting, admin.client, _BROKER_LIMIT)
        except RefusedError:
            default = None
        limits = {topic.name: topic.configs.get(MAX_MESSAGE_BYTES, default) for topic in topics}
        return {
            name: [ConfigEntry(MAX_MESSAGE_BYTES, limit, ConfigSource.STATIC_BROKER, False, False)]
            for name, limit in limits.items()
            if limit is not None
        }

    def _refusals(self, refused: dict[TopicName, Refusal]) -> None:
        reasons: dict[tuple[bool, str], list[TopicName]] = defaultdict(list)
        for name, refusal in refused.items():
            reasons[error_codes.refused(refusal.code), refusal.text].append(name)
        for (permission, text), names in reasons.items():
            if permission:
                self.findings.problems.append(Problem("permission", text))
            else:
                self.findings.problems.append(Problem("refused", f"{self.flow.target} refuses {listed(names)}: {text}"))

    def _reductions(self, admin: ClusterAdmin, reduced: Sequence[ReducedTopic]) -> None:
        """Note the settings that a run would leave out, so that topics are created all the same."""
        topics: dict[tuple[str, str, str], list[ReducedTopic]] = defaultdict(list)
        for one in reduced:
            topics[one.what, one.instead, one.why].append(one)
        for (what, instead, why), some in topics.items():
            text = (
                f"cluster {admin.alias} refuses {what} of {listed(one.topic.name for one in some)} ({why}); {instead}"
            )
            if some[0].topic.replication_factor == -1 and what.startswith("replication factor"):
                self.findings.problems.append(Problem("replication-factor", text))
            else:
                self.findings.notes.append(text)
