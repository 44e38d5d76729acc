"""The topics of a flow: finds source topics, creates and grows their remote topics, logs the omitted topics."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf

from twinlog.errors import RefusedError
from twinlog.errors.message_ids import with_id
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.admin.topics import describe_configs
from twinlog.kafka.protocol import error_codes
from twinlog.mirror.heartbeats import HeartbeatTopics
from twinlog.mirror.offsets.position_store import StoredPositions
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topics.changes import TopicChanges, TopicPair, compare, copyable
from twinlog.mirror.topics.checks import check_two_clusters, misread_topics, past_filter, warn_of_misread_topics
from twinlog.mirror.topics.remote_topics import TopicMirror
from twinlog.mirror.topology.topology import nothing_mirrored, topology_of
from twinlog.model.topics import (
    DEFAULT_MAX_MESSAGE_BYTES,
    MAX_MESSAGE_BYTES,
    ConfigChange,
    Topic,
    largest_batch,
    listed,
)
from twinlog.model.types import TopicName, TopicPartition
from twinlog.process.log_once import LogOnce
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of
from twinlog.worker.topics.hidden_topics import TopicLists
from twinlog.worker.topics.other_copiers import OtherCopiers
from twinlog.worker.topics.refused_topics import RefusedTopics
from twinlog.worker.topics.renamed_topics import RenamedTopics
from twinlog.worker.topics.starts import PartitionStarts
from twinlog.worker.topics.topic_conflicts import TopicConflicts, refusal_id

log = logging.getLogger(__name__)

ELSEWHERE_S = 5.0
"""The seconds between two looks whether another process has left a topic of the flow."""


class TopicRefresh:
    """The topics of a flow; `refresh` finds new topics. `flows` are all flows of the file.

    `partitions` are the source partitions that can be copied, with their remote partitions.
    """

    def __init__(
        self,
        settings: FlowSettings,
        flows: Sequence[FlowSettings],
        source: ClusterAdmin,
        target: ClusterAdmin,
        positions: StoredPositions,
        connect: Connect = ClusterAdmin,
    ) -> None:
        self.partitions: dict[TopicPartition, TopicPartition] = {}
        self.pairs: tuple[TopicPair, ...] = ()
        """Mirrored topics whose remote topic exists."""
        self.nothing: str | None = None
        """The reason why the flow mirrors heartbeats at most; None while it mirrors another topic."""
        self.only_copies = False
        """Whether all source topics are copies from the target; then the filters did not cause an empty selection."""
        self.copied_elsewhere: dict[TopicName, str] = {}
        """Source topics that a process of another group copies now, each with the reason to leave them out."""
        self._elsewhere_at = inf
        """When to look at other processes again, in monotonic seconds."""
        self._source = source
        self._target = target
        self._positions = positions
        self._connect = connect
        self._follow(settings, flows)
        self._lists = TopicLists(settings.name, source, target, positions)
        self._topic_ids: dict[TopicName, str | None] = {}
        self._limits: dict[TopicName, int] = {}
        self._refused = RefusedTopics(settings.name, target.clock)
        self._originals: dict[TopicName, TopicName] = {}
        """Source topics by their remote topics."""
        self._left_out: dict[TopicName, str] = {}
        self._target_topics: Mapping[TopicName, Topic] = {}
        self._from_target: dict[TopicName, str] = {}
        self._one_cluster = False
        self._misread: frozenset[TopicName] = frozenset()
        """Topics of `_from_target` that may be originals: their originals were missing when the flow first saw them."""
        self._seem_copies: frozenset[TopicName] = frozenset()
        """Topics that by their names came from a cluster of the flow, although the original is missing there."""
        self._seen: frozenset[TopicName] | None = None

    def _follow(self, settings: FlowSettings, flows: Sequence[FlowSettings]) -> None:
        topology, mirror = topology_of(settings), TopicMirror(settings, self._source, self._target)
        conflicts = TopicConflicts(settings, flows, self._target, self._positions, self._connect)
        self._settings, self._flows = settings, flows
        self._topology, self._mirror, self._conflicts = topology, mirror, conflicts
        self._heartbeats = HeartbeatTopics(self._source, topology.heartbeat_names)
        self._others = OtherCopiers(settings, self._target)
        self._renamed = RenamedTopics(settings, self._positions, self._target)
        self.starts = PartitionStarts(settings, self._source, self._target, self._positions)
        self._aliases = {alias for flow in flows for alias in (flow.source_name, flow.target_name)}
        self._logged = LogOnce(self._target.clock)

    def change_settings(self, settings: FlowSettings, flows: Sequence[FlowSettings]) -> None:
        """Continue with changed settings of this flow, or of other flows; the caller calls `refresh` afterwards.

        `refresh` then tries refused topics again. Raises ConfigError if a user's class is unusable; the old settings
        then stay.
        """
        if (settings, list(flows)) == (self._settings, list(self._flows)):
            return
        conflicts, renamed = self._conflicts, self._renamed
        same = settings.renamed_topic_policy == self._settings.renamed_topic_policy
        self._follow(settings, flows)
        if same:
            # Topics that continue under another name are known in that object.
            self._renamed = renamed
        conflicts.close()
        if self._one_cluster:
            self._conflicts.within_one_cluster()
        self._refused.retry_all()

    def check_clusters(self) -> None:
        """Find out whether source and target are the same cluster.

        Raises ClusterError, and RefusedError when the flow must not run within a single cluster.
        """
        if not self._one_cluster and check_two_clusters(
            *(self._settings, self._topology, self._source, self._target),
        ):
            self.within_one_cluster()

    def within_one_cluster(self) -> None:
        """Source and target are the same cluster: each copied or routed topic is also a topic of the source."""
        self._one_cluster = True
        self._conflicts.within_one_cluster()

    def create_internal_topics(self) -> None:
        """Create the topics that the flow keeps for itself. Raises RefusedError or ClusterError."""
        self._mirror.create_internal_topics()

    def refresh(self) -> None:
        """Bring the remote topics up to date. Raises ClusterError or RefusedError."""
        source, target = self._lists.read_both(self._topology)
        changes = self.decide_topics(source, target)
        self.starts.decide_starts([pair.source for pair in changes.pairs])
        create = self._refused.due(changes.create)
        grow = self._refused.due(changes.grow)
        self._originals = {pair.remote: pair.source.name for pair in changes.pairs}
        self._refused.keep_lacking((*changes.create, *changes.grow))
        self._refused.note_attempts(create, self._mirror.create(create) if create else {})
        self._refused.note_attempts(grow, self._mirror.grow(grow) if grow else {})
        self._refused.pause_busy((*create, *grow))
        self._log_missing(changes, source, target)
        if create or grow:
            target = self._lists.read_target()
        remote = copyable(changes, target)
        copied = {part.topic for part in remote.values()}
        self._limits.update(self._read_limits(sorted(copied - set(self._limits))))
        for gone in set(self._limits) - copied:
            self._limits.pop(gone, None)
        self._topic_ids = {
            pair.source.name: None if pair.source.topic_id is None else str(pair.source.topic_id)
            for pair in changes.pairs
        }
        self.pairs = tuple(pair for pair in changes.pairs if pair.remote in target)
        self._lists.use_pairs(changes.pairs, target)
        self._target_topics = target
        self.partitions = remote

    def decide_topics(self, source: Mapping[TopicName, Topic], target: Mapping[TopicName, Topic]) -> TopicChanges:
        """The topics to mirror, to create and to grow, decided from the topics of both clusters; a read-only method.

        Records of a topic are read if its name leaves open whether it holds heartbeats. Afterwards `left_out` has the
        topics that another reason than the filters leaves out. Raises ClusterError, and RefusedError when the naming
        was changed and the flow must stop.
        """
        self._topology = self._topology.knowing(self._heartbeats.inspect_topics(source).aliases)
        changes = self._without_left_out(compare(self._topology, source, target), target)
        self._renamed.find_renamed_topics(changes.pairs, target)
        self._target_topics = target
        return changes

    @property
    def left_out(self) -> dict[TopicName, str]:
        """Source topics that pass the filters and that the flow leaves to other flows, each with the reason."""
        return {**self._left_out, **self.copied_elsewhere, **self._from_target}

    @property
    def missing(self) -> dict[TopicName, str]:
        """Source topics whose remote topic still has to be created or grown on the target, each with the reason.

        The file spells out some of them, and the source hides them from the login.
        """
        refused, originals = self._refused.reasons, self._originals
        found = {originals[remote]: reason for remote, reason in refused.items() if remote in originals}
        return {**self._lists.unknown, **found}

    def is_heartbeats(self, topic: TopicName) -> bool:
        """Whether a source topic holds heartbeats, in contrast to records of a user."""
        return self._topology.is_heartbeats(topic)

    def topic_id(self, topic: TopicName) -> str | None:
        """The id of a source topic; None before Kafka 2.8."""
        return self._topic_ids.get(topic)

    def limit(self, remote: TopicName) -> int:
        """The largest batch that a remote topic takes, in bytes."""
        return self._limits.get(remote, DEFAULT_MAX_MESSAGE_BYTES)

    def leaves_out(self, topic: TopicName) -> bool:
        """Whether a source topic of this name would be copied in a cycle; the topic may be absent."""
        return self._conflicts.reports_a_cycle(topic, self._target_topics)

    def position(self, partition: TopicPartition, remote: TopicName, stored: Position | None) -> Position | None:
        """The position at which a source partition continues; `stored` may belong to a remote topic of another name."""
        return self._renamed.position(partition, remote, stored)

    @property
    def refused_topics(self) -> frozenset[TopicName]:
        """The source topics whose remote topics the target refuses now."""
        return frozenset(self.missing)

    @property
    def due_at(self) -> float:
        """The earliest time at which a refresh may find a change: a busy target refused topics, or another process
        copies topics of the flow.

        In monotonic seconds; infinite if a refresh can wait for its interval.
        """
        return min(self._refused.busy_until, self._elsewhere_at)

    @property
    def refused(self) -> str | None:
        """The names of refused remote topics, and the reason of the first of them; None if the target takes all.

        Without a refused remote topic: the hidden source topics that the file spells out.
        """
        if refused := self._refused.summary:
            return refused
        unknown = self._lists.unknown
        return f"{listed(unknown)}: {unknown[min(unknown)]}" if unknown else None

    def invalidate_configs(self, changes: Mapping[TopicName, Sequence[ConfigChange]]) -> None:
        """Read changed settings of remote topics again at their next use."""
        for topic, made in changes.items():
            if any(change.name == MAX_MESSAGE_BYTES for change in made):
                self._limits.pop(topic, None)

    def require_all(self) -> None:
        """Raise RefusedError if the flow leaves out a topic that has to be mirrored, or may have to be.

        Heartbeats are exempt. A refused remote topic is in `refused` without an error, because the flow copies the
        other topics.
        """
        topics, exclude, separator = (key_of(FlowSettings, name) for name in ("topics", "topics_exclude", "separator"))
        misread = {
            topic: f"not mirrored: {self._from_target[topic]}, but the original is missing there; write its name in "
            f"full in `{topics}` if it is a topic of its own, or in `{exclude}`"
            for topic in self._misread
            if not self._conflicts.name_heartbeats(topic)
        }
        seem_copies = {
            topic: f"not mirrored: by its name it is a copy, and its original is missing; write it in `{exclude}` if "
            f"it should stay out, or choose another {separator}"
            for topic in self._seem_copies
            if not self.is_heartbeats(topic)
        }
        reasons = {**self._left_out, **self.copied_elsewhere, **seem_copies, **misread}
        if reasons:
            raise RefusedError(
                "; ".join(f"{topic}: {reason}" for topic, reason in sorted(reasons.items())), message_id="TW-TOPIC-10"
            )

    def close(self) -> None:
        self._conflicts.close()

    def _read_limits(self, remotes: Sequence[TopicName]) -> dict[TopicName, int]:
        admin = self._target
        known, failed = admin.call(describe_configs, admin.client, remotes)
        hidden = [name for name, code in failed.items() if error_codes.refused(code)]
        if hidden:
            error = admin.client.lacks(
                "DESCRIBE_CONFIGS", f"topic {listed(hidden)}", "knowing the largest batch it takes"
            )
            log.warning(
                "TW-TOPIC-17: %s: %s; the default is taken, and what the target refuses is split",
                *(self._settings.name, error),
            )
        found = dict.fromkeys(hidden, DEFAULT_MAX_MESSAGE_BYTES)
        for name, entries in known.items():
            found[name] = largest_batch(entries) or DEFAULT_MAX_MESSAGE_BYTES
        return found

    def _without_left_out(self, changes: TopicChanges, target: Mapping[TopicName, Topic]) -> TopicChanges:
        from_target = self._conflicts.from_target(changes.pairs)
        fresh = [topic for topic in from_target if topic not in self._from_target]
        misread = [topic for topic in fresh if self._conflicts.lacks_original(topic, target)]
        copies = [topic for topic in fresh if topic not in misread]
        if copies:
            log.info(
                "%s: not mirrored, as other flows of the file name their copies so: %s",
                self._settings.name,
                listed(copies),
            )
        if misread:
            log.warning(
                "TW-TOPIC-05: %s: not mirrored, as other flows of the file name their copies so, though %s has no "
                "topic of "
                "which they would be copies: %s; if they are topics of their own, write their names in full in "
                "`topics`",
                *(self._settings.name, self._settings.target, listed(misread)),
            )
        self._misread = self._misread.intersection(from_target).union(misread)
        self._from_target = from_target
        changes = changes.without(from_target)
        left_out = self._conflicts.refusals(changes.pairs, target)
        reasons: dict[str, list[TopicName]] = defaultdict(list)
        for topic, reason in left_out.items():
            if self._left_out.get(topic) != reason:
                reasons[reason].append(topic)
        for reason, topics in reasons.items():
            log.error(
                "%s", with_id(f"{self._settings.name}: not mirrored: {listed(topics)}: {reason}", refusal_id(reason))
            )
        self._left_out = left_out
        return self._without_elsewhere(changes.without(left_out), target)

    def _without_elsewhere(self, changes: TopicChanges, target: Mapping[TopicName, Topic]) -> TopicChanges:
        """Leave topics to processes of another group that copy them now; heartbeats may come from several processes."""
        copied = {part.topic for part in self.partitions}
        names = [pair.source.name for pair in changes.pairs if not pair.heartbeats]
        elsewhere = self._others.refusals(names, copied, target)
        reasons: dict[str, list[TopicName]] = defaultdict(list)
        for topic, reason in elsewhere.items():
            if self.copied_elsewhere.get(topic) != reason:
                reasons[reason].append(topic)
        for reason, topics in reasons.items():
            log.warning("TW-TOPIC-25: %s: not copied here: %s: %s", self._settings.name, listed(topics), reason)
        free = [topic for topic in names if topic in self.copied_elsewhere and topic not in elsewhere]
        if free:
            log.info("%s: copied here from now on: %s", self._settings.name, listed(free))
        self.copied_elsewhere = elsewhere
        # MirrorMaker 2 may also begin to copy a topic that is copied here.
        looks = elsewhere or (self._settings.has_own_group and self._settings.refresh_topics_interval_s is not None)
        self._elsewhere_at = self._target.clock.monotonic() + ELSEWHERE_S if looks else inf
        return changes.without(elsewhere)

    def _log_missing(
        self, changes: TopicChanges, source: Mapping[TopicName, Topic], target: Mapping[TopicName, Topic]
    ) -> None:
        """Log the topics that the flow leaves out, with the reasons, so that its silence is explained."""
        settings = self._settings
        # Only new topics: the original of an old copy may have been deleted meanwhile.
        fresh = source.keys() - (self._seen or frozenset())
        if fresh:
            seem_copies, mirrored = misread_topics(
                *(self._topology, self._aliases, source, target), one_cluster=self._one_cluster
            )
            seem_copies = [topic for topic in seem_copies if topic in fresh]
            self._seem_copies = self._seem_copies.union(seem_copies)
            warn_of_misread_topics(settings, seem_copies, mirrored if self._seen is None else ())
        passing = [
            pair.source.name
            for pair in changes.pairs
            if pair.source.name in fresh and self._topology.mirrors_past_filter(pair.source.name)
        ]
        passing = [name for name in passing if self._logged.is_new(("past the filter", name))]
        if passing:
            log.warning("TW-TOPIC-20: %s: %s", settings.name, past_filter(settings, passing))
        self._seen = frozenset(source)
        self._seem_copies = self._seem_copies.intersection(source)
        gone = sorted(pair.source.name for pair in self.pairs if pair.source.name not in source)
        if gone:
            log.warning(
                "TW-TOPIC-08: %s: gone from %s: %s; what was copied stays on %s",
                settings.name,
                settings.source,
                listed(gone),
                settings.target,
            )
        # Heartbeats are mirrored regardless of `topics`, and so are topics that pass as heartbeats.
        topology, policy = self._topology, self._topology.policy
        seen = [name for name in sorted(source) if not (policy.is_internal(name) or topology.is_heartbeats(name))]
        seen = [name for name in seen if not topology.mirrors_past_filter(name)]
        self.nothing = None
        own = [name for name in seen if name not in self._from_target and not self._topology.came_from_target(name)]
        self.only_copies = bool(seen) and not own
        if not {pair.source.name for pair in changes.pairs}.intersection(seen):
            self.nothing = nothing_mirrored(self._topology, seen, self.left_out)
            if self._logged.is_new("idle"):
                message_id = "TW-TOPIC-10" if seen else "TW-TOPIC-11"
                # TW-TOPIC-25 has the long reason of each of these topics.
                brief = dict.fromkeys(self.copied_elsewhere, "another process copies it now")
                text = nothing_mirrored(self._topology, seen, {**self.left_out, **brief})
                log.warning("%s: %s: %s", message_id, settings.name, text)
