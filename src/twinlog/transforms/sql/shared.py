"""The one JVM for SQL of a process: all flows whose copiers are here have their queries evaluated by it."""

from __future__ import annotations

import random
import threading

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.errors import EngineError, EngineLostError
from twinlog.transforms.sql.jvm import SqlJvm

ANSWER_S, MOST_ANSWER_S = 30.0, 300.0
"""A JVM that does not answer a copier for so long hangs, and is killed. Where the machine was too busy for it, the next
one gets twice as long."""

LASTS_S = 60.0
"""A JVM that ran for so long has not ended because of what it was asked first."""

PAUSE_S, MOST_PAUSE_S = 1.0, 60.0


class SharedJvm:
    """Starts the JVM at the first call, and another one when it is lost: after a longer pause each time it is lost
    soon."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self.answer_s = ANSWER_S
        self.clock = clock
        self._jvm: SqlJvm | None = None
        self._lock = threading.Lock()
        self._began_at = LONG_AGO
        self._failures = 0

    def running(self) -> SqlJvm:
        """The JVM; may take some seconds, and up to a minute where it ends again and again.

        Raises EngineError, and EngineLostError where the next call may succeed.
        """
        with self._lock:
            if self._jvm is not None:
                if self._jvm.alive and not self._jvm.condemned:
                    return self._jvm
                self._forget(self._jvm)
            if self._failures:
                pause = min(MOST_PAUSE_S, PAUSE_S * 2.0 ** min(self._failures - 1, 20))
                self.clock.sleep(pause * random.uniform(0.8, 1.0))
            self._began_at = self.clock.monotonic()
            try:
                self._jvm = SqlJvm()
            except EngineError as error:
                self._failures += isinstance(error, EngineLostError)
                raise
            return self._jvm

    def another(self) -> SharedJvm:
        """One that has none yet; what it is asked first may take twice as long."""
        made = SharedJvm(self.clock)
        made.answer_s = min(MOST_ANSWER_S, 2 * self.answer_s)
        return made

    def _forget(self, jvm: SqlJvm) -> None:
        lasted = self.clock.monotonic() - self._began_at >= LASTS_S
        self._failures = 0 if lasted else self._failures + 1
        if jvm.hung and not jvm.busy:
            self.answer_s = min(MOST_ANSWER_S, 2 * self.answer_s)
        self._jvm = None
        jvm.close()

    def end(self) -> None:
        """End it, if there is one."""
        with self._lock:
            if self._jvm is not None:
                self._jvm.close()
                self._jvm = None


SHARED = SharedJvm()
