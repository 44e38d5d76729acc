"""`transform.sql` of a flow in a process, evaluated by the shared JVM of the process, and again after its loss."""

from __future__ import annotations

import random
import threading
from typing import Any

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.errors import EngineError, EngineLostError, TransformError, TwinlogError
from twinlog.transforms.sql.evaluate import SqlEvaluation
from twinlog.transforms.sql.jvm import HEAP_MB, SqlJvm

ANSWER_S, MOST_ANSWER_S = 30.0, 300.0
"""The seconds after which a silent JVM counts as hanging and is killed, and the upper limit of the seconds.

If the machine was too busy for the JVM, the next JVM gets twice as long.
"""

LASTS_S = 60.0
"""The seconds after which the end of a JVM has other causes than its first request."""

PAUSE_S, MOST_PAUSE_S = 1.0, 60.0


class SharedJvm:
    """Starts the JVM at the first call, and a new JVM after each loss.

    The pause before the start grows each time a JVM is lost soon.
    """

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self.answer_s = ANSWER_S
        self.clock = clock
        self._jvm: SqlJvm | None = None
        self._lock = threading.Lock()
        self._began_at = LONG_AGO
        self._failures = 0

    def running(self) -> SqlJvm:
        """The JVM; may take some seconds, and up to a minute if it ends again and again.

        Raises EngineError, and EngineLostError if the next call may succeed.
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
        """A new object, still before its JVM; the JVM's first request may take twice as long."""
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
        """End the JVM, if it is running."""
        with self._lock:
            if self._jvm is not None:
                self._jvm.close()
                self._jvm = None


SHARED = SharedJvm()


_Origin = tuple[str | None, int | None, int]


class SqlTransform:
    """A transform.

    `start` comes first, on a thread that may wait; `close` comes last.

    If the JVM is lost, the call raises EngineLostError. Until a new JVM runs, further calls raise the same error at
    once. The fault is then the JVM's, and the same records are tried again. A record is at fault only if the record by
    itself ends a JVM of the query's own: the call with it raises TransformError.
    """

    def __init__(self, text: str, shared: SharedJvm = SHARED) -> None:
        self._text = text
        self._shared = shared
        self._evaluation: SqlEvaluation | None = None
        self._alone = False
        """Whether the transform has a JVM of its own, because it made other transforms lose the shared JVM."""
        self._suspect: _Origin | None = None
        """A record whose evaluation may be endless: it is tried by itself, after the records before it."""
        self._closed = False
        self._wake = threading.Event()
        self._restarts: threading.Thread | None = None
        self._why = "Spark's JVM for transform.sql is still starting"

    def start(self) -> None:
        """Start the JVM and analyse the query, in some seconds.

        Raises TransformError for an invalid query, EngineError if Spark is missing, and EngineLostError if the next try
        may succeed.
        """
        self._begin()
        if self._restarts is None:
            # When the JVM is lost, the system may lack room for a thread.
            restarts = threading.Thread(target=self._start_again, name="starts SQL's JVM", daemon=True)
            try:
                restarts.start()
            except RuntimeError as error:
                self._forget()
                raise EngineLostError(f"transform.sql is impossible to evaluate: {error}") from None
            self._restarts = restarts

    def _begin(self) -> None:
        evaluation = SqlEvaluation(self._shared.running(), self._text, self._shared.answer_s)
        self._evaluation = evaluation
        if self._closed:
            self.close()

    @property
    def trouble(self) -> str | None:
        """Why a call would fail; None when the transform is ready."""
        return None if self._evaluation is not None else self._why

    def __call__(self, rows: Any) -> Any:
        """Evaluate rows.

        Raises EngineLostError, and TransformError for a fault of the records.

        Records are at fault if the query fails on them, or if a record by itself ends its JVM.
        """
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
            # The JVM is useless to the other flows, too.
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
                    # The query was analysed before, so it is valid. This thread survives every error, for example a
                    # full disk: the copier waits for it.
                    known = isinstance(error, TwinlogError)
                    self._why = str(error) if known else f"Spark's JVM for transform.sql fails to start: {error!r}"
                    self._shared.clock.sleep(pause_s)
                    # For a shared JVM that is lost again, `SharedJvm` itself doubles the wait.
                    if not isinstance(error, EngineLostError):
                        pause_s = min(2 * pause_s, MOST_PAUSE_S)
            if self._closed:
                if self._alone:
                    self._shared.end()
                return

    def close(self) -> None:
        """Close the transform; the JVM stays for other flows."""
        self._closed = True
        self._wake.set()
        self._forget()

    def _forget(self) -> None:
        evaluation, self._evaluation = self._evaluation, None
        if evaluation is not None:
            evaluation.close()


def _origins(rows: Any) -> list[_Origin]:
    """The origin of each row; partitions have the same offsets."""
    return list(zip(*(rows.column(name).to_pylist() for name in ("topic", "partition", "offset")), strict=True))


def _have(rows: Any, origin: _Origin) -> bool:
    """Whether a record is among the rows. After the release of its partition it stays away, and rows are many."""
    if not rows.num_rows:
        return False
    offsets = rows.column("offset")
    return bool(offsets[0].as_py() <= origin[-1] <= offsets[-1].as_py()) and origin in _origins(rows)


def _is_one(rows: Any) -> bool:
    """Whether all rows come from a single record: a function before the query may have added rows."""
    offsets = rows.column("offset")
    return bool(offsets[0].as_py() == offsets[-1].as_py())


def _fault(jvm: SqlJvm, rows: Any, answer_s: float) -> str | None:
    """The fault of a single record that ended the JVM, if the record is its only cause; otherwise None."""
    if not _is_one(rows):
        return None
    if jvm.hung_for_me():
        return f"the query was still working on it after {answer_s:.0f} s" if jvm.busy else None
    return f"the query's result for it exceeds a heap of {HEAP_MB} MB" if jvm.out_of_memory() else None
