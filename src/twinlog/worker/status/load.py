"""Measures the load of a flow's partitions and copiers for the plan."""

from __future__ import annotations

import threading
from collections.abc import Callable, Set

from twinlog.clock import SYSTEM
from twinlog.lease.ledger import Assignment
from twinlog.lease.progress import Report
from twinlog.model.types import TopicName, TopicPartition

LOOK_S = 5.0
"""How often rates are computed."""

FADE = 0.7
"""The weight of earlier rates against the last `LOOK_S`: a rate follows a shift within half a minute."""

UNEVEN = 1.5
"""A task with more than this multiple of the mean load has too much; partitions stop moving at a lower limit."""

WORTH_BUSY = 0.5
"""The load of a copier counts only when it computes for more than this share of the time."""

QUIET_BUSY = 0.2
"""Copiers that all compute for less than this share of the time could be replaced by a single copier."""

FRESH_S = 5.0
LASTS_S = 30.0
QUIET_S = 60.0


class LoadMonitor:
    """Measures a flow; another thread may call `add_report`.

    `needs_move(assignment)` is called every moment and returns whether partitions should move between tasks: the load
    has been uneven for half a minute. `quiet` is true when the flow needs fewer tasks.
    """

    def __init__(self, clock: Callable[[], float] = SYSTEM.monotonic) -> None:
        self.quiet = False
        self._clock = clock
        self._lock = threading.Lock()
        self._bytes: dict[TopicPartition, int] = {}
        self._busy: dict[str, tuple[float, float]] = {}
        self._rates: dict[TopicPartition, float] = {}
        self._at = self._even_at = self._loud_at = clock()

    def add_report(self, report: Report) -> None:
        """Count the bytes in a copier's report."""
        with self._lock:
            self._busy[report.copier] = (self._clock(), report.busy)
            for part in report.partitions:
                if part.counters.bytes > 0:
                    key = TopicPartition(TopicName(part.topic), part.partition)
                    self._bytes[key] = self._bytes.get(key, 0) + part.counters.bytes

    def weights(self) -> dict[TopicPartition, float]:
        """Bytes per second of the partitions with copied bytes."""
        return self._rates

    def retain_partitions(self, partitions: Set[TopicPartition]) -> None:
        """Forget all partitions but these."""
        with self._lock:
            self._bytes = {part: size for part, size in self._bytes.items() if part in partitions}
        self._rates = {part: rate for part, rate in self._rates.items() if part in partitions}

    def needs_move(self, assignment: Assignment) -> bool:
        """Whether partitions should move."""
        now = self._clock()
        passed = now - self._at
        if passed < LOOK_S:
            return False
        self._at = now
        with self._lock:
            copied, self._bytes = self._bytes, {}
            self._busy = {name: known for name, known in self._busy.items() if now - known[0] < FRESH_S}
            busiest = max((busy for _, busy in self._busy.values()), default=1.0)
        rates = {part: FADE * rate for part, rate in self._rates.items() if rate > 1.0}
        for part, size in copied.items():
            before = rates.get(part)
            # A partition that has just begun gets its present rate.
            rates[part] = size / passed if before is None else before + (1 - FADE) * size / passed
        self._rates = rates
        if busiest > QUIET_BUSY:
            self._loud_at = now
        self.quiet = now - self._loud_at >= QUIET_S
        if busiest < WORTH_BUSY or not self._uneven(assignment):
            self._even_at = now
        if now - self._even_at < LASTS_S:
            return False
        self._even_at = now
        return True

    def _uneven(self, assignment: Assignment) -> bool:
        loads = [sum(self._rates.get(part, 0.0) for part in share) for share in assignment]
        return len(loads) > 1 and max(loads) > UNEVEN * sum(loads) / len(loads)
