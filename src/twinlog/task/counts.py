"""What a partition did between two reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CopyCounts:
    """Records and bytes that are on the target for good since the last report, and what was left out on the way.

    `latency_ms` is the worst age of a record at its acknowledgement, -1 without one; `aborted` counts records of
    aborted transactions, `control` their markers.
    """

    records: int = 0
    bytes: int = 0
    latency_ms: int = -1
    aborted: int = 0
    control: int = 0

    def copied(self, records: int, size: int, age_ms: int) -> None:
        """An append of `size` bytes is there for good; `age_ms` is the age of its youngest record, -1 if unknown."""
        self.records += records
        self.bytes += size
        self.latency_ms = max(self.latency_ms, age_ms)
