"""Keeps a single Spark for all flows of a process: starts it, and restarts it after the death of its JVM."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.errors import EngineError, EngineLostError
from twinlog.errors.message_ids import id_of
from twinlog.spark.engine import Engine

log = logging.getLogger(__name__)


WAITS_S = (0.0, 1.0, 2.0, 5.0, 10.0)
"""Seconds before the first, the second, ... restart after a loss; a further loss ends the restarts."""

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
        """Losses within the window, as of the last loss."""
        return len(self._losses)

    @property
    def rule(self) -> str:
        """The limit in words."""
        return f"{len(self._waits_s)} times within {self._window_s / 60:g} min"

    def count_loss(self, now: float) -> float | None:
        """Count a loss; returns the seconds to wait before the next start, None after too many losses."""
        self._losses = [at for at in self._losses if now - at < self._window_s] + [now]
        return self._waits_s[self.count - 1] if self.count <= len(self._waits_s) else None


LOOK_S = 0.2
EXECUTORS_S = 15.0
"""The longest wait for the first executor at a start on a cluster."""

CLEAR_S = 1.0
"""The time that the remains of a lost engine get for their end before they are killed."""

JOIN_S = 1.5
SLOW_S = 30.0
"""A start that takes longer than this counts as a trouble."""


class SupervisedEngine:
    """The engine of a process, on a thread of its own; `build` makes an engine that is yet to start.

    Each engine has its own JVM, session and fork server. A caller whose queries ran on a lost engine starts them again
    on the next engine, which is another object from `engine`. Messages of a missing engine end with `meanwhile`.
    """

    def __init__(
        self,
        build: Callable[[], Engine],
        wake: Callable[[], None],
        restarts: Restarts | None = None,
        clock: Clock = SYSTEM,
        meanwhile: str = "nothing is copied meanwhile",
    ) -> None:
        self._meanwhile = meanwhile
        self._clock = clock
        self._build = build
        self._wake = wake
        self._restarts = restarts or Restarts()
        self._lock = threading.Lock()
        self._starting: Engine | None = None
        """The engine without a running Spark; it may be killed."""
        self._started: Engine | None = None
        """The engine with a running Spark; it ends in order, because a cluster may be starting executors for it."""
        self._engine: Engine | None = None
        self._reported: EngineLostError | None = None
        self._error: Exception | None = None
        self.restarted = 0
        """The number of times that Spark ran again after a loss."""
        self._been_up = False
        self._loss: EngineError | None = None
        """The error that ended the last engine, until another engine runs."""
        self._began = clock.monotonic()
        self._closing = threading.Event()
        """Set once further starts are excluded."""
        self._ending = threading.Event()
        """Set once the running engine has to end."""
        self._stop_by = LONG_AGO
        self._thread = threading.Thread(target=self._run, name="spark", daemon=True)

    def start(self) -> None:
        """Begin to start it; that takes seconds."""
        self._began = self._clock.monotonic()
        self._thread.start()

    @property
    def engine(self) -> Engine | None:
        """The engine; None while it starts. Raises EngineError if Spark failed for good."""
        if self._error is not None:
            raise self._error
        return self._engine

    @property
    def trouble(self) -> str | None:
        """The reason for the missing engine, in words that stay the same meanwhile; None during a normal start."""
        if self._engine is not None or self._error is not None:
            return None
        if self._loss is not None:
            return f"{id_of(self._loss, 'TW-SPARK-03')}: {self._loss}: Spark is started again, and {self._meanwhile}"
        if self._clock.monotonic() - self._began >= SLOW_S:
            waited = f"Spark has not started within {SLOW_S:.0f} s"
            return f"TW-SPARK-04: {waited}: twinlog waits for Spark, and {self._meanwhile}"
        return None

    def report_loss(self, engine: Engine, error: EngineLostError) -> None:
        """A call to an engine raised this error; the engine may have been replaced by now."""
        with self._lock:
            if engine is self._engine:
                self._engine, self._reported = None, error

    def close(self) -> None:
        """Prevent further starts and end an engine that is starting. An engine that runs continues until `stop`."""
        with self._lock:
            self._closing.set()
            starting, running = self._starting, self._started
        if running is not None:
            running.expect_end()
        if starting is not None:
            starting.interrupt()

    def interrupt(self) -> None:
        """End the starting or running engine at once, for example a hanging engine; calls raise EngineLostError."""
        with self._lock:
            self._closing.set()
            engines = self._starting, self._started
        for engine in engines:
            if engine is not None:
                engine.interrupt()

    def stop(self, timeout_s: float) -> None:
        """Stop the running engine within `timeout_s`."""
        self.close()
        self._stop_by = self._clock.monotonic() + timeout_s
        self._ending.set()
        self._thread.join(timeout_s + JOIN_S)

    # The thread.

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                loss = self._run_engine()
                if loss is None or self._closing.is_set():
                    return
                self._loss = loss
                wait_s = self._restarts.count_loss(self._clock.monotonic())
                if wait_s is None:
                    raise EngineLostError(
                        f"{loss}, again after its restart {self._restarts.rule}", message_id="TW-SPARK-12"
                    )
                log.warning(
                    "%s: %s: Spark is started again %s (%d of %s), and %s",
                    id_of(loss, "TW-SPARK-03"),
                    loss,
                    f"in {wait_s:.0f} s" if wait_s else "now",
                    self._restarts.count,
                    self._restarts.rule,
                    self._meanwhile,
                )
                self._clock.wait(self._closing, wait_s)
        except Exception as error:
            self._error = error
        finally:
            self._wake()

    def _run_engine(self) -> EngineError | None:
        """Start an engine and watch it; returns the error that ended it, None if it was stopped.

        Raises EngineError if the first start fails for good, and if a given session is lost.
        """
        engine = self._build()
        began = self._clock.monotonic()
        with self._lock:
            if self._closing.is_set():
                return None
            self._starting, self._reported = engine, None
        try:
            engine.start()
            with self._lock:
                self._starting, self._started = None, engine
            if not engine.local:
                engine.wait_for_slot(EXECUTORS_S, self._closing)
            with self._lock:
                self._engine, self._loss = engine, None
            if self._been_up or self._restarts.count:
                log.info("Spark runs again after %.1f s", self._clock.monotonic() - began)
                self.restarted += 1
            self._been_up = True
            self._wake()
            while not self._clock.wait(self._ending, LOOK_S):
                self._look_after(engine)
            return None
        except EngineError as error:
            # An engine that worked before may work again, for example after a shortage of memory.
            if engine.own and (error.retriable or self._been_up):
                return error
            raise
        finally:
            with self._lock:
                self._starting = self._started = self._engine = None
            engine.stop(max(0.5, self._stop_by - self._clock.monotonic()) if self._ending.is_set() else CLEAR_S)

    def _look_after(self, engine: Engine) -> None:
        engine.require_alive()
        if self._reported is not None:
            raise self._reported
