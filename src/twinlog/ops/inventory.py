"""The content of a cluster, as values, and its reader: each request covers many topics, partitions or groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import TypeVar

from twinlog.errors import RefusedError
from twinlog.errors.message_ids import told, without_id
from twinlog.kafka.admin.acls import describe_acls
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.admin.partition_states import LogDirs, describe_log_dirs
from twinlog.kafka.admin.topics import describe_cluster, describe_configs, describe_topics
from twinlog.kafka.admin.users import describe_quotas, describe_scram_users
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol import error_codes
from twinlog.mirror.topics.fence_notes import fences_on
from twinlog.model.acls import Acl, AclOperation, AclPermissionType, ResourceType, TopicAcl
from twinlog.model.groups import GROUPS_TOPIC, GroupListing, GroupOffsets
from twinlog.model.topics import ConfigEntry, DescribedTopic, Disk, Topic, listed
from twinlog.model.types import GroupId, TopicName, TopicPartition

T = TypeVar("T")

CHUNK = 500
"""Topics or groups between two reports of progress; the requests are smaller still."""

Progress = Callable[[str, int, int], None]
"""Called with the kind of content, the number read, and the total number."""


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
    topics with unreadable settings. `acls` is None if the cluster lacks an authorizer or the ACLs are unreadable;
    `fences` are the ACLs among them of twinlog's fences.
    `quotas` are client quotas by entity, `users` have each user's SCRAM mechanisms; both are None if unread.
    `committed` are the offsets of each group. `sizes` are bytes of the largest replica of each partition. `notes` has
    a sentence for each unreadable part, with its message id in front and the missing permission.
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
    fences: frozenset[TopicAcl] = frozenset()
    quotas: Mapping[str, Mapping[str, float]] | None = None
    users: Mapping[str, Sequence[str]] | None = None
    groups: Mapping[GroupId, GroupListing] = field(default_factory=dict)
    committed: Mapping[GroupId, GroupOffsets] = field(default_factory=dict)
    notes: tuple[tuple[Content, str], ...] = ()

    @property
    def unread(self) -> tuple[str, ...]:
        """A sentence for each unreadable part, without its message id."""
        return tuple(without_id(text) for _, text in self.notes)

    def unread_of(self, parts: Content) -> tuple[str, ...]:
        """A sentence for each unreadable part among `parts`, with its message id in front."""
        return tuple(text for part, text in self.notes if part in parts)

    @property
    def lasting_acls(self) -> list[Acl]:
        """The ACLs except for twinlog's fences, which twinlog removes."""
        return [acl for acl in self.acls or () if acl.resource != ResourceType.TOPIC or acl.of_topic not in self.fences]

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


class Content(Flag):
    """The parts of a cluster to read; topics and brokers are always read."""

    CONFIGS = auto()
    LOGS = auto()
    SIZES = auto()
    ACLS = auto()
    GROUPS = auto()
    """Groups and the committed offsets of each."""
    QUOTAS = auto()
    USERS = auto()
    """Users that log in by SCRAM."""


ALL = Content.CONFIGS | Content.LOGS | Content.SIZES | Content.ACLS | Content.GROUPS


def read_inventory(
    admin: ClusterAdmin,
    parts: Content = ALL,
    *,
    wanted: Callable[[TopicName], bool] = lambda _: True,
    committed: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Inventory:
    """Return the content of the cluster of `admin`, which is connected; only reads.

    Settings and logs are read of topics that are `wanted`. With `committed` a log ends at its last stable offset. A
    missing permission leaves its part out, with a sentence in `unread`. Raises ClusterError when the cluster fails to
    answer.
    """
    return _InventoryReader(admin, progress).read(parts, wanted, committed)


class _InventoryReader:
    def __init__(self, admin: ClusterAdmin, progress: Progress) -> None:
        self._admin = admin
        self._progress = progress
        self._notes: list[tuple[Content, str]] = []

    def read(self, parts: Content, wanted: Callable[[TopicName], bool], committed: bool) -> Inventory:
        admin = self._admin
        self._progress("topics", 0, 1)
        cluster = admin.call(describe_cluster, admin.client)
        cluster_id = admin.identity().cluster_id
        topics, _ = admin.call(describe_topics, admin.client)
        self._progress("topics", len(topics), len(topics))
        names = sorted(name for name in topics if wanted(name))
        configs, hidden = self._configs(names) if Content.CONFIGS in parts else ({}, set[TopicName]())
        logs = self._logs([topics[name].topic for name in names], committed) if Content.LOGS in parts else {}
        dirs = self._part(parts, Content.SIZES, describe_log_dirs)
        acls = self._part(parts, Content.ACLS, describe_acls)
        quotas = self._part(parts, Content.QUOTAS, describe_quotas)
        users = self._part(parts, Content.USERS, describe_scram_users)
        groups, offsets = self._groups() if Content.GROUPS in parts else ({}, {})
        sizes: LogDirs = dirs or LogDirs()
        return Inventory(
            alias=admin.alias,
            cluster_id=cluster_id,
            brokers=cluster.brokers,
            operations=cluster.operations,
            topics=topics,
            configs=configs,
            hidden=frozenset(hidden),
            logs=logs,
            sizes=None if dirs is None else sizes.sizes,
            disks=sizes.disks,
            acls=acls,
            fences=self._fences(acls or ()),
            quotas=quotas,
            users=users,
            groups=groups,
            committed=offsets,
            notes=tuple(self._notes),
        )

    def _part(
        self, parts: Content, part: Content, describe: Callable[[ClusterClient], Coroutine[object, object, T]]
    ) -> T | None:
        """Return the result of `describe` if `part` is among the wanted `parts`; None if the right is missing."""
        if part not in parts:
            return None
        try:
            return self._admin.call(describe, self._admin.client)
        except RefusedError as error:
            self._notes.append((part, told(error)))
            return None

    def _fences(self, acls: Sequence[Acl]) -> frozenset[TopicAcl]:
        if not any(acl.permission == AclPermissionType.DENY and acl.resource == ResourceType.TOPIC for acl in acls):
            return frozenset()
        try:
            return frozenset(fences_on(self._admin))
        except RefusedError as error:
            self._notes.append((Content.ACLS, f"{told(error)}; a fence counts as a lasting ACL"))
            return frozenset()

    def _configs(self, names: Sequence[TopicName]) -> tuple[dict[TopicName, list[ConfigEntry]], set[TopicName]]:
        found: dict[TopicName, list[ConfigEntry]] = {}
        hidden: set[TopicName] = set()
        for start in range(0, len(names), CHUNK):
            chunk = names[start : start + CHUNK]
            known, wrong = self._admin.call(describe_configs, self._admin.client, chunk)
            found.update(known)
            hidden.update(name for name, code in wrong.items() if error_codes.refused(code))
            self._progress("settings", start + len(chunk), len(names))
        if hidden:
            self._note_lack(Content.CONFIGS, "DESCRIBE_CONFIGS", f"topic {listed(hidden)}", "reading its settings")
        return found, hidden

    def _logs(self, topics: Sequence[Topic], committed: bool) -> dict[TopicPartition, LogOffsets]:
        found: dict[TopicPartition, LogOffsets] = {}
        for start in range(0, len(topics), CHUNK):
            chunk = topics[start : start + CHUNK]
            found.update(logs_of(self._admin, partitions_of(chunk), committed=committed))
            self._progress("log ends", start + len(chunk), len(topics))
        return found

    def _groups(self) -> tuple[dict[GroupId, GroupListing], dict[GroupId, GroupOffsets]]:
        admin = GroupAdmin(self._admin.client)
        groups = self._admin.call(admin.listed)
        names = sorted(name for name, group in groups.items() if group.commits)
        found: dict[GroupId, GroupOffsets] = {}
        hidden: set[GroupId] = set()
        for start in range(0, len(names), CHUNK):
            chunk = names[start : start + CHUNK]
            offsets, wrong = self._admin.call(admin.offsets, chunk)
            found.update(offsets)
            hidden.update(name for name, code in wrong.items() if error_codes.refused(code))
            broken = {name: code for name, code in wrong.items() if not error_codes.refused(code)}
            for name, code in broken.items():
                text = f"offsets of group {name} are unreadable: {error_codes.explain(code)}"
                self._notes.append((Content.GROUPS, f"cluster {self._admin.alias}: {text}"))
            self._progress("groups", start + len(chunk), len(names))
        if hidden:
            self._note_lack(Content.GROUPS, "DESCRIBE", f"group {listed(hidden)}", "reading its offsets")
        if unlisted := self._admin.call(admin.unlisted):
            text = f"partitions of {GROUPS_TOPIC} that lack a leader: {unlisted}; it leaves out their groups"
            self._notes.append((Content.GROUPS, f"cluster {self._admin.alias}: {text}"))
        return groups, found

    def _note_lack(self, part: Content, operation: str, resource: str, purpose: str) -> None:
        self._notes.append((part, told(self._admin.client.lacks(operation, resource, purpose))))


def logs_of(
    admin: ClusterAdmin, partitions: Sequence[TopicPartition], *, committed: bool = False
) -> dict[TopicPartition, LogOffsets]:
    """The log of each partition that has a leader; with `committed` it ends at its last stable offset."""
    first = admin.offsets(partitions, latest=False)
    following = admin.offsets(partitions, latest=True, read_committed=committed)
    return {
        part: LogOffsets(first[part], following[part]) for part in partitions if part in first and part in following
    }


def partitions_of(topics: Collection[Topic]) -> list[TopicPartition]:
    """Every partition of some topics."""
    return [TopicPartition(topic.name, number) for topic in topics for number in range(topic.partitions)]
