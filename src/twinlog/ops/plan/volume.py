"""How much of a topic is still to be copied: from logs, stored positions and sizes to offsets and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinlog.mirror.gaps import Gap, find_gap
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topics.changes import TopicPair
from twinlog.model.topics import ConfigEntry, Topic, value_of
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.ops.inventory.contents import LogOffsets
from twinlog.ops.plan.flow_plan import TopicCopyPlan


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
            compacted = "compact" in (value_of(configs.get(pair.source.name, ()), "cleanup.policy") or "")
            busy = sum(offsets > 0 for offsets in left.values())
            found.append(TopicCopyPlan(pair.source.name, pair.remote, busy, sum(left.values()), size, compacted))
    return found


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
