"""How offsets are divided among tasks and micro-batches."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from twinlog.model.types import TopicPartition
from twinlog.spark.dataframes.offset_range import OffsetRange
from twinlog.spark.dataframes.ranges import LATEST, ColumnFilter, limit_rate, narrow, split

A, B, C = (TopicPartition("t", number) for number in range(3))


def pieces(found: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(one.partition.partition, one.start, one.end) for one in found]


@pytest.mark.parametrize(
    ("given", "least", "expected"),
    [
        ([(1, 6)], 3, [(1, 2), (2, 4), (4, 6)]),
        ([(1, 5)], 3, [(1, 2), (2, 3), (3, 5)]),
        ([(1, 5)], 1, [(1, 5)]),
        ([(1, 2)], 3, [(1, 2)]),
        ([(5, 5)], 3, []),
        ([(1, 5), (1, 5)], 4, [(1, 3), (3, 5), (1, 3), (3, 5)]),
        ([(1, 2), (1, 21)], 3, [(1, 2), (1, 11), (11, 21)]),
    ],
)
def test_min_partitions_splits_large_partitions(
    given: list[tuple[int, int]], least: int, expected: list[tuple[int, int]]
) -> None:
    ranges = [OffsetRange(part, *ends) for part, ends in zip((A, B, C), given, strict=False)]
    assert [(start, end) for _, start, end in pieces(split(ranges, least, None))] == expected


def test_no_range_is_longer_than_max_records_per_partition() -> None:
    assert pieces(split([OffsetRange(A, 0, 10), OffsetRange(B, 0, 3)], None, 4)) == [
        (0, 0, 3),
        (0, 3, 6),
        (0, 6, 10),
        (1, 0, 3),
    ]


@given(
    sizes=st.lists(st.integers(0, 10_000), max_size=6),
    least=st.one_of(st.none(), st.integers(1, 40)),
    most=st.one_of(st.none(), st.integers(100, 5_000)),
)
def test_each_offset_is_in_one_range(sizes: list[int], least: int | None, most: int | None) -> None:
    given_ranges = [OffsetRange(TopicPartition("t", number), 7, 7 + size) for number, size in enumerate(sizes)]
    found = split(given_ranges, least, most)
    assert all(one.size > 0 and (most is None or one.size <= most) for one in found)
    for whole in given_ranges:
        mine = sorted((one.start, one.end) for one in found if one.partition == whole.partition)
        ends = [start for start, _ in mine] + [whole.end]
        assert ends == [whole.start, *(end for _, end in mine)]


def test_a_micro_batch_is_shared_out_by_what_is_left() -> None:
    start, latest = {A: 0, B: 100, C: 7}, {A: 900, B: 200, C: 7}
    assert limit_rate(100, start, latest) == {A: 90, B: 110, C: 7}
    # A small partition does not wait until the large ones are done.
    assert limit_rate(3, {A: 0, B: 0}, {A: 10_000, B: 1}) == {A: 2, B: 1}
    assert limit_rate(10**18, start, latest) == latest
    assert limit_rate(5, {A: LATEST, B: 0}, {A: 40, B: 8}) == {A: 40, B: 5}


def never(*_: Any) -> Any:
    raise AssertionError("no timestamp is asked for")


@pytest.mark.parametrize(
    ("kind", "column", "value", "expected"),
    [
        ("EqualTo", "partition", 1, [(1, 0, 10)]),
        ("In", "partition", (0, 2), [(0, 0, 10), (2, 0, 10)]),
        ("GreaterThan", "partition", 1, [(2, 0, 10)]),
        ("EqualTo", "topic", "u", []),
        ("EqualTo", "offset", 4, [(0, 4, 5), (1, 4, 5), (2, 4, 5)]),
        ("In", "offset", (3, 8, None), [(0, 3, 9), (1, 3, 9), (2, 3, 9)]),
        ("GreaterThan", "offset", 8, [(0, 9, 10), (1, 9, 10), (2, 9, 10)]),
        ("GreaterThanOrEqual", "offset", 8, [(0, 8, 10), (1, 8, 10), (2, 8, 10)]),
        ("LessThan", "offset", 2, [(0, 0, 2), (1, 0, 2), (2, 0, 2)]),
        ("LessThanOrEqual", "offset", 2, [(0, 0, 3), (1, 0, 3), (2, 0, 3)]),
        ("Not", "offset", 2, [(0, 0, 10), (1, 0, 10), (2, 0, 10)]),
        ("LessThan", "timestamp", datetime(2026, 1, 1, tzinfo=UTC), [(0, 0, 10), (1, 0, 10), (2, 0, 10)]),
        ("EqualTo", "value", b"v", [(0, 0, 10), (1, 0, 10), (2, 0, 10)]),
    ],
)
def test_filters_leave_out_what_cannot_match(kind: str, column: str, value: Any, expected: list[Any]) -> None:
    ranges = [OffsetRange(part, 0, 10) for part in (A, B, C)]
    assert pieces(narrow(ranges, [ColumnFilter(column, kind, value)], never)) == expected


def test_brokers_find_the_first_record_of_a_timestamp() -> None:
    asked = []

    def found(parts: Any, timestamp: int) -> dict[TopicPartition, int]:
        asked.append((sorted(parts), timestamp))
        return {A: 6, B: -1, C: 0}

    since = ColumnFilter("timestamp", "GreaterThanOrEqual", datetime(2026, 1, 1, 0, 0, 0, 500, tzinfo=UTC))
    earlier = ColumnFilter("timestamp", "GreaterThan", datetime(2025, 1, 1, tzinfo=UTC))
    left = narrow([OffsetRange(part, 2, 10) for part in (A, B, C)], [since, earlier], found)
    assert pieces(left) == [(0, 6, 10), (2, 2, 10)]
    # Kafka's timestamps are whole milliseconds: one more is asked for than Spark's, not less.
    assert asked == [([A, B, C], 1_767_225_599_999)]
