"""The records that a flow leaves uncopied until an operator acts, by its positions and commands.

Their source has deleted them, or they wait in held or paused partitions. The report of a flow has sums of topics only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.gaps import Gap
from twinlog.mirror.offsets.exact_map import SourceHole
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.amounts import counted
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.ops.audit.report import AuditPart, Finding, FindingKind, PartResult, Severity, limited
from twinlog.ops.inventory import logs_of, partitions_of
from twinlog.ops.plan.volume import gaps, remaining
from twinlog.ops.status.flow import FlowSnapshot
from twinlog.ops.status.readers import ask_twice
from twinlog.ops.status.state import BY_OTHERS
from twinlog.ops.switchover.stopped_partitions import PassedRange, passed_ranges
from twinlog.ops.verify.planner import compacted_topics
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control.journal import ControlJournal
from twinlog.worker.control.records import ControlState

MOST_RANGES = 5
"""The most ranges of a partition in the line of a finding."""


@dataclass(frozen=True, slots=True)
class LeftOutOffsets:
    """Source offsets of a partition between copies that lack a copy, and that the source has deleted since.

    `ranges` are the largest of `count` ranges, each from its first offset up to, excluding, its end. The offsets are
    `unclear` if they may be markers of transactions, aborted records, holes of compaction, or records that the flow
    drops.
    """

    partition: TopicPartition
    unclear: bool
    offsets: int
    count: int
    ranges: tuple[tuple[SourceOffset, SourceOffset], ...]

    def __str__(self) -> str:
        shown = ", ".join(str(first) if end - first == 1 else f"{first} to {end - 1}" for first, end in self.ranges)
        more = self.count - len(self.ranges)
        return f"{self.partition}: {counted(self.offsets, 'source offset')} ({shown}{f' and {more} more' * (more > 0)})"


@dataclass(frozen=True, slots=True)
class UncopiedRecords:
    """The uncopied records of a flow that twinlog runs, or has run last.

    The source deleted the records of `deleted` before their copy. `waiting` has the source offsets without a copy that
    the source still has, of each partition that has a leader. `passed` are the ranges that commands passed over, and
    `left_out` are further deleted offsets without a copy, by the exact maps, which begin at `mapped_from`.
    """

    deleted: Mapping[TopicPartition, Gap] = field(default_factory=dict)
    waiting: Mapping[TopicPartition, int] = field(default_factory=dict)
    paused: frozenset[TopicPartition] = frozenset()
    passed: tuple[PassedRange, ...] = ()
    left_out: tuple[LeftOutOffsets, ...] = ()
    mapped_from: Mapping[TopicPartition, int] = field(default_factory=dict)

    def offsets(self, partitions: Iterable[TopicPartition], topic: TopicName) -> int:
        """The deleted and the waiting offsets of the `partitions` of a topic."""
        chosen = [part for part in partitions if part.topic == topic]
        gone = (self.deleted[part] for part in chosen if part in self.deleted)
        return sum(gap.end - gap.first for gap in gone) + sum(self.waiting.get(part, 0) for part in chosen)


def read_uncopied(seen: FlowSnapshot, source: ClusterAdmin, target: ClusterAdmin) -> UncopiedRecords:
    """Read the positions and the commands of a flow; empty for a flow that other programs run, or that twinlog has yet
    to run. Raises ClusterError, and RefusedError if a right is missing."""
    flow, held = seen.settings, seen.held_report
    if held is None or seen.state.word == BY_OTHERS or not flow.copies:
        return UncopiedRecords()
    topology = topology_of(flow)
    topics = [topic for name, topic in ask_twice(source, source.topics).items() if topology.mirrors(name)]
    parts = partitions_of(topics)
    committed = flow.consumer.isolation_level == "read_committed"
    # A position that is stored between both reads may hide a record that waits, and invents no gap.
    logs = ask_twice(source, lambda: logs_of(source, parts, committed=committed))
    ids = {topic.name: topic for topic in topics}
    store = PositionStore(flow, target, optional=True)
    maps = MapStore(flow, target, store)
    ask_twice(target, maps.read)
    stored = maps.positions()
    begins = store.starts().offsets(ids)
    positions = {
        part: position
        for part, position in stored.items()
        if part.topic in ids and not ids[part.topic].recreated(position.topic_id)
    }
    asked: ControlState = ask_twice(target, ControlJournal(flow, target).read)
    paused = asked.pauses.paused(parts, topology.is_heartbeats)
    named = {one.source: one.resume_at for one in held.held_partitions}
    waiting = {}
    for part, log in logs.items():
        position, resume_at = positions.get(part), named.get(part, -1)
        cut_back = position is not None and 0 <= resume_at < position.next_source
        position = None if cut_back else position
        waiting[part] = remaining(log, position, SourceOffset(resume_at) if cut_back else begins.get(part))
    # The stored position of a partition that is copied now may be some seconds old.
    copied_now = seen.runs and held.held <= len(named)
    deleted = {
        part: gap
        for part, gap in gaps(topics, logs, positions).items()
        if gap.kind == "retention" and (not copied_now or part in named or part in paused)
    }
    passed = tuple(passed_ranges(asked.outcomes, logs))
    left_out = _read_left_out(flow, maps, {part: logs[part].start for part in positions if part in logs}, passed)
    unclear = _find_unclear(flow, source, {part.topic for part in left_out})
    remotes = {part: TopicPartition(topology.remote_name(part.topic), part.partition) for part in left_out}
    there = ask_twice(target, lambda: logs_of(target, sorted(remotes.values())))
    rows = [
        row
        for part, holes in sorted(left_out.items())
        if remotes[part] in there
        for row in _rows_of(part, holes, there[remotes[part]].start, everything=part.topic in unclear)
    ]
    with maps.lock:
        known = {part: exact for part in positions if (exact := maps.maps.map(part)) is not None}
        mapped_from = {part: exact.points(0, 1)[0].source for part, exact in known.items()}
    return UncopiedRecords(deleted, waiting, paused, passed, tuple(rows), mapped_from)


def _read_left_out(
    flow: FlowSettings,
    store: MapStore,
    starts: Mapping[TopicPartition, int],
    passed: Sequence[PassedRange],
) -> dict[TopicPartition, list[SourceHole]]:
    """The holes of the exact maps before the first offsets `starts` of the source, less the `passed` ranges."""
    known: dict[TopicPartition, list[PassedRange]] = defaultdict(list)
    for one in passed:
        known[one.partition].append(one)
    found = {}
    for part, start in starts.items():
        with store.lock:
            exact = store.maps.map(part)
            holes = [] if exact is None else [hole for hole in exact.source_holes() if hole.first < start]
        pieces = [
            piece
            for hole in holes
            for piece in _without(hole._replace(end=SourceOffset(min(hole.end, start))), known.get(part, ()))
        ]
        if pieces and not flow.heartbeat_names.is_heartbeats(part.topic):
            found[part] = pieces
    return found


def _without(hole: SourceHole, passed: Iterable[PassedRange]) -> list[SourceHole]:
    """The parts of a hole outside all ranges."""
    pieces = [hole]
    for one in passed:
        pieces = [
            rest
            for piece in pieces
            for rest in (
                piece._replace(end=min(piece.end, one.first)),
                piece._replace(first=max(piece.first, one.end)),
            )
            if rest.first < rest.end
        ]
    return pieces


def _find_unclear(flow: FlowSettings, source: ClusterAdmin, topics: Collection[TopicName]) -> Collection[TopicName]:
    """The topics of which each offset may lack a copy without a loss."""
    if not topics or flow.transform is not None or flow.consumer.isolation_level == "read_committed":
        return topics
    return ask_twice(source, lambda: compacted_topics(source, sorted(topics)))


def _rows_of(
    partition: TopicPartition, holes: Iterable[SourceHole], target_start: int, *, everything: bool
) -> Iterator[LeftOutOffsets]:
    """The holes whose earlier copies the target still has; a single offset may be the marker of a transaction."""
    seen = [hole for hole in holes if hole.target >= target_start]
    for unclear in (False, True):
        some = [(one.first, one.end) for one in seen if unclear is (everything or one.end - one.first == 1)]
        if some:
            largest = sorted(nlargest(MOST_RANGES, some, key=lambda one: one[1] - one[0]))
            offsets = sum(end - first for first, end in some)
            yield LeftOutOffsets(partition, unclear, offsets, len(some), tuple(largest))


def with_uncopied(flow: FlowSettings, result: PartResult, uncopied: UncopiedRecords) -> PartResult:
    """The part of gaps, by offset syncs, with the gaps by positions and commands; another part as it is."""
    if result.part is not AuditPart.GAPS:
        return result
    scopes = [result.scope] if result.scope else []
    scopes += [f"{counted(len(uncopied.waiting), 'partition')} by positions"] if uncopied.waiting else []
    findings = (*result.findings, *_deleted(flow, uncopied), *_passed(flow, uncopied), *_left_out(flow, uncopied))
    return replace(result, findings=findings, scope="; ".join(scopes))


def _deleted(flow: FlowSettings, uncopied: UncopiedRecords) -> list[Finding]:
    """A finding for each topic whose source deleted records that twinlog has yet to copy."""
    by_topic: dict[TopicName, dict[TopicPartition, Gap]] = defaultdict(dict)
    for part, gap in sorted(uncopied.deleted.items()):
        by_topic[part.topic][part] = gap
    found = []
    for topic, some in by_topic.items():
        count = sum(gap.end - gap.first for gap in some.values())
        verb = "was" if count == 1 else "were"
        text = f"{counted(count, 'record')} of {topic} {verb} deleted on {flow.source} before their copy"
        part, gap = next(iter(some.items()))
        way = f"the records are lost on both clusters unless another system has them; {gap.way_out(part, flow)}"
        lines = limited(gap.describe(part) for part, gap in some.items())
        found.append(Finding("gap", Severity.CRITICAL, AuditPart.GAPS, text, way, count, flow.name, lines))
    return found


def _passed(flow: FlowSettings, uncopied: UncopiedRecords) -> list[Finding]:
    """A note on the offsets that commands of operators passed over."""
    if not uncopied.passed:
        return []
    count = sum(one.end - one.first for one in uncopied.passed)
    text = f"{counted(count, 'source offset')} without a copy: commands of operators passed over them"
    way = "an operator accepted this loss; `twinlog topics restart-from` copies the records that the source still has"
    lines = limited(map(str, uncopied.passed))
    return [Finding("passed-over", Severity.NOTE, AuditPart.GAPS, text, way, count, flow.name, lines)]


def _left_out(flow: FlowSettings, uncopied: UncopiedRecords) -> list[Finding]:
    """Notes on the deleted offsets that exact maps show without a copy, the accepted losses first."""
    kinds: list[tuple[FindingKind, bool, str, str]] = [
        (
            "passed-over",
            False,
            f"{flow.key('gap_policy')} or a command of an operator passed over them",
            "the records are lost on both clusters unless another system has them",
        ),
        (
            "unclear-gap",
            True,
            "markers of transactions, aborted or dropped records, holes of compaction, or lost records",
            "compare with the systems that produced these topics",
        ),
    ]
    found = []
    for kind, unclear, why, way in kinds:
        rows = [one for one in uncopied.left_out if one.unclear is unclear]
        if rows:
            count = sum(one.offsets for one in rows)
            text = f"{counted(count, 'source offset')} without a copy, deleted on {flow.source} since: {why}"
            lines = limited(map(str, rows))
            found.append(Finding(kind, Severity.NOTE, AuditPart.GAPS, text, way, count, flow.name, lines))
    return found


def paused_findings(flow: FlowSettings, uncopied: UncopiedRecords) -> list[Finding]:
    """The records that wait in paused partitions; a note if no record waits there."""
    paused = sorted(uncopied.paused)
    if not paused:
        return []
    left = {part: uncopied.waiting[part] for part in paused if uncopied.waiting.get(part)}
    partitions = counted(len(paused), "partition")
    if not left:
        text = f"{partitions} {'is' if len(paused) == 1 else 'are'} paused, and every known record there is copied"
        way = f"`twinlog topics resume FILE {paused[0]} --flow {flow.as_option}` has later records copied"
        lines = limited(map(str, paused))
        return [Finding("paused", Severity.NOTE, AuditPart.LAG, text, way, len(paused), flow.name, lines)]
    count = sum(left.values())
    partitions = counted(len(left), "paused partition")
    text = f"{counted(count, 'record')} {'waits' if count == 1 else 'wait'} in {partitions}"
    way = (
        f"a failover now would leave them behind; `twinlog topics resume FILE {next(iter(left))} --flow "
        f"{flow.as_option}` has them copied"
    )
    lines = limited(f"{part}: {counted(waits, 'record')}" for part, waits in left.items())
    return [Finding("paused-records", Severity.CRITICAL, AuditPart.LAG, text, way, count, flow.name, lines)]
