"""Reads the state of a flow from its target, and from its source if the target knows too little."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.errors.message_ids import told
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.record.last_records import KeptRecord
from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.mirror.heartbeats import HeartbeatTopics
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.records import Heartbeat
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.groups import CONNECT_PROTOCOL, TWINLOG_PROTOCOL, GroupMembers
from twinlog.model.topic_names import HEARTBEATS
from twinlog.model.types import GroupId, TopicName, TopicPartition
from twinlog.ops.status.last_report import LastReportReader, TopicTail
from twinlog.ops.status.readers import ClustersReader, ConnectorSnapshot, ConnectorsReader, SyncedOffsets, ask_twice
from twinlog.ops.status.state import (
    BY_OTHERS,
    ENDED,
    STALE_S,
    Clocks,
    FlowStatusFacts,
    ProcessSnapshot,
    ShownState,
    state_of,
)
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import WorkerSettings
from twinlog.worker.election.member import Leadership, Member
from twinlog.worker.status.report import DriverReport, TopicProgress, by_need
from twinlog.worker.status.topic_sums import bytes_of


@dataclass(frozen=True, slots=True)
class FlowSnapshot:
    """A flow at a moment.

    `lag` and the fields below it come from a fresh report. Otherwise, with `by_positions`, they come from the stored
    positions on the target and the ends of the source's logs. None is unknown, for the reason `lag_trouble`. With
    `by_syncs` another program copies, and offset syncs and the ends of remote topics count, too.
    """

    settings: FlowSettings
    facts: FlowStatusFacts
    state: ShownState
    by_positions: bool = False
    lag: int | None = None
    unknown: int = 0
    topics: tuple[TopicProgress, ...] = field(default=())
    lag_trouble: str | None = None
    by_syncs: bool = False

    @property
    def lag_s(self) -> float | None:
        """The age of the oldest record still to copy; 0 when all are copied, None when unknown."""
        if self.lag == 0 and not self.unknown:
            return 0.0
        report = self.report
        return None if self.lag is None or report is None else self.facts.age_s(report.oldest_ms)

    @property
    def lag_at_most_s(self) -> float | None:
        """The greatest possible age of a record still to copy, by the last report of a flow that has stopped reporting.

        None when this report lacks it.
        """
        last = self.facts.report
        return None if self.report is not None or last is None else self.facts.age_s(last.copied_until_ms)

    @property
    def lag_bytes(self) -> int | None:
        """The size of the records still to copy, None when unknown."""
        if self.lag is None or (self.unknown and not self.lag):
            return None
        if self.report is not None:
            return self.report.lag_bytes
        sizes = [topic.lag_bytes for topic in self.topics if topic.lag]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def uncopied(self) -> int | None:
        """The source offsets without a copy, with those of paused partitions; None when unknown, as for topics that
        lack a remote topic or a right."""
        report = self.report
        if self.lag is None or self.unknown or report is None:
            return None if self.unknown else self.lag
        hidden = any(reason == "missing right" for reason, _ in report.held_by_reason)
        if report.missing or hidden or (report.paused and report.paused_lag is None):
            return None
        return self.lag + (report.paused_lag or 0)

    @property
    def report(self) -> DriverReport | None:
        """The report of the process that runs the flow now."""
        return self.facts.running

    @property
    def held_report(self) -> DriverReport | None:
        """The report that has the held partitions: partitions that a process held stay held until another process runs
        the flow."""
        return self.report or (self.facts.report if self.facts.others is None else None)

    @property
    def runs(self) -> bool:
        """Whether a process reports now that it runs the flow."""
        return self.report is not None


class FlowReader(ClustersReader):
    """A flow; a repeated `read` reads only the new records."""

    def __init__(
        self,
        settings: FlowSettings,
        worker: WorkerSettings | None = None,
        *,
        connect: Connect = ClusterAdmin,
        connect_s: float = LOOK_CONNECT_S,
        clusters: tuple[ClusterAdmin, ClusterAdmin] | None = None,
    ) -> None:
        """`worker` has the settings of the connector's worker; `clusters` are the source and the target, which the
        caller closes."""
        self._connect_s = connect_s
        self.settings = settings
        self._source, self._target = clusters or both_clusters(settings, connect)
        self._topology = topology_of(settings)
        self._heartbeats = HeartbeatTopics(self._source, self._topology.heartbeat_names)
        self._reports = LastReportReader(settings, self._target)
        self._beats = TopicTail(self._target, HEARTBEATS)
        self._heartbeat_ms: int | None = None
        self._positions: PositionStore | None = None
        self._synced: SyncedOffsets | None = None
        self._clocks = Clocks(self._target.clock)
        self._connectors: ConnectorsReader | None = None
        self._workers: ClusterAdmin | None = None
        if settings.kind is None:
            # MirrorMaker 2 keeps this topic beside its positions.
            status_topic = f"mm2-status.{settings.source}.internal"
            self._connectors = ConnectorsReader(self._target, settings.group_id, status_topic)
        elif worker is not None and worker.group is not None:
            self._workers = connect(settings.target, worker.client)
            group = worker.group
            self._connectors = ConnectorsReader(self._workers, group.group_id, group.status_storage.name)
        own = (self._target, self._source) if clusters is None else ()
        super().__init__([one for one in (*own, self._workers) if one is not None])

    def read(self) -> FlowSnapshot:
        """How the flow does now. Raises RefusedError if a right on the target is missing; a silent cluster is a part of
        the snapshot."""
        trouble: str | None = None
        group = GroupMembers("", "", ())
        connector: ConnectorSnapshot | None = None
        try:
            group, connector = ask_twice(self._target, self._look)
        except RefusedError:
            raise
        except ClusterError as error:
            trouble = told(error, "TW-WAIT-01")
        seen = by_report(self.settings, self._facts(group, connector, trouble))
        if seen.report is None and trouble is None and self.settings.copies:
            return self._by_positions(seen)
        return seen

    def _look(self) -> tuple[GroupMembers, ConnectorSnapshot | None]:
        """Read the new records on the target. Raises ClusterError."""
        if not self._target.client.connected:
            self._target.connect(self._connect_s)
        self._reports.read_report()
        self._beats.read_last_records(self._take_beat, lambda: self._heartbeat_ms is not None)
        group = GroupMembers("", "", ())
        if self.settings.kind is None:
            group = self._target.call(GroupAdmin(self._target.client).described, GroupId(self.settings.group_id))
        connector = self._connector(group)
        self._compare_clocks(group, connector)
        return group, connector

    def _connector(self, group: GroupMembers) -> ConnectorSnapshot | None:
        """The report of workers about the connector that the flow is, or about the connectors of MirrorMaker 2 if it
        has the flow's group."""
        reader, settings = self._connectors, self.settings
        if reader is None or (settings.kind is None and group.protocol != CONNECT_PROTOCOL):
            return None
        if self._workers is not None and not self._workers.client.connected:
            self._workers.connect(self._connect_s)
        reader.read()
        if settings.kind is not None:
            return reader.connector(settings.name)
        seen = [reader.connector(name) for name in ("MirrorSourceConnector", "MirrorCheckpointConnector")]
        return next((one for one in seen if one is not None and one.failure is not None), seen[0])

    def _compare_clocks(self, group: GroupMembers, connector: ConnectorSnapshot | None) -> None:
        leads = {one.name for one in processes_of(group)[0] if one.leads}
        taken = connector is not None and self.settings.kind is not None and connector.members != 0
        report = self._reports.report
        if report is not None:
            self._clocks.compare(report, self._reports.read_report, lives=taken or report.process in leads)

    def _facts(self, group: GroupMembers, connector: ConnectorSnapshot | None, trouble: str | None) -> FlowStatusFacts:
        processes, since_s = processes_of(group)
        return FlowStatusFacts(
            self._clocks.now_ms,
            self._reports.report,
            self._heartbeat_ms,
            self.settings.emit_heartbeats_interval_s,
            self.settings.kind is None,
            processes,
            since_s,
            others_of(group, self.settings.group_id),
            trouble,
            connector,
            self._clocks.skew_ms / 1000,
            self._clocks.reports_on,
            beside=tuple(
                one
                for group, one in sorted(self._reports.others.items())
                if one.state not in ENDED and self._clocks.now_ms - one.at_ms <= STALE_S * 1000
            ),
            heartbeat_writer=self.settings.kind == "heartbeat",
        )

    def _take_beat(self, key: bytes, record: KeptRecord) -> None:
        if key == Heartbeat(self.settings.source_name, self.settings.target_name, 0).key:
            self._heartbeat_ms = max(record.timestamp, self._heartbeat_ms or 0)

    def _by_positions(self, seen: FlowSnapshot) -> FlowSnapshot:
        """The lag by stored positions, for a flow that has stopped reporting or that another program runs."""
        try:
            if self._positions is None:
                self._positions = PositionStore(self.settings, self._target)
            stored = self._positions.read_all()
            if not self._source.client.connected:
                self._source.connect(self._connect_s)
            there = self._source.topics()
            heartbeats = self._heartbeats.inspect_topics(there)
            wanted = [
                TopicPartition(name, number)
                for name, topic in there.items()
                if self._topology.mirrors(name) and not heartbeats.is_heartbeats(name)
                for number in range(topic.partitions)
            ]
            # The positions of a recreated topic are void: its records still wait.
            positions = {
                part: position
                for part in wanted
                if (position := stored.get(part)) is not None and not there[part.topic].recreated(position.topic_id)
            }
            committed = self.settings.consumer.isolation_level == "read_committed"
            ends = self._source.offsets(wanted, latest=True, read_committed=committed)
            without = [part for part in wanted if part not in positions]
            starts = self._source.offsets(without, latest=False)
            decided = self._positions.starts().offsets(there)
            starts = {part: max(start, decided.get(part, start)) for part, start in starts.items()}
            synced = self._read_syncs(wanted) if seen.state.word == BY_OTHERS else {}
        except TwinlogError as error:
            return _with(seen, None, 0, (), told(error), by_positions=True)
        mean_bytes = _mean_bytes(seen.facts.report)
        lag, unknown, topics = lag_by_positions(wanted, positions, starts, ends, mean_bytes, synced)
        return replace(_with(seen, lag, unknown, topics, None, by_positions=True), by_syncs=bool(synced))

    def _read_syncs(self, wanted: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """How far another program has copied since it stored positions. In transactions that program stores positions
        at once, and the transaction markers would count as records."""
        if self.settings.exactly_once == "enabled":
            return {}
        if self._synced is None:
            self._synced = SyncedOffsets(self.settings, self._source, self._target)
        topology = self._topology
        return self._synced.read(wanted, lambda part: TopicPartition(topology.remote_name(part.topic), part.partition))


def by_report(settings: FlowSettings, facts: FlowStatusFacts) -> FlowSnapshot:
    """A flow by its last report if this report is fresh; otherwise only the flow's state."""
    seen = FlowSnapshot(settings, facts, state_of(facts))
    report = seen.report
    if report is None:
        return seen
    lag = None if report.lag < 0 else report.lag
    return _with(seen, lag, report.unknown, report.topics, None, by_positions=False)


def lag_by_positions(
    wanted: list[TopicPartition],
    positions: Mapping[TopicPartition, Position],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    mean_bytes: float | None = None,
    synced: Mapping[TopicPartition, int] = MappingProxyType({}),
) -> tuple[int | None, int, tuple[TopicProgress, ...]]:
    """The lag of a flow in offsets, of how many partitions it is unknown, and both by topic.

    Of a partition that lacks a position, all records wait from its first offset, in `starts`; if it is in `synced`, it
    was copied at least up to there. `mean_bytes` is the mean size of a record, None if unknown.
    """
    sums: dict[TopicName, tuple[int, int, int]] = {}
    for part in wanted:
        partitions, lag, unknown = sums.get(part.topic, (0, 0, 0))
        position = positions.get(part)
        begin = position.next_source if position is not None else starts.get(part)
        if part in synced:
            begin = max(synced[part], begin or 0)
        end = ends.get(part)
        known = begin is not None and end is not None
        waits = max(0, end - begin) if begin is not None and end is not None else 0
        sums[part.topic] = partitions + 1, lag + waits, unknown + (not known)
    topics = [
        TopicProgress(topic, partitions, lag, unknown, bytes_of(lag, unknown, mean_bytes))
        for topic, (partitions, lag, unknown) in sums.items()
    ]
    unknown = sum(topic.unknown for topic in topics)
    known = sum(topic.partitions for topic in topics) > unknown or not topics
    return sum(topic.lag for topic in topics) if known else None, unknown, by_need(topics)


def _mean_bytes(report: DriverReport | None) -> float | None:
    """The mean size of the records that a process copied, None before its first record."""
    return None if report is None or not report.records else report.bytes / report.records


def processes_of(group: GroupMembers) -> tuple[tuple[ProcessSnapshot, ...], float | None]:
    """The processes that share a flow, the leader first, and since when that leads (Unix seconds)."""
    if group.protocol != TWINLOG_PROTOCOL or not group.members:
        return (), None
    leadership = Leadership.decode(next((one.assignment for one in group.members if one.assignment), b""))
    found = []
    for one in group.members:
        member = Member.decode(one.metadata)
        mate = leadership.mates.get(one.member_id)
        if one.metadata or mate is None:
            name, ready = member.name, member.ready
        else:
            # While the group chooses a new leader, a coordinator gives empty metadata.
            name, ready = mate.name, mate.ready
        leads = bool(leadership.term.runner) and leadership.term.runner == one.member_id
        found.append(ProcessSnapshot(name, leads, ready))
    return tuple(sorted(found, key=lambda one: (not one.leads, one.name))), leadership.term.since or None


def others_of(group: GroupMembers, name: str) -> str | None:
    """The members of another kind that have a flow's group, None if they are absent."""
    if group.protocol in ("", TWINLOG_PROTOCOL) or not group.members:
        return None
    found = sorted({f"{one.client_id} at {one.host}" for one in group.members})
    who = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    what = "MirrorMaker 2" if group.protocol == CONNECT_PROTOCOL else f"a program with the protocol {group.protocol}"
    return f"{what} runs it in group {name}: {who}"


def _with(
    seen: FlowSnapshot,
    lag: int | None,
    unknown: int,
    topics: tuple[TopicProgress, ...],
    trouble: str | None,
    *,
    by_positions: bool,
) -> FlowSnapshot:
    return FlowSnapshot(seen.settings, seen.facts, seen.state, by_positions, lag, unknown, topics, trouble)
