"""How much is left to copy, and what can no longer be."""

from __future__ import annotations

from uuid import UUID

import pytest

from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topics.changes import TopicPair
from twinlog.model.topics import ConfigEntry, ConfigSource, Topic
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.ops.inventory import LogOffsets
from twinlog.ops.plan.volume import gaps, leaderless, remaining, to_copy

TOPIC, REMOTE = TopicName("t"), TopicName("east.t")
FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


@pytest.mark.parametrize(
    ("log", "position", "begin", "left"),
    [
        (LogOffsets(10, 30), None, None, 20),
        (LogOffsets(10, 30), None, 30, 0),
        (LogOffsets(10, 30), None, 25, 5),
        (LogOffsets(10, 30), 25, 30, 5),
        (LogOffsets(10, 30), 30, None, 0),
        # What retention took cannot be copied.
        (LogOffsets(10, 30), 3, None, 20),
        (LogOffsets(10, 30), None, 3, 20),
        # The source log was cut back.
        (LogOffsets(10, 30), 40, None, 0),
        (LogOffsets(0, 0), None, None, 0),
    ],
)
def test_what_is_left_of_a_partition(log: LogOffsets, position: int | None, begin: int | None, left: int) -> None:
    stored = None if position is None else Position(SourceOffset(position))
    assert remaining(log, stored, None if begin is None else SourceOffset(begin)) == left


def test_bytes_are_the_share_of_the_log_that_is_left() -> None:
    pairs = [TopicPair(Topic(TOPIC, 2), REMOTE), TopicPair(Topic(TopicName("empty"), 1), TopicName("east.empty"))]
    logs = {
        FIRST: LogOffsets(0, 100),
        SECOND: LogOffsets(50, 100),
        TopicPartition(TopicName("empty"), 0): LogOffsets(7, 7),
    }
    sizes = {FIRST: 1000, SECOND: 600}
    positions = {FIRST: Position(SourceOffset(75))}
    configs = {TOPIC: [ConfigEntry("cleanup.policy", "compact,delete", ConfigSource.TOPIC)]}
    (found,) = to_copy(pairs, logs, sizes, positions, configs, {})
    assert (found.topic, found.remote, found.partitions) == (TOPIC, REMOTE, 2)
    assert (found.records, found.bytes, found.compacted) == (25 + 50, 250 + 600, True)
    (found,) = to_copy(pairs, logs, None, positions, {}, {})
    assert (found.bytes, found.compacted) == (None, False)


def test_of_a_partition_that_no_broker_leads_nothing_is_known() -> None:
    assert leaderless([TopicPair(Topic(TOPIC, 2), REMOTE)], {FIRST: LogOffsets(0, 1)}) == [SECOND]


def test_gaps_are_found_before_a_run_meets_them() -> None:
    known = UUID(int=7)
    logs = {FIRST: LogOffsets(10, 30), SECOND: LogOffsets(0, 30)}
    positions = {FIRST: Position(SourceOffset(3)), SECOND: Position(SourceOffset(12), topic_id=str(known))}
    found = gaps([Topic(TOPIC, 2, known)], logs, positions)
    assert {part: gap.kind for part, gap in found.items()} == {FIRST: "retention"}
    found = gaps([Topic(TOPIC, 2, UUID(int=8))], logs, positions)
    assert {part: gap.kind for part, gap in found.items()} == {FIRST: "retention", SECOND: "recreated"}
    assert gaps([Topic(TOPIC, 2, known)], {FIRST: LogOffsets(0, 5)}, {}) == {}
