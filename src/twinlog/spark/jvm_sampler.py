"""Figures of Spark's JVM; a caller waits only briefly for an unresponsive JVM."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from twinlog.clock import SYSTEM, Clock
from twinlog.errors import EngineError
from twinlog.spark.engine import Engine
from twinlog.spark.jvm.figures import JvmFigures

log = logging.getLogger(__name__)

WAIT_S = 1.0
FRESH_S = 5.0
OLD_S = 60.0


class JvmSampler:
    """Asks the JVM on a thread of its own; `engine()` is the running engine, or None."""

    def __init__(self, engine: Callable[[], Engine | None], clock: Clock = SYSTEM) -> None:
        self._engine = engine
        self._clock = clock
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._found: tuple[float, JvmFigures] | None = None

    def latest(self) -> JvmFigures | None:
        """The figures of the last minute; None if they are missing, for example while Spark starts."""
        with self._lock:
            now = self._clock.monotonic()
            if self._found is None or now - self._found[0] > FRESH_S:
                self._ask()
            thread = self._thread
        if thread is not None:
            thread.join(WAIT_S)
        found = self._found
        return None if found is None or self._clock.monotonic() - found[0] > OLD_S else found[1]

    def _ask(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        thread = threading.Thread(target=self._look, name="jvm figures", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.debug("no thread for the figures of the JVM: %s", error)
        else:
            self._thread = thread

    def _look(self) -> None:
        try:
            engine = self._engine()
            figures = None if engine is None else engine.figures()
            if figures is not None:
                self._found = self._clock.monotonic(), figures
        except EngineError as error:
            log.debug("no figures of the JVM: %s", error)
