"""Whether this process is ready to take flows over: its Spark is warm, and what the flows have stored is read."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.clock import LONG_AGO, SYSTEM, Clock

WARM_AFTER_S = 60.0
"""Without a flow and without a warm-up a Spark that has run for so long is ready, too."""

READ_AFTER_S = 60.0
"""After so long a warm process is ready though it has not read what all flows have stored: a cluster may be away."""


class Readiness:
    """Of one process. Once it is ready, it stays so until another Spark takes the place of the one that it had."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._now = clock.monotonic
        self._engine: object = None
        self._warmed_up: object = None
        self._met_at = LONG_AGO
        self._warm_at: float | None = None
        self._ready = False

    def warmed_up(self, engine: object) -> None:
        """The warm-up of an engine has ended; called by its thread."""
        self._warmed_up = engine

    def look(self, engine: object, *, works: bool, has_read: Callable[[], bool]) -> bool:
        """Whether the process is ready with the engine that it has now, None for none.

        `works`: the engine copies, or needs no warm-up, `has_read()` that all flows are read.
        """
        now = self._now()
        if engine is not self._engine:
            self._engine, self._met_at, self._warm_at, self._ready = engine, now, None, False
        if engine is None:
            return False
        if self._warm_at is None:
            if not (works or self._warmed_up is engine or now - self._met_at > WARM_AFTER_S):
                return False
            self._warm_at = now
        self._ready = self._ready or has_read() or now - self._warm_at > READ_AFTER_S
        return self._ready
