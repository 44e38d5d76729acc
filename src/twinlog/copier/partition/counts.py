"""What a partition did between two reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CopyCounts:
    """Records and bytes that are on the target for good since the last report, and what was left out on the way.

    `latency_ms` is the worst age of a record at its acknowledgement, -1 without one; `aborted` counts records of
    aborted transactions, `control` their markers. The rest is as in `lease.progress.PartitionProgress`.
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
        """An append of `size` bytes is there for good; the age of its youngest record, -1 unknown."""
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
        """The source sent so many records, the youngest of which is so old."""
        self.read_records += records
        self.last_age_ms = age_ms
        self.most_age_ms = max(self.most_age_ms, age_ms)
        if not 0 <= self.least_age_ms <= age_ms:
            self.least_age_ms = age_ms
        self.age_sum_ms += age_ms * records
