"""`transform.sql` of one flow in one process, evaluated by the one JVM of the process, and again after its loss."""

from __future__ import annotations

import random
import threading
from typing import Any

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.errors import EngineError, EngineLostError, TransformError, TwinlogError
from twinlog.transforms.sql.evaluate import SqlEvaluation
from twinlog.transforms.sql.jvm import HEAP_MB, SqlJvm

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

    def take_new_jvm(self) -> SharedJvm:
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


_Origin = tuple[str | None, int | None, int]


class SqlTransform:
    """A transform. `start` comes first, on a thread that may wait; `close` comes last.

    Where the JVM is lost a call raises EngineLostError, and so do those that follow, at once, until there is
    another JVM. Nothing that a record has in it is at fault then, and the same records are to be tried again. Only a
    record by itself that costs the query a JVM of its own is: the call with it raises TransformError.
    """

    def __init__(self, text: str, shared: SharedJvm = SHARED) -> None:
        self._text = text
        self._shared = shared
        self._evaluation: SqlEvaluation | None = None
        self._alone = False
        """Whether it has a JVM of its own, because it made other transforms lose the shared one."""
        self._suspect: _Origin | None = None
        """A record that may never end: it is tried by itself, after those before it."""
        self._closed = False
        self._wake = threading.Event()
        self._restarts: threading.Thread | None = None
        self._why = "Spark's JVM for transform.sql has not started yet"

    def start(self) -> None:
        """Takes some seconds. Raises TransformError for a query that is none, EngineError where there is no Spark, and
        EngineLostError where the next try may succeed."""
        self._begin()
        if self._restarts is None:
            # When the JVM is lost there may be no room for a thread.
            restarts = threading.Thread(target=self._start_again, name="starts SQL's JVM", daemon=True)
            try:
                restarts.start()
            except RuntimeError as error:
                self._forget()
                raise EngineLostError(f"transform.sql cannot be evaluated: {error}") from None
            self._restarts = restarts

    def _begin(self) -> None:
        evaluation = SqlEvaluation(self._shared.running(), self._text, self._shared.answer_s)
        self._evaluation = evaluation
        if self._closed:
            self.close()

    @property
    def trouble(self) -> str | None:
        """Why it cannot be called, None when it can."""
        return None if self._evaluation is not None else self._why

    def __call__(self, rows: Any) -> Any:
        """Raises TransformError where the query fails on rows, or on a record by itself ends its JVM, and
        EngineLostError."""
        evaluation = self._evaluation
        if evaluation is None:
            raise EngineLostError(self._why)
        if self._suspect is not None and _have(rows, self._suspect):
            if not _is_one(rows):
                raise TransformError(f"the record at offset {self._suspect[-1]} is tried by itself")
            self._suspect = None
        try:
            return evaluation(rows)
        except EngineLostError as error:
            stuck_at = evaluation.stuck_at
            self._suspect = next((origin for origin in _origins(rows) if origin[-1] == stuck_at), None)
            known = _is_one(rows) or self._suspect is not None
            count = "the record at" if known else f"{rows.num_rows} records from"
            at = rows.column("offset")[0].as_py() if self._suspect is None else self._suspect[-1]
            self._why = why = f"{error}, evaluating {count} source offset {at}; a new JVM is started"
            jvm, alone = evaluation.jvm, self._alone
            # Its JVM is of no use to the other flows, either.
            jvm.condemned = True
            fault = _fault(jvm, rows, self._shared.answer_s)
            if (jvm.hung_for_me() or fault is not None) and not alone:
                self._alone = True
                self._shared = self._shared.take_new_jvm()
            self._forget()
            self._wake.set()
            if fault is not None and alone:
                self._why = "Spark's JVM for transform.sql is started again"
                raise TransformError(fault) from None
            raise EngineLostError(why) from None

    def _start_again(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            pause_s = PAUSE_S
            while not self._closed and self._evaluation is None:
                try:
                    self._begin()
                except Exception as error:
                    # The query was analysed before, so it is not wrong. No error may end this thread, such as a full
                    # disk: the copier waits for it.
                    known = isinstance(error, TwinlogError)
                    self._why = str(error) if known else f"Spark's JVM for transform.sql does not start: {error!r}"
                    self._shared.clock.sleep(pause_s)
                    # For a shared JVM that is lost again, `SharedJvm` itself doubles the wait.
                    if not isinstance(error, EngineLostError):
                        pause_s = min(2 * pause_s, MOST_PAUSE_S)
            if self._closed:
                if self._alone:
                    self._shared.end()
                return

    def close(self) -> None:
        """Ends it, and leaves the JVM to others."""
        self._closed = True
        self._wake.set()
        self._forget()

    def _forget(self) -> None:
        evaluation, self._evaluation = self._evaluation, None
        if evaluation is not None:
            evaluation.close()


def _origins(rows: Any) -> list[_Origin]:
    """Where each row comes from; partitions have the same offsets."""
    return list(zip(*(rows.column(name).to_pylist() for name in ("topic", "partition", "offset")), strict=True))


def _have(rows: Any, origin: _Origin) -> bool:
    """Whether a record is among rows. It may never come, where its partition was released, and rows are many."""
    if not rows.num_rows:
        return False
    offsets = rows.column("offset")
    return bool(offsets[0].as_py() <= origin[-1] <= offsets[-1].as_py()) and origin in _origins(rows)


def _is_one(rows: Any) -> bool:
    """Whether all of them come from one record: a function before the query may have added some."""
    offsets = rows.column("offset")
    return bool(offsets[0].as_py() == offsets[-1].as_py())


def _fault(jvm: SqlJvm, rows: Any, answer_s: float) -> str | None:
    """What of one record ended the JVM, if nothing else had a part in it; None otherwise."""
    if not _is_one(rows):
        return None
    if jvm.hung_for_me():
        return f"the query had not ended on it after {answer_s:.0f} s" if jvm.busy else None
    return f"what the query makes of it does not fit into a heap of {HEAP_MB} MB" if jvm.out_of_memory() else None
