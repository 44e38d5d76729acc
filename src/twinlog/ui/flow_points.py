"""The last hour of a flow in points: rates, lag and latency, for the charts of its page."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock

from twinlog.ops.status.flow import FlowSnapshot

EVERY_S = 2.0
KEPT_S = 3600.0
MOST_POINTS = int(KEPT_S / EVERY_S)

GAP_MS = 10_000
"""Between points that are further apart, no browser looked: the charts show a gap."""


@dataclass(frozen=True, slots=True)
class FlowPoint:
    """A flow at `at_ms` (Unix); None is unknown. The lag is in records, bytes, and seconds, the latency in ms."""

    at_ms: int
    record_rate: float | None
    byte_rate: float | None
    lag: int | None
    lag_bytes: int | None
    lag_s: float | None
    latency_ms: int | None

    @classmethod
    def of(cls, seen: FlowSnapshot, at_ms: int) -> FlowPoint:
        """The figures of a snapshot."""
        report = seen.report
        latency = None if report is None or report.latency_ms < 0 else report.latency_ms
        record_rate = None if report is None else report.record_rate
        byte_rate = None if report is None else report.byte_rate
        return cls(at_ms, record_rate, byte_rate, seen.lag, seen.lag_bytes, seen.lag_s, latency)


class FlowPoints:
    """The points of a flow, those of the last hour at most."""

    def __init__(self) -> None:
        self._points: deque[FlowPoint] = deque(maxlen=MOST_POINTS)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._points)

    def add(self, point: FlowPoint) -> None:
        """Add a point, after a gap if the last point is too old."""
        with self._lock:
            last = self._points[-1] if self._points else None
            if last is not None and point.at_ms <= last.at_ms:
                return
            if last is not None and point.at_ms - last.at_ms > GAP_MS:
                self._points.append(FlowPoint(last.at_ms + 1, None, None, None, None, None, None))
            self._points.append(point)
            while self._points and self._points[0].at_ms < point.at_ms - KEPT_S * 1000:
                self._points.popleft()

    def columns(self, since_ms: int = 0) -> dict[str, list[float | int | None]]:
        """The points after `since_ms` as columns, with the times in seconds, as charts take them."""
        with self._lock:
            points = [one for one in self._points if one.at_ms > since_ms]
        return {
            "at_s": [one.at_ms / 1000 for one in points],
            "record_rate": [_rounded(one.record_rate) for one in points],
            "byte_rate": [_rounded(one.byte_rate) for one in points],
            "lag": [one.lag for one in points],
            "lag_bytes": [one.lag_bytes for one in points],
            "lag_s": [_rounded(one.lag_s) for one in points],
            "latency_ms": [one.latency_ms for one in points],
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
