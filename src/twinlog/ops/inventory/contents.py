"""The content of a cluster, as values, and the parts that could not be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.model.acls import Acl, AclOperation
from twinlog.model.groups import GroupListing, GroupOffsets
from twinlog.model.topics import ConfigEntry, DescribedTopic, Disk, Topic
from twinlog.model.types import GroupId, TopicName, TopicPartition


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """Offsets of a partition: its first offset, and the offset after its last record."""

    start: int
    end: int

    @property
    def offsets(self) -> int:
        """How many offsets lie between; a compacted log has fewer records."""
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class Inventory:
    """A cluster's content, as far as it was asked for and as this principal may see it.

    `operations` are the operations that the principal may perform on the cluster, None when unknown. `hidden` are
    topics with unreadable settings. `acls` is None if the cluster has no authorizer or the ACLs are unreadable.
    `quotas` are client quotas by entity, `users` have each user's SCRAM mechanisms; both are None if unread.
    `committed` are the offsets of each group. `sizes` are bytes of the largest replica of each partition. `unread` has
    a sentence for each part that could not be read, with the missing permission.
    """

    alias: str
    cluster_id: str | None
    brokers: tuple[int, ...]
    operations: frozenset[int] | None = None
    topics: Mapping[TopicName, DescribedTopic] = field(default_factory=dict)
    configs: Mapping[TopicName, Sequence[ConfigEntry]] = field(default_factory=dict)
    hidden: frozenset[TopicName] = frozenset()
    logs: Mapping[TopicPartition, LogOffsets] = field(default_factory=dict)
    sizes: Mapping[TopicPartition, int] | None = None
    disks: Sequence[Disk] = ()
    acls: Sequence[Acl] | None = None
    quotas: Mapping[str, Mapping[str, float]] | None = None
    users: Mapping[str, Sequence[str]] | None = None
    groups: Mapping[GroupId, GroupListing] = field(default_factory=dict)
    committed: Mapping[GroupId, GroupOffsets] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    @property
    def plain_topics(self) -> dict[TopicName, Topic]:
        """Its topics, reduced to name, id and number of partitions."""
        return {name: described.topic for name, described in self.topics.items()}

    def may(self, operation: AclOperation, topic: TopicName | None = None) -> bool | None:
        """Whether the principal may perform this operation on a topic, or on the cluster; None when unknown."""
        if topic is None:
            known = self.operations
        elif topic in self.topics:
            known = self.topics[topic].operations
        else:
            known = None
        return None if known is None else operation in known
