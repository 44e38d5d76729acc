"""The differences of two clusters by their inventories, as values and as lines for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from twinlog.mirror.topics.acls import remote_acl
from twinlog.mirror.topics.configs import differences as setting_differences
from twinlog.mirror.topics.configs import wanted_settings
from twinlog.mirror.topology.filters import DefaultConfigPropertyFilter, DefaultGroupFilter
from twinlog.mirror.topology.naming import DefaultReplicationPolicy
from twinlog.mirror.topology.topology import Topology
from twinlog.model.acls import EVERY_TOPIC, Acl, AclIndex, PatternType, ResourceType
from twinlog.model.amounts import counted
from twinlog.model.topic_names import HeartbeatNames
from twinlog.model.topics import ConfigEntry, own_settings
from twinlog.model.types import Alias, GroupId, TopicName, TopicPartition
from twinlog.ops.inventory import Inventory
from twinlog.ops.plan.flow_plan import limited

Kind = Literal["topic", "partitions", "replicas", "setting", "acl", "quota", "user", "group", "lag"]

_SECTIONS = (
    ("topics", ("topic", "partitions", "replicas")),
    ("settings", ("setting",)),
    ("ACLs", ("acl",)),
    ("quotas", ("quota",)),
    ("SCRAM users", ("user",)),
    ("consumer groups", ("group", "lag")),
)


@dataclass(frozen=True, slots=True)
class ClusterDifference:
    """A difference; `left` and `right` are the contents of each cluster, None if absent.

    `what` is the topic (with its name on the right cluster if it differs), the group, the ACL, the entity of a quota,
    or the user. `detail` is the setting, the quota, the partition, or the value that a flow requests instead.
    """

    kind: Kind
    what: str
    left: str | None
    right: str | None
    detail: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "what": self.what,
            "detail": self.detail,
            "left": self.left,
            "right": self.right,
        }


class TopicPairing:
    """Pairs the topics of two clusters; here each topic has the same name on both."""

    words = "topics of equal names"

    def __init__(self) -> None:
        self._policy = DefaultReplicationPolicy()

    def right(self, topic: TopicName) -> TopicName | None:
        """The name on the right cluster of a topic of the left; None if it is left out."""
        return None if self._policy.is_internal(topic) else topic

    def left(self, topic: TopicName) -> TopicName | None:
        """The name on the left cluster of a topic of the right; None if it is left out."""
        return self.right(topic)

    def follows(self, group: GroupId) -> bool:
        """Whether a group is compared."""
        return True

    def settings(self, left: Sequence[ConfigEntry], right: Sequence[ConfigEntry]) -> list[tuple[str, str, str]]:
        """Settings that differ, wherever they come from: name, left and right value."""
        there = {entry.name: entry for entry in right if not entry.sensitive}
        return [
            (entry.name, str(entry.value), str(there[entry.name].value))
            for entry in left
            if entry.name in there and not entry.sensitive and entry.value != there[entry.name].value
        ]

    def replicas(self, left: int) -> int | None:
        """The required replicas of the right topic if the left topic has `left` replicas; None if any number will
        do."""
        return left

    def acl(self, acl: Acl) -> Acl | None:
        """The ACL that the right cluster should have for an ACL of the left; None if it may lack it."""
        return acl


class FlowTopicPairing(TopicPairing):
    """Topics of a flow's source and their copies, by its replication policy and its filters."""

    def __init__(
        self,
        topology: Topology,
        groups: DefaultGroupFilter,
        configs: DefaultConfigPropertyFilter,
        name: str,
        replication_factor: int = -1,
    ) -> None:
        """-1 replicas are the broker's default, which may be any number."""
        super().__init__()
        self._replicas = None if replication_factor < 1 else replication_factor
        self.words = f"topics and their copies, as {name} names them"
        self._topology = topology
        self._groups = groups
        self._configs = configs

    @property
    def heartbeat_names(self) -> HeartbeatNames:
        """The known names of heartbeats topics, which are left out."""
        return self._topology.heartbeat_names

    def add_aliases(self, aliases: Iterable[Alias]) -> None:
        """More aliases of clusters are known: topics that begin with them may hold heartbeats."""
        self._topology = self._topology.knowing(aliases)

    def right(self, topic: TopicName) -> TopicName | None:
        # Each cluster has its own heartbeats.
        if not self._topology.mirrors(topic) or self._topology.is_heartbeats(topic):
            return None
        return self._topology.remote_name(topic)

    def left(self, topic: TopicName) -> TopicName | None:
        if self._topology.policy.is_internal(topic) or self._topology.is_heartbeats(topic):
            return None
        upstream = self._topology.source_topic(topic)
        return upstream if upstream is not None and self._topology.mirrors(upstream) else None

    def follows(self, group: GroupId) -> bool:
        return self._groups.accepts(group)

    def settings(self, left: Sequence[ConfigEntry], right: Sequence[ConfigEntry]) -> list[tuple[str, str, str]]:
        """By the flow's own rules: excluded settings, and settings left to the target's default, are left out."""
        before = own_settings(right)
        return [
            (change.name, change.value or "default", before.get(change.name) or "default")
            for change in setting_differences(wanted_settings(left, self._configs), right)
        ]

    def replicas(self, left: int) -> int | None:
        return self._replicas

    def acl(self, acl: Acl) -> Acl | None:
        if acl.resource != ResourceType.TOPIC:
            return acl
        remote = remote_acl(self._topology, acl.of_topic)
        return None if remote is None else Acl(ResourceType.TOPIC, *_fields(remote))

    def on_copies(self, acl: Acl) -> Acl | None:
        """The same ACL for the copies of its topics; None if the flow copies none of them."""
        if acl.resource != ResourceType.TOPIC or (acl.name, acl.pattern) == (EVERY_TOPIC, PatternType.LITERAL):
            return acl
        topic = TopicName(acl.name)
        if acl.pattern != PatternType.PREFIXED and not self._topology.mirrors(topic):
            return None
        return replace(acl, name=self._topology.remote_name(topic))


def _fields(acl: Any) -> tuple[str, str, str, int, int, int]:
    return acl.topic, acl.principal, acl.host, acl.operation, acl.permission, acl.pattern


def compare_clusters(left: Inventory, right: Inventory, names: TopicPairing) -> list[ClusterDifference]:
    """Every difference, by kind and name."""
    pairs = {name: there for name in left.topics if (there := names.right(name)) is not None}
    return [
        *_topics(left, right, names, pairs),
        *_settings(left, right, names, pairs),
        *_acls(left, right, names),
        *_quotas(left, right),
        *_users(left, right),
        *_groups(left, right, names, pairs),
    ]


def _shown(here: TopicName, there: TopicName) -> str:
    return here if here == there else f"{here} / {there}"


def _topics(
    left: Inventory, right: Inventory, names: TopicPairing, pairs: Mapping[TopicName, TopicName]
) -> Iterable[ClusterDifference]:
    for here, there in sorted(pairs.items()):
        count = left.topics[here].topic.partitions
        if there not in right.topics:
            yield ClusterDifference("topic", _shown(here, there), counted(count, "partition"), None)
        elif (other := right.topics[there].topic.partitions) != count:
            yield ClusterDifference("partitions", _shown(here, there), str(count), str(other))
        mine, theirs = left.topics[here].replicas, right.topics[there].replicas if there in right.topics else None
        wanted = names.replicas(mine)
        if theirs is not None and wanted is not None and theirs != wanted:
            # Both sides may have equal numbers that still differ from the flow's number.
            asked = None if wanted == mine else f"replication.factor = {wanted}"
            yield ClusterDifference("replicas", _shown(here, there), str(mine), str(theirs), asked)
    for there in sorted(right.topics):
        origin = names.left(there)
        if origin is not None and origin not in left.topics:
            count = right.topics[there].topic.partitions
            yield ClusterDifference("topic", _shown(origin, there), None, counted(count, "partition"))


def _settings(
    left: Inventory, right: Inventory, names: TopicPairing, pairs: Mapping[TopicName, TopicName]
) -> Iterable[ClusterDifference]:
    for here, there in sorted(pairs.items()):
        if here in left.configs and there in right.configs:
            for setting, mine, theirs in sorted(names.settings(left.configs[here], right.configs[there])):
                yield ClusterDifference("setting", _shown(here, there), mine, theirs, setting)


def _acls(left: Inventory, right: Inventory, names: TopicPairing) -> Iterable[ClusterDifference]:
    if left.acls is None or right.acls is None:
        return
    wanted, present = wanted_acls(left, names), compared_acls(right, names)
    here, there = AclIndex(wanted), AclIndex(right.lasting_acls)
    yield from (ClusterDifference("acl", str(acl), "yes", None) for acl in sorted(wanted) if not there.gives(acl))
    yield from (ClusterDifference("acl", str(acl), None, "yes") for acl in sorted(present) if not here.gives(acl))


def wanted_acls(left: Inventory, names: TopicPairing) -> set[Acl]:
    """The ACLs that the right cluster should have for the lasting ACLs of the left."""
    return {there for acl in left.lasting_acls if (there := names.acl(acl)) is not None}


def compared_acls(right: Inventory, names: TopicPairing) -> set[Acl]:
    """The lasting ACLs of the right cluster for resources that both clusters share."""
    return {
        acl
        for acl in right.lasting_acls
        if acl.resource != ResourceType.TOPIC or names.left(TopicName(acl.name)) is not None
    }


def _quotas(left: Inventory, right: Inventory) -> Iterable[ClusterDifference]:
    if left.quotas is None or right.quotas is None:
        return
    for whom in sorted({*left.quotas, *right.quotas}):
        mine, theirs = left.quotas.get(whom, {}), right.quotas.get(whom, {})
        for quota in sorted({*mine, *theirs}):
            if mine.get(quota) != theirs.get(quota):
                yield ClusterDifference("quota", whom, _rate(mine.get(quota)), _rate(theirs.get(quota)), quota)


def _rate(value: float | None) -> str | None:
    return None if value is None else f"{value:.15g}"


def _users(left: Inventory, right: Inventory) -> Iterable[ClusterDifference]:
    """Users that log in by SCRAM: by name and mechanism, as brokers keep the credentials secret."""
    if left.users is None or right.users is None:
        return
    for user in sorted({*left.users, *right.users}):
        mine, theirs = (", ".join(side.users.get(user, ())) or None for side in (left, right) if side.users is not None)
        if mine != theirs:
            yield ClusterDifference("user", user, mine, theirs)


def _groups(
    left: Inventory, right: Inventory, names: TopicPairing, pairs: Mapping[TopicName, TopicName]
) -> Iterable[ClusterDifference]:
    """Groups by how far behind they are: their offsets are other numbers on the other cluster."""
    here, there = _lags(left, names, pairs.get), _lags(right, names, lambda topic: topic)
    copies = set(pairs.values())
    there = {group: {part: lag for part, lag in lags.items() if part.topic in copies} for group, lags in there.items()}
    for group in sorted({*here, *there}):
        mine, theirs = here.get(group, {}), there.get(group, {})
        if not mine or not theirs:
            if mine or theirs:
                yield ClusterDifference("group", group, _partitions(mine), _partitions(theirs))
            continue
        for part in sorted({*mine, *theirs}):
            if mine.get(part) != theirs.get(part):
                yield ClusterDifference("lag", group, _lag(mine.get(part)), _lag(theirs.get(part)), str(part))


def _lags(
    inventory: Inventory, names: TopicPairing, name: Callable[[TopicName], TopicName | None]
) -> dict[GroupId, dict[TopicPartition, int]]:
    """How many offsets each group is behind, by partition as the right cluster names it."""
    found: dict[GroupId, dict[TopicPartition, int]] = {}
    for group, offsets in inventory.committed.items():
        if not names.follows(group):
            continue
        found[group] = {
            TopicPartition(topic, where.partition): max(0, inventory.logs[where].end - committed.offset)
            for where, committed in offsets.items()
            if (topic := name(where.topic)) is not None and where in inventory.logs
        }
    return found


def _partitions(lags: Mapping[TopicPartition, int]) -> str | None:
    return counted(len(lags), "partition") if lags else None


def _lag(lag: int | None) -> str | None:
    return None if lag is None else f"{lag} behind"


def diff_lines(
    left: str, right: str, compared: str, found: Sequence[ClusterDifference], *, everything: bool = False
) -> list[str]:
    """The differences, in sections; each section is shortened unless `everything` is set."""
    if not found:
        return [f"{left} and {right}: no difference ({compared})"]
    lines = [f"{left} | {right}: {counted(len(found), 'difference')} ({compared})"]
    for title, kinds in _SECTIONS:
        section = [f"    {_line(one, left, right)}" for one in found if one.kind in kinds]
        if section:
            lines += [f"  {title}", *limited(section, everything)]
    return lines


def _line(one: ClusterDifference, left: str, right: str) -> str:
    what = one.what if one.detail is None else f"{one.what}: {one.detail}"
    if one.kind == "acl":
        return f"- {what}: only on {left}" if one.right is None else f"+ {what}: only on {right}"
    if one.right is None:
        return f"- {what}: {one.left} on {left}, none on {right}"
    if one.left is None:
        return f"+ {what}: none on {left}, {one.right} on {right}"
    more = f" {one.kind}" if one.kind in ("partitions", "replicas") else ""
    return f"~ {what}: {one.left} | {one.right}{more}"
