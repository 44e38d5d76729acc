"""Reports of a copier, about once a second: the progress of its partitions, and counters that readers add up.

The driver gets reports on its channel, also while the target refuses records. Other programs find them in a topic on
the target (`model.topic_names`).
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import add
from typing import Literal, get_args

from twinlog.errors import MessageError
from twinlog.kafka.producer.appends import Road
from twinlog.lease.codec import INLINE, LINE_ONLY, ReportCodec
from twinlog.model.compact_json import ascii_json
from twinlog.model.reach import ClusterReachability
from twinlog.model.types import SourceOffset, TargetOffset

AGE_BOUNDS_MS = (
    *(5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000),
    *(30_000, 60_000, 300_000, 3_600_000, 86_400_000),
)
"""Upper bounds of the buckets of record ages, in milliseconds; a further bucket has all older records."""


DifferenceKind = Literal["changed", "missing", "foreign", "doubled", "damaged", "built"]
"""The differences that the proof of equality tells apart.

The target has other records in a batch (`changed`), lacks a batch (`missing`), has a batch of another producer
(`foreign`), has a batch of our own producer twice (`doubled`), or has a batch with a wrong checksum (`damaged`). A
copier has built a batch of other records than the source's, and has not sent it (`built`).
"""

DIFFERENCE_KINDS: tuple[DifferenceKind, ...] = get_args(DifferenceKind)


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

    The proof of equality found `proven_records` equal, in batches of `proven_bytes`; `unproved_records` are out of it.
    `differences` counts the differences by kind (`DifferenceKind`).

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
    proven_records: int = 0
    proven_bytes: int = 0
    unproved_records: int = 0
    differences: dict[str, int] = field(default_factory=dict)

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
        for road, count in roads.items():
            self.roads[road] = self.roads.get(road, 0) + count

    def add_transformed(self, dropped: int, failed: int, routed: int) -> None:
        """Count records that a transform has dropped or failed on, and rows that it routed."""
        self.dropped += dropped
        self.failed += failed
        self.routed += routed

    def add_difference(self, kind: str) -> None:
        """Count a difference that the proof of equality found."""
        self.differences[kind] = self.differences.get(kind, 0) + 1

    def add_proven(self, records: int, size: int, unproved: int) -> None:
        """Count proven records, the bytes of their batches, and records that are out of the proof."""
        self.proven_records += records
        self.proven_bytes += size
        self.unproved_records += unproved

    def add_store(self, took_s: float, *, good: bool) -> None:
        """Count a store of positions, or a failed store, after `took_s` seconds."""
        if not good:
            self.failed_commits += 1
            return
        took_ms = round(took_s * 1000)
        self.commits += 1
        self.commit_ms += took_ms
        self.most_commit_ms = max(self.most_commit_ms, took_ms)

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
            for road, count in tuple(later.roads.items()):
                self.roads[road] = self.roads.get(road, 0) + count
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
        self.proven_records += later.proven_records
        self.proven_bytes += later.proven_bytes
        self.unproved_records += later.unproved_records
        if later.differences:
            for kind, count in tuple(later.differences.items()):
                self.differences[kind] = self.differences.get(kind, 0) + count
        return self

    def __add__(self, later: CopierCounters) -> CopierCounters:
        both = CopierCounters()
        both += self
        both += later
        return both


_NO_SOURCE, _NO_TARGET = SourceOffset(-1), TargetOffset(-1)


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress of a source partition since the last report.

    `source_offset` is the next source offset to copy, `target_offset` the next offset on the target, `end` the source's
    end (-1 unknown). `counters` are those of the interval. `trouble` is the reason why the partition stalls, or None.
    `waiting_ms` is the timestamp of the first record that was read and still waits to be copied for good (Unix time, -1
    if all are copied).

    With a proof the partition is proven up to `proven_source` and `proven_target` (-1 while nothing is known, and
    without a proof). `proof_lag_ms` is the time since the acknowledgement of the oldest unproven append, -1 without a
    proof. The proven range begins at `proof_source` and `proof_target`; it has `proven_records` in batches of
    `proven_bytes`, and `proof_chain` is the chain over these batches (`copier.proof.partition_proof.Proven`). The
    copier has no other range with the number `proof_range`. Since the copier took the partition, `unproved` records
    were left out of the proof, and `differences` were found. The last difference is of `difference_kind`
    (`DifferenceKind`, empty without a difference), at `difference_source` and `difference_target`.
    """

    topic: str
    partition: int
    source_offset: SourceOffset
    target_offset: TargetOffset
    end: SourceOffset
    counters: PartitionCounters = field(default_factory=PartitionCounters, metadata=INLINE)
    trouble: str | None = None
    waiting_ms: int = -1
    proven_source: SourceOffset = _NO_SOURCE
    proven_target: TargetOffset = _NO_TARGET
    proof_lag_ms: int = -1
    proven_records: int = 0
    proven_bytes: int = 0
    proof_chain: str = ""
    proof_source: SourceOffset = _NO_SOURCE
    proof_target: TargetOffset = _NO_TARGET
    proof_range: int = 0
    unproved: int = 0
    differences: int = 0
    difference_kind: str = ""
    difference_source: SourceOffset = _NO_SOURCE
    difference_target: TargetOffset = _NO_TARGET

    @property
    def lag(self) -> int:
        """The number of source offsets that remain to be copied, -1 while the end is unknown."""
        return -1 if self.end < 0 else max(0, self.end - self.source_offset)

    def followed_by(self, later: PartitionProgress) -> PartitionProgress:
        """Merge this report and a later report of the same partition."""
        return replace(later, counters=self.counters + later.counters)


@dataclass(frozen=True, slots=True)
class Report:
    """The progress of a copier in an interval of `seconds`; `busy` is the share in which its thread computed (0 to 1).

    `age_s` is the age of the oldest known `end` of its partitions; `source` and `target` tell whether the clusters
    answer. `counters` are for the driver only; a record in the topic leaves them out.
    """

    flow: str
    copier: str
    lease: int
    at_ms: int
    seconds: float
    busy: float
    age_s: float = 0.0
    source: ClusterReachability = field(default_factory=ClusterReachability)
    target: ClusterReachability = field(default_factory=ClusterReachability)
    partitions: tuple[PartitionProgress, ...] = ()
    events: tuple[tuple[str, str], ...] = field(default=())
    counters: CopierCounters = field(default_factory=CopierCounters, metadata=LINE_ONLY)

    def encode(self) -> bytes:
        """The report as the value of a record: a JSON object, with times in thousandths of a second."""
        rounded = replace(
            self,
            seconds=round(self.seconds, 3),
            busy=round(self.busy, 3),
            age_s=round(self.age_s, 3),
            source=self.source.rounded(),
            target=self.target.rounded(),
        )
        return ascii_json(_REPORT.encode(rounded))

    @classmethod
    def decode(cls, value: bytes) -> Report | None:
        """A report from a record's value, or None if the value is no report."""
        try:
            report: Report = _REPORT.decode(json.loads(value))
        except (ValueError, MessageError):
            return None
        return report


_REPORT, _PARTITION = ReportCodec(Report), ReportCodec(PartitionProgress)


def in_pieces(report: Report, most_bytes: int) -> Iterator[Report]:
    """Split a report into reports of at most `most_bytes`, as far as whole partitions and events allow.

    The first piece has the events that fit; each piece has at least a partition or an event, if there is any.
    """
    head = replace(report, partitions=(), events=())
    room = most_bytes - len(head.encode())
    parts: list[PartitionProgress] = []
    events: list[tuple[str, str]] = []
    size = 0
    for one in (*report.events, *report.partitions):
        part = one if isinstance(one, PartitionProgress) else None
        bytes_ = len(ascii_json(one if part is None else _PARTITION.encode(part))) + 1
        if size and size + bytes_ > room:
            yield replace(head, partitions=tuple(parts), events=tuple(events))
            parts, events, size = [], [], 0
        if part is None:
            assert isinstance(one, tuple)
            events.append(one)
        else:
            parts.append(part)
        size += bytes_
    yield replace(head, partitions=tuple(parts), events=tuple(events))
