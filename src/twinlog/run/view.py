"""What a flow is doing, put together from its progress reports."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Set
from dataclasses import dataclass

from twinlog.metrics.progress import PartitionProgress, Report
from twinlog.types import TopicName, TopicPartition

WINDOW_S = 5.0
BUSY = 0.8
"""A copier that computes for more than this share of the time is at its limit."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A flow in one line: rates per second over the last seconds, `lag` in offsets (-1 unknown), `eta_s` in seconds."""

    partitions: int
    records: int
    bytes: int
    record_rate: float
    byte_rate: float
    lag: int
    latency_ms: int
    eta_s: float | None
    copiers: int
    trouble: str | None


class FlowView:
    """Collects reports; read from other threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: dict[TopicPartition, PartitionProgress] = {}
        self._planned: Set[TopicPartition] | None = None
        self._recent: deque[tuple[float, int, int, int]] = deque()
        self._busy: dict[str, tuple[float, float]] = {}
        self._rates: dict[TopicPartition, float] = {}
        self._records = 0
        self._bytes = 0
        self._lag_then: deque[tuple[float, int]] = deque(maxlen=64)
        self._troubles: dict[str, str] = {}

    def take(self, report: Report) -> None:
        """Add one report; what it says of partitions that are no longer copied does not count."""
        now = time.monotonic()
        with self._lock:
            records = size = 0
            latency = -1
            for part in report.partitions:
                key = TopicPartition(TopicName(part.topic), part.partition)
                if self._planned is not None and key not in self._planned:
                    continue
                self._parts[key] = part
                records += part.records
                size += part.bytes
                rate = part.bytes / max(report.seconds, 0.05)
                self._rates[key] = 0.8 * self._rates.get(key, rate) + 0.2 * rate
                latency = max(latency, part.latency_ms)
            self._records += records
            self._bytes += size
            self._recent.append((now, records, size, latency))
            self._busy[report.copier] = (now, report.busy)
            self._lag_then.append((now, self._lag()))

    def note(self, what: str, trouble: str | None) -> None:
        """A job on the driver cannot do `what`, or with None can again."""
        with self._lock:
            self._troubles.pop(what, None)
            if trouble is not None:
                self._troubles[what] = f"cannot {what}: {trouble}"

    def plan(self, partitions: Set[TopicPartition]) -> None:
        """Only these partitions are copied from now on."""
        with self._lock:
            self._planned = frozenset(partitions)
            self._parts = {key: part for key, part in self._parts.items() if key in partitions}

    def reached(self, ends: dict[TopicPartition, int]) -> bool:
        """Whether every partition has been copied up to its offset in `ends`."""
        with self._lock:
            return all(key in self._parts and self._parts[key].source_offset >= end for key, end in ends.items())

    def weights(self) -> dict[TopicPartition, float]:
        """Bytes per second of each partition."""
        with self._lock:
            return dict(self._rates)

    def overloaded(self) -> bool:
        """Whether every copier is at its limit while records wait."""
        now = time.monotonic()
        with self._lock:
            fresh = [busy for at, busy in self._busy.values() if now - at < WINDOW_S]
            return bool(fresh) and min(fresh) > BUSY and self._lag() > 0

    def partitions(self) -> dict[TopicPartition, PartitionProgress]:
        with self._lock:
            return dict(self._parts)

    def summary(self) -> Summary:
        now = time.monotonic()
        with self._lock:
            while self._recent and now - self._recent[0][0] > WINDOW_S:
                self._recent.popleft()
            span = max(1.0, now - self._recent[0][0]) if self._recent else WINDOW_S
            record_rate = sum(entry[1] for entry in self._recent) / span
            lag = self._lag()
            return Summary(
                partitions=len(self._parts),
                records=self._records,
                bytes=self._bytes,
                record_rate=record_rate,
                byte_rate=sum(entry[2] for entry in self._recent) / span,
                lag=lag,
                latency_ms=max((entry[3] for entry in self._recent), default=-1),
                eta_s=self._eta(lag),
                copiers=sum(now - at < WINDOW_S for at, _ in self._busy.values()),
                trouble=next((part.trouble for part in self._parts.values() if part.trouble), None)
                or next(iter(self._troubles.values()), None),
            )

    def _lag(self) -> int:
        known = [part.lag for part in self._parts.values() if part.lag >= 0]
        return sum(known) if known else -1

    def _eta(self, lag: int) -> float | None:
        """Seconds until the lag is gone at the speed it shrank lately; 0 when there is none, None when it grows."""
        if lag <= 0:
            return 0.0 if lag == 0 else None
        then, before = next(((at, old) for at, old in self._lag_then if old >= 0), (0.0, -1))
        passed = time.monotonic() - then
        if before <= lag or passed <= 0:
            return None
        return lag / ((before - lag) / passed)
