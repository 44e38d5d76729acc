"""Remembers what was said already, so that a log has each thing once, or now and then."""

from __future__ import annotations

from twinlog.clock import SYSTEM, Clock

SAY_AGAIN_S = 60.0
"""What lasts is said again after so long."""

MOST = 200
"""What is remembered; processes come and go for months."""


class LogOnce:
    """Not safe for several threads."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._said: dict[object, float] = {}

    def is_new(self, what: object, again_s: float = float("inf")) -> bool:
        """Whether something was not said before, or not for `again_s` seconds."""
        now = self._clock.monotonic()
        if now - self._said.get(what, float("-inf")) < again_s:
            return False
        self._said.pop(what, None)
        self._said[what] = now
        if len(self._said) > MOST:
            del self._said[next(iter(self._said))]
        return True
