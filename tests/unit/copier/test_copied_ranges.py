"""What becomes a row of Spark's: one range for each partition, from where the last one ended."""

from __future__ import annotations

from twinlog.copier.reporter import CopiedRange, CopiedRanges
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition

T0, T1 = (TopicPartition(TopicName("t"), number) for number in range(2))


def at(source: int, target: int | None) -> Position:
    return Position(SourceOffset(source), None if target is None else TargetOffset(target))


def test_ranges_follow_each_other() -> None:
    ranges = CopiedRanges()
    ranges.add(T0, at(5, None), at(8, 3), 3, 300, 2)
    ranges.add(T0, at(5, None), at(10, 5), 2, 200, 0)
    ranges.add(T1, at(0, 0), at(0, 0), 0, 0, -1)
    assert ranges.take_ranges() == [CopiedRange("t", 0, 5, 10, -1, 5, 5, 500, 0)]
    assert ranges.take_ranges() == []
    # A hole of the source's is part of a range.
    ranges.add(T0, at(5, None), at(20, 6), 1, 100, 0)
    ranges.add(T1, at(0, 0), at(1, 1), 1, 100, 4)
    assert ranges.take_ranges() == [
        CopiedRange("t", 0, 10, 20, 5, 6, 1, 100, 0),
        CopiedRange("t", 1, 0, 1, 0, 1, 1, 100, 4),
    ]


def test_a_partition_that_comes_back_begins_where_it_is_taken() -> None:
    ranges = CopiedRanges()
    ranges.add(T0, at(0, 0), at(3, 3), 3, 300, 0)
    ranges.take_ranges()
    ranges.end_range(T0)
    ranges.add(T0, at(50, 50), at(52, 52), 2, 200, 0)
    assert ranges.take_ranges() == [CopiedRange("t", 0, 50, 52, 50, 52, 2, 200, 0)]
    # Also where nobody saw that it was away.
    ranges.add(T0, at(90, 90), at(91, 91), 1, 100, 0)
    assert ranges.take_ranges() == [CopiedRange("t", 0, 90, 91, 90, 91, 1, 100, 0)]


def test_what_was_copied_before_a_partition_was_away_counts_too() -> None:
    ranges = CopiedRanges()
    ranges.add(T0, at(0, 0), at(3, 3), 3, 300, 4)
    ranges.end_range(T0)
    ranges.add(T0, at(50, 50), at(50, 50), 0, 0, 2)
    ranges.add(T0, at(50, 50), at(52, 52), 2, 200, 1)
    ranges.add(T0, at(50, 50), at(53, 53), 1, 100, 0)
    assert ranges.take_ranges() == [
        CopiedRange("t", 0, 0, 3, 0, 3, 3, 300, -1),
        CopiedRange("t", 0, 50, 53, 50, 53, 3, 300, 0),
    ]
    # So it is where nobody saw that it was away, and where it comes back before what was taken.
    ranges.add(T0, at(50, 50), at(54, 54), 1, 100, 0)
    ranges.add(T0, at(90, 90), at(91, 91), 1, 100, 0)
    ranges.end_range(T0)
    ranges.add(T0, at(60, 60), at(61, 61), 1, 100, 7)
    assert [(one.first_source, one.next_source, one.records, one.lag) for one in ranges.take_ranges()] == [
        (53, 54, 1, -1),
        (90, 91, 1, -1),
        (60, 61, 1, 7),
    ]
