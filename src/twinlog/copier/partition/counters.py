"""Counters of a partition between two reports, and of a copier for metrics; each batch is counted, not each record."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from twinlog.kafka.producer.appends import Road
from twinlog.lease.progress import AGE_BOUNDS_MS, Figures


@dataclass(slots=True)
class CopyCounts:
    """Records and bytes on the target for good since the last report, and counts of left-out records.

    `latency_ms` is the highest age of a record at its acknowledgement, -1 if unknown; `aborted` counts records of
    aborted transactions, `control` their markers. The further fields are as in `lease.progress.PartitionProgress`.
    """

    records: int = 0
    bytes: int = 0
    latency_ms: int = -1
    aborted: int = 0
    control: int = 0
    last_latency_ms: int = -1
    least_latency_ms: int = -1
    latency_sum_ms: int = 0
    read_records: int = 0
    last_age_ms: int = -1
    least_age_ms: int = -1
    most_age_ms: int = -1
    age_sum_ms: int = 0

    def copied(self, records: int, size: int, age_ms: int) -> None:
        """An append of `size` bytes is on the target for good.

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

    def read(self, records: int, age_ms: int) -> None:
        """The source sent `records` records; `age_ms` is the age of the youngest record."""
        self.read_records += records
        self.last_age_ms = age_ms
        self.most_age_ms = max(self.most_age_ms, age_ms)
        if not 0 <= self.least_age_ms <= age_ms:
            self.least_age_ms = age_ms
        self.age_sum_ms += age_ms * records


_BUCKETS = len(AGE_BOUNDS_MS) + 1


class CopierCounters:
    """Counts on a single thread; `figures` returns the counts since `clear`."""

    __slots__ = (
        "_age_sum_ms",
        "_ages",
        "_commit_ms",
        "_commits",
        "_dropped",
        "_failed",
        "_failed_commits",
        "_most_commit_ms",
        "_most_read",
        "_polls",
        "_read_bytes",
        "_read_records",
        "_roads",
        "_routed",
        "_written_bytes",
        "batches",
        "dead_letter_failures",
        "dead_letters",
        "left_out",
    )

    def __init__(self) -> None:
        self.batches = 0
        """Acknowledged batches since the counters were made; `clear` keeps the number."""
        self.clear()

    def clear(self) -> None:
        """Begin again at 0."""
        self._ages = [0] * _BUCKETS
        self._roads: dict[str, int] = {}
        self._age_sum_ms = self._read_bytes = self._written_bytes = 0
        self._polls = self._read_records = self._most_read = 0
        self._dropped = self._failed = self._routed = 0
        self.left_out = self.dead_letters = self.dead_letter_failures = 0
        """Records that a policy left out, records for the dead-letter topic, and failed writes to that topic."""
        self._commits = self._failed_commits = self._commit_ms = self._most_commit_ms = 0

    def acknowledged(self, records: int, size: int, age_ms: int) -> None:
        """A batch is on the target for good; `age_ms` is the age of its youngest record, -1 if unknown."""
        self.batches += 1
        self._written_bytes += size
        if age_ms >= 0:
            self._ages[bisect_left(AGE_BOUNDS_MS, age_ms)] += records
            self._age_sum_ms += age_ms * records

    def read(self, size: int, records: int, roads: Mapping[Road, int]) -> None:
        """The source answered with `size` bytes; `records` of them became batches on these roads."""
        self._read_bytes += size
        self._polls += 1
        self._read_records += records
        self._most_read = max(self._most_read, records)
        for road, count in roads.items():
            self._roads[road] = self._roads.get(road, 0) + count

    def transformed(self, dropped: int, failed: int, routed: int) -> None:
        """A transform has dropped records, failed on some, and routed rows."""
        self._dropped += dropped
        self._failed += failed
        self._routed += routed

    def stored(self, took_s: float, *, good: bool) -> None:
        """Positions were stored, or the store failed, after `took_s` seconds."""
        if not good:
            self._failed_commits += 1
            return
        took_ms = round(took_s * 1000)
        self._commits += 1
        self._commit_ms += took_ms
        self._most_commit_ms = max(self._most_commit_ms, took_ms)

    def figures(self, waiting_records: int, free_bytes: int) -> Figures:
        """The counts, with the waiting records and the free memory."""
        return Figures(
            ages=tuple(self._ages),
            age_sum_ms=self._age_sum_ms,
            roads=tuple(sorted(self._roads.items())),
            read_bytes=self._read_bytes,
            written_bytes=self._written_bytes,
            polls=self._polls,
            read_records=self._read_records,
            most_read=self._most_read,
            commits=self._commits,
            failed_commits=self._failed_commits,
            commit_ms=self._commit_ms,
            most_commit_ms=self._most_commit_ms,
            waiting_records=waiting_records,
            free_bytes=free_bytes,
            dropped=self._dropped,
            failed=self._failed,
            routed=self._routed,
            left_out=self.left_out,
            dead_letters=self.dead_letters,
            dead_letter_failures=self.dead_letter_failures,
        )
