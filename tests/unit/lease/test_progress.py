"""What a copier counts of itself for metrics: batch by batch, until its driver has got it."""

from __future__ import annotations

from dataclasses import fields

from twinlog.lease.progress import AGE_BOUNDS_MS, CopierCounters, PartitionCounters, PartitionProgress
from twinlog.model.types import SourceOffset, TargetOffset


def test_records_are_counted_in_the_bucket_of_their_age() -> None:
    tally = CopierCounters()
    for age_ms, records in ((0, 1), (5, 2), (6, 4), (AGE_BOUNDS_MS[-1], 8), (AGE_BOUNDS_MS[-1] + 1, 16), (-1, 32)):
        tally.add_append(records, 100, age_ms)
    found = tally + CopierCounters(waiting_records=3, free_bytes=7)
    assert found.ages == [3, 4, *[0] * (len(AGE_BOUNDS_MS) - 3), 8, 16]
    assert found.age_sum_ms == 2 * 5 + 4 * 6 + 8 * AGE_BOUNDS_MS[-1] + 16 * (AGE_BOUNDS_MS[-1] + 1)
    assert (found.written_bytes, found.waiting_records, found.free_bytes) == (600, 3, 7)
    assert found.batches == 6


def test_answers_of_the_source_and_stored_positions_are_counted_until_they_were_delivered() -> None:
    tally = CopierCounters()
    tally.add_fetch(100, 5, {"as it is": 2})
    tally.add_fetch(50, 9, {"as it is": 1, "holes": 1})
    tally.add_store(0.004, good=True)
    tally.add_store(0.010, good=True)
    tally.add_store(0, good=False)
    found = tally + CopierCounters()
    assert (found.read_bytes, found.polls, found.read_records, found.most_read) == (150, 2, 14, 9)
    assert found.roads == {"as it is": 3, "holes": 1}
    assert (found.commits, found.failed_commits, found.commit_ms, found.most_commit_ms) == (2, 1, 14, 10)
    assert tally == found
    tally.clear()
    assert tally.roads == {}
    assert tally.polls == 0
    assert found.polls == 2


def test_a_partition_counts_ages_by_records() -> None:
    counts = PartitionCounters()
    counts.add_append(2, 10, 30)
    counts.add_append(3, 10, 10)
    counts.add_append(4, 10, -1)
    counts.add_read(5, 7)
    counts.add_read(1, 9)
    assert (counts.records, counts.bytes, counts.latency_ms, counts.last_latency_ms) == (9, 30, 30, 10)
    assert (counts.least_latency_ms, counts.latency_sum_ms) == (10, 90)
    assert (counts.read_records, counts.last_age_ms, counts.least_age_ms, counts.most_age_ms) == (6, 9, 7, 9)
    assert counts.age_sum_ms == 44


def test_two_reports_of_a_partition_are_one() -> None:
    def part(**values: int) -> PartitionProgress:
        return PartitionProgress("t", 0, SourceOffset(1), TargetOffset(1), SourceOffset(1), PartitionCounters(**values))

    first = part(records=2, latency_ms=30, last_latency_ms=20, least_latency_ms=10, latency_sum_ms=40, read_records=1)
    idle = part()
    later = part(last_age_ms=4, least_age_ms=3, most_age_ms=5, age_sum_ms=9, read_records=2)
    both = first.followed_by(idle).followed_by(later).counters
    assert (both.latency_ms, both.last_latency_ms, both.least_latency_ms, both.latency_sum_ms) == (30, 20, 10, 40)
    assert (both.read_records, both.last_age_ms, both.least_age_ms, both.most_age_ms) == (3, 4, 3, 5)


def test_the_sum_of_all_counters_of_a_copier_is_that_of_their_reports() -> None:
    first, later = CopierCounters(), CopierCounters()
    for number, name in enumerate(one.name for one in fields(CopierCounters) if one.type == "int"):
        setattr(first, name, number)
        setattr(later, name, 100 + number)
    first.ages[0], later.ages[0] = 1, 2
    first.roads, later.roads = {"as it is": 1, "holes": 2}, {"holes": 3, "merged": 4}
    first.differences, later.differences = {"changed": 1}, {"changed": 2, "foreign": 3}
    both = first + later
    most, now = {"most_read", "most_commit_ms", "batches"}, {"waiting_records", "free_bytes"}
    for name in (one.name for one in fields(CopierCounters) if one.type == "int"):
        before, after = getattr(first, name), getattr(later, name)
        assert getattr(both, name) == (after if name in most | now else before + after), name
    assert (both.ages[0], both.roads) == (3, {"as it is": 1, "holes": 5, "merged": 4})
    assert first.roads == {"as it is": 1, "holes": 2}
    assert both.differences == {"changed": 3, "foreign": 3}
