"""How often a process that dies is started again, and after how long."""

from __future__ import annotations

from collections.abc import Sequence

WAITS_S = (0.0, 1.0, 2.0, 5.0, 10.0)
"""Before the first, the second, ... start after a loss; after one loss more it is given up."""

WINDOW_S = 600.0
"""A loss is forgotten after this time."""


class Restarts:
    """Counts losses. Times are seconds of a monotonic clock."""

    def __init__(self, waits_s: Sequence[float] = WAITS_S, window_s: float = WINDOW_S) -> None:
        self._waits_s = waits_s
        self._window_s = window_s
        self._losses: list[float] = []

    @property
    def count(self) -> int:
        """Losses that are not forgotten, as of the last one."""
        return len(self._losses)

    @property
    def rule(self) -> str:
        """In words."""
        return f"{len(self._waits_s)} times within {self._window_s / 60:g} min"

    def lost(self, now: float) -> float | None:
        """Count a loss; returns the seconds to wait before the next start, None for no further start."""
        self._losses = [at for at in self._losses if now - at < self._window_s] + [now]
        return self._waits_s[self.count - 1] if self.count <= len(self._waits_s) else None
