"""`transform.sql` of one flow in one process: ready once the JVM is there, and again after it was lost."""

from __future__ import annotations

import threading
from typing import Any

from twinlog.errors import EngineLostError, TwinlogError
from twinlog.transform.sql.evaluate import Evaluation
from twinlog.transform.sql.shared import PAUSE_S, SHARED, SharedJvm


class SqlTransform:
    """A transform. `start` comes first, on a thread that may wait; `close` comes last.

    Where the JVM is lost a call raises EngineLostError, and so do those that follow, at once, until there is
    another JVM. Nothing that a record has in it is at fault then, and the same records are to be tried again.
    """

    def __init__(self, text: str, shared: SharedJvm = SHARED) -> None:
        self._text = text
        self._shared = shared
        self._evaluation: Evaluation | None = None
        self._closed = False
        self._why = "Spark's JVM for transform.sql has not started yet"

    def start(self) -> None:
        """Takes some seconds. Raises TransformError for a query that is none, EngineError where there is no Spark, and
        EngineLostError where the next try may succeed."""
        evaluation = Evaluation(self._shared.running(), self._text, self._shared.answer_s)
        self._evaluation = evaluation
        if self._closed:
            self.close()

    @property
    def trouble(self) -> str | None:
        """Why it cannot be called, None when it can."""
        return None if self._evaluation is not None else self._why

    def __call__(self, rows: Any) -> Any:
        """Raises TransformError where the query fails on rows, and EngineLostError."""
        evaluation = self._evaluation
        if evaluation is None:
            raise EngineLostError(self._why)
        try:
            return evaluation(rows)
        except EngineLostError as error:
            self._why = why = f"{error}; another one is started"
            self._evaluation = None
            # What it has is of no use to the other flows, either.
            evaluation.jvm.condemned = True
            evaluation.close()
            threading.Thread(target=self._start_again, name="starts SQL's JVM", daemon=True).start()
            raise EngineLostError(why) from None

    def _start_again(self) -> None:
        while not self._closed and self._evaluation is None:
            try:
                self.start()
            except Exception as error:
                # It has been analysed before, so it is no fault of the query. Nor is it of twinlog, as where there is
                # no room for a file: the copier waits for this thread.
                known = isinstance(error, TwinlogError)
                self._why = str(error) if known else f"Spark's JVM for transform.sql does not start: {error!r}"
                self._shared.clock.sleep(PAUSE_S)

    def close(self) -> None:
        """Ends it, and leaves the JVM to others."""
        self._closed = True
        evaluation, self._evaluation = self._evaluation, None
        if evaluation is not None:
            evaluation.close()
