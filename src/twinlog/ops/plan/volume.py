"""The first offset of the copying of each partition, and the amount that is still to be copied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from twinlog.clock import wall_ms
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.gaps import Gap, find_gap
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.starts import AT_FIRST, ChosenTopics, StoredStarts
from twinlog.mirror.topics.changes import TopicPair
from twinlog.model.amounts import counted, shown_moment
from twinlog.model.held import gap_id
from twinlog.model.topics import ConfigEntry, Topic, is_compacted, listed
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.ops.inventory import LogOffsets
from twinlog.ops.plan.deciding import PlanFindings
from twinlog.ops.plan.flow_plan import Problem, TopicCopyPlan
from twinlog.settings.client import ConsumerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of
from twinlog.worker.topics.starts import differs, find_places, first_start, plan_topics


def remaining(log: LogOffsets, position: Position | None, begin: SourceOffset | None = None) -> int:
    """Offsets of a partition that are still to be copied; if it lacks a position it begins at `begin`, or at its first
    offset."""
    next_source = position.next_source if position is not None else log.start if begin is None else begin
    return max(0, log.end - max(next_source, log.start))


def to_copy(
    pairs: Iterable[TopicPair],
    logs: Mapping[TopicPartition, LogOffsets],
    sizes: Mapping[TopicPartition, int] | None,
    positions: Mapping[TopicPartition, Position],
    configs: Mapping[TopicName, Iterable[ConfigEntry]],
    begins: Mapping[TopicPartition, SourceOffset],
) -> list[TopicCopyPlan]:
    """The part to copy of each pair with remaining records; its bytes are a share of the log's bytes, by offsets.

    `begins` has partitions that lack a position and begin after their first record.
    """
    found = []
    for pair in pairs:
        parts = [TopicPartition(pair.source.name, number) for number in range(pair.source.partitions)]
        left = {part: remaining(logs[part], positions.get(part), begins.get(part)) for part in parts if part in logs}
        size = None
        if sizes is not None:
            size = sum(
                round(sizes.get(part, 0) * offsets / logs[part].offsets) for part, offsets in left.items() if offsets
            )
        if any(left.values()):
            compacted = is_compacted(configs.get(pair.source.name, ()))
            busy = sum(offsets > 0 for offsets in left.values())
            found.append(TopicCopyPlan(pair.source.name, pair.remote, busy, sum(left.values()), size, compacted))
    return found


def left_paused(
    flow: FlowSettings,
    paused: Collection[TopicPartition],
    logs: Mapping[TopicPartition, LogOffsets],
    positions: Mapping[TopicPartition, Position],
    begins: Mapping[TopicPartition, SourceOffset],
) -> list[str]:
    """A note on the partitions that operators paused, and on their records, which a run leaves uncopied."""
    if not paused:
        return []
    known = [part for part in paused if part in logs]
    records = sum(remaining(logs[part], positions.get(part), begins.get(part)) for part in known)
    names = listed(map(str, sorted(paused)))
    text = f"{counted(len(paused), 'paused partition')} with {counted(records, 'record')} to copy, which a run leaves "
    return [f"{text}uncopied: {names}; `twinlog topics resume FILE TOPIC --flow {flow.as_option}` ends a pause"]


def leaderless(pairs: Iterable[TopicPair], logs: Mapping[TopicPartition, LogOffsets]) -> list[TopicPartition]:
    """Partitions that lack a leader now, so that their amount to copy is unknown."""
    return [
        part
        for pair in pairs
        for part in (TopicPartition(pair.source.name, number) for number in range(pair.source.partitions))
        if part not in logs
    ]


def gaps(
    topics: Iterable[Topic], logs: Mapping[TopicPartition, LogOffsets], positions: Mapping[TopicPartition, Position]
) -> dict[TopicPartition, Gap]:
    """Partitions of which records are gone before they were copied, or whose topic was recreated."""
    found: dict[TopicPartition, Gap] = {}
    for topic in topics:
        for number in range(topic.partitions):
            part = TopicPartition(topic.name, number)
            position, log = positions.get(part), logs.get(part)
            if position is None or log is None:
                continue
            recreated = topic.recreated(position.topic_id)
            gap = find_gap(position.next_source, SourceOffset(log.start), SourceOffset(log.end), recreated=recreated)
            if gap is not None:
                found[part] = gap
    return found


@dataclass(frozen=True, slots=True)
class PlannedStarts:
    """The planned starts.

    `begins` are offsets of partitions that begin after their first record, `notes` are for people, and `nowhere` are
    topics that are kept from beginning (`auto.offset.reset = none`).
    """

    begins: Mapping[TopicPartition, SourceOffset]
    notes: tuple[str, ...]
    nowhere: tuple[str, ...]


def planned_starts(
    flow: FlowSettings,
    source: ClusterAdmin,
    topics: Sequence[Topic],
    logs: Mapping[TopicPartition, LogOffsets],
    positions: Collection[TopicPartition],
    stored: StoredStarts,
) -> PlannedStarts:
    """Return the first offsets of the partitions of `topics` that are outside of `positions`.

    `stored` are earlier decisions of the flow.

    Asks the source for offsets by time, for topics that begin at a time. Raises ClusterError.
    """
    now = wall_ms(source.clock)
    chosen = ChosenTopics.of(flow)
    first = first_start(stored.first, chosen, now)
    mine = [topic for topic in topics if differs(flow, topic.name)]
    plans = [plan for plan in plan_topics(mine, stored.topics, first, positions) if any(plan.begins) or plan.asked]
    find_places(plans, flow, source, first.at_ms, now=first.at_ms == now and first != stored.first)
    begins: dict[TopicPartition, SourceOffset] = {}
    passed: dict[tuple[str, str], int] = defaultdict(int)
    later: dict[str, list[str]] = defaultdict(list)
    for plan in plans:
        name, start = plan.topic.name, flow.start_of(plan.topic.name)
        key = flow.start_key(name)
        if plan.later:
            later[key].append(name)
        for number, begin in enumerate(plan.begins):
            part = TopicPartition(name, number)
            log = logs.get(part)
            if begin is None or begin == AT_FIRST or log is None:
                continue
            begins[part] = SourceOffset(log.end) if begin.offset is None else begin.offset
            when = (
                "there already" if start.kind == "latest" else f"older than {shown_moment(start.since_ms(first.at_ms))}"
            )
            passed[key, when] += max(0, min(begins[part], log.end) - log.start)
    notes = [f"left out, as {key}: {counted(count, 'record')} {when}" for (key, when), count in passed.items()]
    notes += [
        f"{listed(names)} appeared after the flow's first start, or have partitions that did: as it lacks a position, "
        f"each begins at its earliest record instead of {key}"
        for key, names in later.items()
    ]
    nowhere = [
        topic.name
        for topic in topics
        if flow.start_of(topic.name).kind == "none"
        and any(TopicPartition(topic.name, number) not in positions for number in range(topic.partitions))
    ]
    return PlannedStarts(begins, tuple(notes), tuple(nowhere))


def look_at_starts(
    flow: FlowSettings,
    source: ClusterAdmin,
    pairs: Sequence[TopicPair],
    logs: Mapping[TopicPartition, LogOffsets],
    positions: Mapping[TopicPartition, Position],
    starts: PlannedStarts,
    findings: PlanFindings,
) -> None:
    """Note the first offsets of partitions: gaps, a reset that refuses, offsets that will differ on the target."""
    for part, gap in _confirmed_gaps(flow, source, pairs, logs, positions).items():
        text = gap.describe(part)
        policy = flow.held_policy("gap", part.topic)
        if policy in ("hold", "stop"):
            result = "the partition is held" if policy == "hold" else "the flow stops on it"
            way_out = gap.way_out(part, flow)
            findings.problems.append(Problem("gap", f"{text}; {result}; {way_out}", gap_id(gap.kind)))
        else:
            findings.notes.append(f"{text}; the flow continues at offset {gap.resume_at}")
    mirrored = {pair.source.name for pair in pairs}
    fresh = {part: log for part, log in logs.items() if part.topic in mirrored and part not in positions}
    findings.notes += starts.notes
    if starts.nowhere:
        reset = key_of(ConsumerSettings, "auto_offset_reset")
        text = f"the consumer of {flow.source} has {reset} = none, and some partitions lack a position"
        text = f"{text}: of {listed(starts.nowhere)}; set earliest or latest"
        findings.problems.append(Problem("gap", text, "TW-START-01"))
    moved = {part.topic for part, log in fresh.items() if log.start > 0 and not flow.keeps_offsets(part.topic)}
    if moved:
        findings.notes.append(
            f"{listed(moved)}: older records are deleted already, so that offsets on {flow.target} begin at 0 and "
            "differ from here; offsets that are kept outside Kafka have to be translated (twinlog translate)"
        )


def _confirmed_gaps(
    flow: FlowSettings,
    source: ClusterAdmin,
    pairs: Sequence[TopicPair],
    logs: Mapping[TopicPartition, LogOffsets],
    positions: Mapping[TopicPartition, Position],
) -> Mapping[TopicPartition, Gap]:
    """As `gaps`. Positions were read after the logs, and a running flow may have stored some after the ends that
    were read: ends are asked for once more before a log counts as cut back."""
    topics = [pair.source for pair in pairs]
    found = gaps(topics, logs, positions)
    behind = [part for part, gap in found.items() if gap.kind == "truncation"]
    if not behind:
        return found
    committed = flow.consumer.isolation_level == "read_committed"
    ends = source.offsets(behind, latest=True, read_committed=committed)
    moved = {part: replace(logs[part], end=end) for part, end in ends.items()}
    return gaps(topics, {**logs, **moved}, positions)
