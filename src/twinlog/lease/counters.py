"""Counters of partitions and copiers: a copier counts batches, its reports carry the counts, readers add them up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import add

from twinlog.kafka.producer.appends import Road
from twinlog.lease.codec import LINE_ONLY

AGE_BOUNDS_MS = (
    *(5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000),
    *(30_000, 60_000, 300_000, 3_600_000, 86_400_000),
)
"""Upper bounds of the buckets of record ages, in milliseconds; a further bucket has all older records."""


@dataclass(slots=True)
class PartitionCounters:
    """Records and bytes of a source partition that are on the target for good, and ages of records in milliseconds.

    Each batch counts with its youngest record, as often as it has records; an age of -1 is unknown. For acknowledged
    batches there are the highest age (`latency_ms`), the age of the last batch, the least age, and the sum over
    records. There are the same ages (`_age_ms`) of the `read_records` that the source sent. Counters of later batches
    are added by `+`.
    """

    records: int = 0
    bytes: int = 0
    latency_ms: int = -1
    last_latency_ms: int = field(default=-1, metadata=LINE_ONLY)
    least_latency_ms: int = field(default=-1, metadata=LINE_ONLY)
    latency_sum_ms: int = field(default=0, metadata=LINE_ONLY)
    read_records: int = field(default=0, metadata=LINE_ONLY)
    last_age_ms: int = field(default=-1, metadata=LINE_ONLY)
    least_age_ms: int = field(default=-1, metadata=LINE_ONLY)
    most_age_ms: int = field(default=-1, metadata=LINE_ONLY)
    age_sum_ms: int = field(default=0, metadata=LINE_ONLY)

    def add_append(self, records: int, size: int, age_ms: int) -> None:
        """Count an append of `size` bytes that is on the target for good.

        `age_ms` is the age of its youngest record, -1 if unknown.
        """
        self.records += records
        self.bytes += size
        if age_ms < 0:
            return
        self.last_latency_ms = age_ms
        self.latency_ms = max(self.latency_ms, age_ms)
        if not 0 <= self.least_latency_ms <= age_ms:
            self.least_latency_ms = age_ms
        self.latency_sum_ms += age_ms * records

    def add_read(self, records: int, age_ms: int) -> None:
        """Count `records` records that the source sent; `age_ms` is the age of the youngest record."""
        self.read_records += records
        self.last_age_ms = age_ms
        self.most_age_ms = max(self.most_age_ms, age_ms)
        if not 0 <= self.least_age_ms <= age_ms:
            self.least_age_ms = age_ms
        self.age_sum_ms += age_ms * records

    def __iadd__(self, later: PartitionCounters) -> PartitionCounters:
        self.records += later.records
        self.bytes += later.bytes
        self.latency_ms = max(self.latency_ms, later.latency_ms)
        if later.last_latency_ms >= 0:
            self.last_latency_ms = later.last_latency_ms
            if not 0 <= self.least_latency_ms <= later.least_latency_ms:
                self.least_latency_ms = later.least_latency_ms
            self.latency_sum_ms += later.latency_sum_ms
        if later.read_records:
            self.read_records += later.read_records
            self.last_age_ms = later.last_age_ms
            self.most_age_ms = max(self.most_age_ms, later.most_age_ms)
            if not 0 <= self.least_age_ms <= later.least_age_ms:
                self.least_age_ms = later.least_age_ms
            self.age_sum_ms += later.age_sum_ms
        return self

    def __add__(self, later: PartitionCounters) -> PartitionCounters:
        return PartitionCounters.total((self, later))

    @classmethod
    def total(cls, all_: Iterable[PartitionCounters]) -> PartitionCounters:
        """The sum, with the latest counters last."""
        total = cls()
        for one in all_:
            total += one
        return total


@dataclass(slots=True)
class CopierCounters:
    """Counts of a copier since `clear`, and the amounts that wait now; used by a single thread.

    `ages` counts records by their age when the target acknowledged them: a count for each bound of `AGE_BOUNDS_MS`, and
    a count of all older records. `age_sum_ms` is the sum of these ages. `roads` has the number of batches made on each
    road (`kafka.producer.appends.Road`). `read_bytes` and `written_bytes` went over the network. `polls` counts answers
    of the source with records: `read_records` in all, and `most_read` in the largest answer.

    Positions were stored `commits` times, in `commit_ms` in all and `most_commit_ms` at most, and the store failed
    `failed_commits` times. `waiting_records` were read and still wait for the acknowledgement; `free_bytes` are left of
    the memory for waiting records.

    A transform `dropped` records, was skipped for the records that it `failed` on, and `routed` rows to other
    partitions. A policy `left_out` records. `dead_letters` records were meant for the dead-letter topic, which failed
    `dead_letter_failures` times. `batches` counts the acknowledged batches since the copier began.

    Later counts are added by `+`; the amounts that wait are the later amounts then.
    """

    ages: list[int] = field(default_factory=lambda: [0] * (len(AGE_BOUNDS_MS) + 1))
    age_sum_ms: int = 0
    roads: dict[str, int] = field(default_factory=dict)
    read_bytes: int = 0
    written_bytes: int = 0
    polls: int = 0
    read_records: int = 0
    most_read: int = 0
    commits: int = 0
    failed_commits: int = 0
    commit_ms: int = 0
    most_commit_ms: int = 0
    waiting_records: int = 0
    free_bytes: int = 0
    dropped: int = 0
    failed: int = 0
    routed: int = 0
    left_out: int = 0
    dead_letters: int = 0
    dead_letter_failures: int = 0
    batches: int = 0

    def clear(self) -> None:
        """Begin again at 0, except for `batches`."""
        fresh = CopierCounters(batches=self.batches)
        for one in fields(CopierCounters):
            setattr(self, one.name, getattr(fresh, one.name))

    def add_append(self, records: int, size: int, age_ms: int) -> None:
        """Count a batch that is on the target for good; `age_ms` is the age of its youngest record, -1 if unknown."""
        self.batches += 1
        self.written_bytes += size
        if age_ms >= 0:
            self.ages[bisect_left(AGE_BOUNDS_MS, age_ms)] += records
            self.age_sum_ms += age_ms * records

    def add_fetch(self, size: int, records: int, roads: Mapping[Road, int]) -> None:
        """Count an answer of the source with `size` bytes; `records` of them became batches on these roads."""
        self.read_bytes += size
        self.polls += 1
        self.read_records += records
        self.most_read = max(self.most_read, records)
        self._add_roads(roads.items())

    def add_transformed(self, dropped: int, failed: int, routed: int) -> None:
        """Count records that a transform has dropped or failed on, and rows that it routed."""
        self.dropped += dropped
        self.failed += failed
        self.routed += routed

    def add_store(self, took_s: float, *, good: bool) -> None:
        """Count a store of positions, or a failed store, after `took_s` seconds."""
        if not good:
            self.failed_commits += 1
            return
        took_ms = round(took_s * 1000)
        self.commits += 1
        self.commit_ms += took_ms
        self.most_commit_ms = max(self.most_commit_ms, took_ms)

    def _add_roads(self, roads: Iterable[tuple[str, int]]) -> None:
        for road, count in roads:
            self.roads[road] = self.roads.get(road, 0) + count

    def __iadd__(self, later: CopierCounters) -> CopierCounters:
        self.ages = list(map(add, self.ages, later.ages))
        self.age_sum_ms += later.age_sum_ms
        self.written_bytes += later.written_bytes
        self.batches = max(self.batches, later.batches)
        if later.polls:
            self.read_bytes += later.read_bytes
            self.polls += later.polls
            self.read_records += later.read_records
            self.most_read = max(self.most_read, later.most_read)
            # Another thread may count into `later` meanwhile.
            self._add_roads(tuple(later.roads.items()))
        self.failed_commits += later.failed_commits
        if later.commits:
            self.commits += later.commits
            self.commit_ms += later.commit_ms
            self.most_commit_ms = max(self.most_commit_ms, later.most_commit_ms)
        self.waiting_records, self.free_bytes = later.waiting_records, later.free_bytes
        self.dropped += later.dropped
        self.failed += later.failed
        self.routed += later.routed
        self.left_out += later.left_out
        self.dead_letters += later.dead_letters
        self.dead_letter_failures += later.dead_letter_failures
        return self

    def __add__(self, later: CopierCounters) -> CopierCounters:
        both = CopierCounters()
        both += self
        both += later
        return both
