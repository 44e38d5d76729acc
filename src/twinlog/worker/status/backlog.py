"""The backlog of a flow: its size, the copiers' load, and the time until all of it is copied."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

SAMPLE_S = 0.5
TREND_S = 15.0
"""The period from which the trend and the speed of the lag are computed."""

ON_ITS_WAY_S = 2.0
"""A lag that is copied within this time has no trend: while the source is written to, some record always waits."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """`lag` offsets wait, `elsewhere` of them outside of the partition with the largest lag.

    Each copier computes for at least the share `busy` of the time, and together the copiers copy `records_per_s`.
    """

    busy: float = 0.0
    lag: int = 0
    elsewhere: int = 0
    records_per_s: float = 0.0


class LagTrend:
    """The lags of the last seconds, each with its monotonic time. For a single thread at a time."""

    def __init__(self) -> None:
        self._lags: deque[tuple[float, int]] = deque(maxlen=64)

    def is_due(self, now: float) -> bool:
        """Whether the next lag is to be added."""
        return not self._lags or now - self._lags[-1][0] >= SAMPLE_S

    def add(self, now: float, lag: int) -> None:
        """Add the present lag, -1 while it is unknown."""
        self._lags.append((now, lag))

    def eta_s(self, now: float, lag: int, rate: float) -> float | None:
        """Seconds until the present lag is gone, by the present `rate` if that is soon, else by the decrease of lags.

        0 if the lag is 0. None if the lag is unknown, or if its trend is upward or level.
        """
        if lag <= 0:
            return 0.0 if lag == 0 else None
        if lag <= rate * ON_ITS_WAY_S:
            return lag / rate
        slope = _slope([(at, old) for at, old in self._lags if old >= 0 and now - at <= TREND_S])
        return lag / -slope if slope < 0 else None


def _slope(points: Sequence[tuple[float, int]]) -> float:
    """The growth per second, by least squares; 0 of fewer than two moments."""
    if not points:
        return 0.0
    middle = sum(at for at, _ in points) / len(points)
    spread = sum((at - middle) ** 2 for at, _ in points)
    return sum((at - middle) * value for at, value in points) / spread if spread else 0.0
