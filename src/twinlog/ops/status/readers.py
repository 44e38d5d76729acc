"""Readers of the facts of a flow's clusters: groups, reports of connectors, and the progress of other programs.

Kafka's own workers and MirrorMaker 2 report only the states of connectors and tasks.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.last_records import KeptRecord, LastRecords, taken
from twinlog.kafka.retry import MOVING_COORDINATOR
from twinlog.mirror.offsets.syncs import OffsetSync, decode_offset_sync
from twinlog.model.amounts import counted
from twinlog.model.groups import MEMBERLESS, GroupListing, GroupOffsets
from twinlog.model.types import GroupId, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

T = TypeVar("T")

TRIES = 3
"""The number of times that a group is asked for offsets in transactions while its coordinator moves each time."""

_CONNECTOR, _TASK = b"status-connector-", b"status-task-"

MOST = 4_000
"""The number of syncs that are read before the end: earlier syncs are older than stored positions."""


def ask_twice(cluster: ClusterAdmin, look: Callable[[], T]) -> T:
    """Return the result of `look`; if a connected cluster fails to answer, call `look` a second time.

    By the time that a hanging broker is given up, another broker leads in its place. Raises ClusterError, and
    RefusedError at once.
    """
    try:
        return look()
    except RefusedError:
        raise
    except ClusterError:
        if not cluster.client.connected:
            raise
    return look()


class ClustersReader:
    """Reads from `clusters`, which it closes; a context manager."""

    def __init__(self, clusters: Sequence[ClusterAdmin]) -> None:
        self._clusters = clusters

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to all clusters."""
        for cluster in self._clusters:
            cluster.close()

    def waits(self) -> list[str]:
        """The requests that a method, on another thread, waits for just now, in words."""
        return [text for cluster in self._clusters if (text := cluster.waits()) is not None]


@dataclass(slots=True)
class ClusterGroups:
    """The groups of a cluster: their listings, and their committed offsets."""

    listed: Mapping[GroupId, GroupListing] = field(default_factory=dict)
    offsets: Mapping[GroupId, GroupOffsets] = field(default_factory=dict)
    in_transaction: frozenset[GroupId] = frozenset()
    """Groups with further commits in open transactions."""
    silent: Mapping[GroupId, str] = field(default_factory=dict)
    """Groups that lack a coordinator, with the reason: their committed offsets are unknown."""
    unlisted: int = 0
    """As `GroupAdmin.unlisted`; 0 if groups were named."""

    def state(self, group: GroupId) -> str | None:
        return self.listed[group].state or None if group in self.listed else None

    def active(self, group: GroupId) -> bool:
        return group in self.listed and self.listed[group].state not in MEMBERLESS

    def other_kind(self, group: GroupId) -> str | None:
        """The kind of a group that is unable to commit offsets, for example a share group; None for consumer groups."""
        known = self.listed.get(group)
        return None if known is None or known.commits else f"a {known.protocol or known.kind} group"


def read_groups(cluster: ClusterAdmin, wanted: Sequence[GroupId], known: Sequence[GroupId] = ()) -> ClusterGroups:
    """Return the `wanted` groups, or all groups that the cluster lists, and the groups `known` from elsewhere.

    While a coordinator moves, its groups are missing from every list. Raises ClusterError, and RefusedError if a right
    is missing.
    """
    admin = GroupAdmin(cluster.client)
    groups = ClusterGroups(cluster.call(admin.listed))
    names = [name for name in wanted or {**groups.listed, **dict.fromkeys(known)} if groups.other_kind(name) is None]
    for _ in range(TRIES):
        if not names:
            break
        # Offsets committed in between count in both answers, or are reported as pending.
        _, wrong = cluster.call(admin.stable_offsets, names)
        groups.in_transaction |= {group for group, code in wrong.items() if code == Code.UNSTABLE_OFFSET_COMMIT}
        offsets, silent = read_offsets(cluster, names)
        groups.offsets, groups.silent = {**groups.offsets, **offsets}, {**groups.silent, **silent}
        # Groups whose coordinator moved in between may have committed more.
        names = [group for group in offsets if wrong.get(group) in error_codes.RETRIABLE]
    if any(group not in groups.listed for group, offsets in groups.offsets.items() if offsets):
        # By now its coordinator answers and tells whether the group has members.
        groups.listed = cluster.call(admin.listed)
    if not wanted:
        groups.unlisted = cluster.call(admin.unlisted)
    return groups


def read_offsets(
    cluster: ClusterAdmin, groups: Sequence[GroupId]
) -> tuple[Mapping[GroupId, GroupOffsets], Mapping[GroupId, str]]:
    """Return the committed offsets of groups, and the reason for each group whose coordinator is missing.

    Waits while a coordinator moves or loads. Raises ClusterError, and RefusedError if a right is missing.
    """
    if not groups:
        return {}, {}
    admin = GroupAdmin(cluster.client)
    found: dict[GroupId, GroupOffsets] = {}
    deadline = cluster.clock.monotonic() + MOVING_COORDINATOR.patience_s
    left = list(groups)
    while True:
        news, wrong = cluster.call(admin.offsets, left)
        found.update(news)
        for group, code in wrong.items():
            if error_codes.refused(code):
                raise cluster.client.lacks("DESCRIBE", f"group {group}", "reading its offsets")
        left = [group for group, code in wrong.items() if code in error_codes.RETRIABLE]
        if len(left) < len(wrong) or not left or cluster.clock.monotonic() >= deadline:
            break
        if not cluster.call(admin.kept):
            return found, {}
        cluster.clock.sleep(MOVING_COORDINATOR.first_s)
    why = {
        group: f"offsets of group {group} are unreadable: {error_codes.explain(code)}" for group, code in wrong.items()
    }
    for group, code in wrong.items():
        if code != Code.COORDINATOR_NOT_AVAILABLE:
            raise ClusterError(f"cluster {cluster.alias}: {why[group]}")
    return found, why


@dataclass(frozen=True, slots=True)
class ReportedState:
    """The last status of a connector or of a task, written `at_ms` (Unix), by the worker that has it, host:port."""

    state: str
    worker: str
    at_ms: int
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorSnapshot:
    """A connector as its workers see it; `reported` is None if their status topic lacks a connector of this name.

    `members` is the number of workers in the group, None if the right to ask is missing.
    """

    group: str
    name: str
    members: int | None
    reported: ReportedState | None = None
    tasks: tuple[ReportedState, ...] = field(default=())

    @property
    def at_ms(self) -> int:
        """When the last of all was written (Unix time)."""
        return max((one.at_ms for one in (self.reported, *self.tasks) if one is not None), default=0)

    @property
    def failure(self) -> str | None:
        """The reason why the connector or a task of it failed, in a line; None while all run."""
        if self.reported is not None and self.reported.state == "FAILED":
            return _first_line(self.reported)
        failed = [one for one in self.tasks if one.state == "FAILED"]
        return f"{len(failed)} of {counted(len(self.tasks), 'task')}: {_first_line(failed[0])}" if failed else None


class ConnectorsReader:
    """The connectors of a group of workers, over borrowed connections; each `read` reads the new records."""

    def __init__(self, cluster: ClusterAdmin, group: str, status_topic: str) -> None:
        self._cluster = cluster
        self._group = group
        self._reader = TopicReader(cluster, TopicName(status_topic), optional=True)
        self._news: LastRecords = {}
        self._connectors: dict[str, ReportedState | None] = {}
        self._tasks: dict[str, dict[int, ReportedState | None]] = defaultdict(dict)
        self._members: int | None = None
        self._hidden = False

    def read(self) -> None:
        """Look at the group and its topic. Raises ClusterError; if a right on the group or on the topic is missing,
        that part stays unknown."""
        self._members, self._hidden = None, False
        try:
            described = self._cluster.call(GroupAdmin(self._cluster.client).described, GroupId(self._group))
            self._members = len(described.members)
        except RefusedError:
            pass
        try:
            self._reader.read_last(self._news)
        except RefusedError:
            self._hidden = True
            return
        for key, (value, at_ms) in taken(self._news, _value_and_time):
            reported = _reported(value, at_ms)
            if key.startswith(_CONNECTOR):
                self._connectors[key.removeprefix(_CONNECTOR).decode(errors="replace")] = reported
            elif key.startswith(_TASK):
                name, _, number = key.removeprefix(_TASK).decode(errors="replace").rpartition("-")
                if number.isdecimal():
                    self._tasks[name][int(number)] = reported

    def connector(self, name: str) -> ConnectorSnapshot | None:
        """A connector by its last read status; None if the topic is unreadable and all connectors are therefore
        unknown."""
        if self._hidden:
            return None
        tasks = [reported for _, reported in sorted(self._tasks.get(name, {}).items()) if reported is not None]
        return ConnectorSnapshot(self._group, name, self._members, self._connectors.get(name), tuple(tasks))


def _value_and_time(kept: KeptRecord) -> tuple[bytes | None, int]:
    return kept.value(), kept.timestamp


def _reported(value: bytes | None, at_ms: int) -> ReportedState | None:
    """A status as Kafka class KafkaStatusBackingStore writes it; None if it was deleted or is malformed."""
    try:
        found = json.loads(value or b"null")
        return ReportedState(str(found["state"]), str(found["worker_id"]), at_ms, found.get("trace"))
    except (ValueError, TypeError, KeyError):
        return None


def _first_line(reported: ReportedState) -> str:
    return (reported.trace or "").strip().partition("\n")[0] or f"worker {reported.worker} hides the reason"


class SyncedOffsets:
    """The newest offset sync of each partition of a flow, and the number of records that the target received after it;
    `read` may be called repeatedly."""

    def __init__(self, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
        self._target = target
        here = source if settings.offset_syncs_location == "source" else target
        self._reader = TopicReader(here, TopicName(settings.offset_syncs_topic), optional=True, last=MOST)
        self._news: LastRecords = {}
        self._newest: dict[TopicPartition, OffsetSync] = {}

    def read(
        self, wanted: Iterable[TopicPartition], remote: Callable[[TopicPartition], TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Return the next source offset to copy of each partition with a known sync; if the source has holes, the
        result is below the true offset. Raises ClusterError; if the right to read syncs is missing, the result is
        empty."""
        try:
            self._reader.read_last(self._news)
        except RefusedError:
            return {}
        for _, record in taken(self._news, KeptRecord.decode):
            sync = decode_offset_sync(record.key, record.value)
            if sync is not None:
                self._newest[sync.source] = sync
        synced = {part: self._newest[part] for part in wanted if part in self._newest}
        ends = self._target.offsets([remote(part) for part in synced], latest=True) if synced else {}
        return {
            part: sync.upstream + end - sync.downstream
            for part, sync in synced.items()
            if (end := ends.get(remote(part), -1)) > sync.downstream
        }
