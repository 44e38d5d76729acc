"""A clock that only goes when somebody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

BEGIN = 1000.0
"""What the monotonic clock shows first, unless the tests choose another moment."""

WALL_BEGIN = 1_700_000_000.0


class VirtualClock:
    """Whoever waits moves it on; `now` may be set. Meant for one thread at a time."""

    def __init__(self, now: float | None = None) -> None:
        self.now = BEGIN if now is None else now
        self._began = self.now
        self.meanwhile: Callable[[Callable[[], bool], float], None] | None = None
        """Lets others go on while a thread waits: until something is true, or for so many seconds."""

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return WALL_BEGIN + self.now - self._began

    def sleep(self, seconds: float) -> None:
        self.now += max(0.0, seconds)

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        return self.wait_for(threading.Condition(), event.is_set, timeout_s)

    def wait_for(self, _changed: threading.Condition, true: Callable[[], bool], timeout_s: float) -> bool:
        if not true():
            if self.meanwhile is None:
                self.sleep(timeout_s)
            else:
                self.meanwhile(true, timeout_s)
        return true()
