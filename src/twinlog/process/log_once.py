"""Remembers logged messages, so that the log has each message once, or now and then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinlog.clock import SYSTEM, Clock

AGAIN_S = 60.0
"""A condition that lasts is logged again after so long."""

DOUBLING_S = (AGAIN_S, 600.0)
"""The first and the longest wait between two log lines of a condition that may last for days, see `LogOnce.is_due`."""

MOST = 10_000
"""Entries remembered of either kind: processes, topics and rights come and go for months."""

NEVER = float("inf")


@dataclass(slots=True)
class _Lasting:
    """A lasting condition: its begin, the time of its next log line, and the wait before the line after that, in
    seconds."""

    since: float
    wait_s: float
    due_at: float = -NEVER


class LogOnce:
    """The logged messages of a part of the program. For a single thread."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._now = clock.monotonic
        self._logged: dict[object, float] = {}
        self._lasting: dict[object, _Lasting] = {}

    def is_new(self, what: object, again_s: float = NEVER) -> bool:
        """Whether to log a message now: it is new, or its last line is `again_s` seconds old."""
        now = self._now()
        if now - self._logged.get(what, -NEVER) < again_s:
            return False
        self._logged.pop(what, None)
        self._logged[what] = now
        _forget_oldest(self._logged)
        return True

    def is_due(self, condition: object, for_s: float = 0.0, again_s: float = NEVER, longest_s: float = 0.0) -> bool:
        """Whether to log a condition now; called again and again as long as it lasts, until `end_condition`.

        It is logged once it has lasted for `for_s` seconds, and again after `again_s`; that doubles up to `longest_s`.
        """
        now = self._now()
        known = self._lasting.get(condition)
        if known is None:
            known = self._lasting[condition] = _Lasting(now, again_s)
            _forget_oldest(self._lasting)
        if now - known.since < for_s or now < known.due_at:
            return False
        known.due_at = now + known.wait_s
        known.wait_s = max(again_s, min(2 * known.wait_s, longest_s))
        return True

    def end_condition(self, condition: object) -> bool:
        """A condition has ended, and is new when it comes again; returns whether it was logged."""
        known = self._lasting.pop(condition, None)
        return known is not None and known.due_at > -NEVER

    def restart_condition(self, condition: object) -> None:
        """How long a condition lasts is counted from now on; that it was logged still holds."""
        known = self._lasting.get(condition)
        if known is not None:
            known.since = self._now()

    def all_over(self) -> bool:
        """Every condition has ended; returns whether any condition was logged."""
        logged = [self.end_condition(condition) for condition in list(self._lasting)]
        return any(logged)


def _forget_oldest(remembered: dict[object, Any]) -> None:
    if len(remembered) > MOST:
        del remembered[next(iter(remembered))]
