"""Has the JVM evaluate a query on batches: Arrow goes there and back in memory that both processes see."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError

from twinlog.batches.arrow.arrays import schema
from twinlog.errors import EngineLostError, TransformError
from twinlog.transforms.sql.gateway import reason
from twinlog.transforms.sql.jvm import SqlJvm
from twinlog.transforms.sql.program import MOST_KEPT_BYTES
from twinlog.transforms.sql.query import analyse, compiled

MOST_BYTES = 8 << 20
"""The most bytes that go to the JVM at a time; its heap holds a few times this size."""

BEGIN_S = 120.0
"""The limit in seconds of the analysis of the query, and of its first evaluation."""


class SqlEvaluation:
    """A transform by a JVM, which has `answer_s` seconds for each part of a batch.

    `close` comes last.

    Raises TransformError for an invalid query, and for records on which it fails; EngineLostError if the JVM is at
    fault.
    """

    def __init__(self, jvm: SqlJvm, text: str, answer_s: float = 60.0) -> None:
        self.jvm = jvm
        self._answer_s = answer_s
        self._there: _Shared | None = None
        self._back: _Shared | None = None
        self.stuck_at: int | None = None
        """The source offset of the record that the JVM evaluated when it was killed."""
        try:
            with jvm.within(BEGIN_S):
                self._query = analyse(jvm, text)
                self._there, self._back = _Shared("there"), _Shared("back")
                steps = compiled(jvm.catalyst, self._query)
                self._evaluator = jvm.evaluator(self._there.path, self._back.path, steps, self._query.made)
                self._warm_up()
        except BaseException as error:
            self.close()
            if isinstance(error, (Py4JError, TypeError, OSError)):
                raise jvm.lost(error, BEGIN_S) from None
            raise

    def _warm_up(self) -> None:
        """Evaluate a row: the first evaluation takes about a second, in which the JVM compiles the query."""
        row: dict[str, Any] = {"key": b"", "value": b"", "topic": "", "partition": 0, "offset": 0, "timestamp": 0}
        nothing = pa.RecordBatch.from_pylist([{**row, "timestampType": 0}], schema=schema(headers=True))
        try:
            self._made(nothing)
        except Py4JJavaError as error:
            # The query may fail on this row alone.
            if (unfit := self.jvm.unfit(error)) is not None:
                raise unfit from None

    def __call__(self, rows: Any) -> Any:
        parts = [self._evaluate(part) for part in _cut(rows)]
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def _evaluate(self, rows: Any) -> Any:
        if not rows.num_rows:
            return rows
        self.stuck_at = None
        try:
            with self.jvm.within(self._answer_s, lambda: self._look(rows)):
                made = self._result(rows)
        except (Py4JError, OSError, pa.ArrowInvalid) as error:
            raise self.jvm.lost(error, self._answer_s) from None
        if made.null_count:
            stay = made.is_valid()
            rows, made = rows.filter(stay), made.filter(stay)
        for at, name in enumerate(self._query.computed):
            rows = rows.set_column(rows.schema.get_field_index(name), name, made.field(at))
        return rows

    def _look(self, rows: Any) -> None:
        with contextlib.suppress(Py4JError, OSError, IndexError):
            self.stuck_at = rows.column("offset")[int(self._evaluator.at())].as_py()

    def _result(self, rows: Any) -> Any:
        """As `_made`; the JVM is asked for the kind of an error.

        If the JVM is lost meanwhile, the fault is the JVM's.
        """
        try:
            return self._made(rows)
        except Py4JJavaError as error:
            if self.jvm.refused(error):
                raise TransformError(reason(error)) from None
            unfit = self.jvm.unfit(error)
            raise unfit or EngineLostError(f"Spark's JVM for transform.sql fails: {reason(error)}") from None

    def _made(self, rows: Any) -> Any:
        assert self._there is not None
        assert self._back is not None
        self._there.write(rows.select(list(self._query.needs)))
        (batch,) = pa.ipc.open_stream(self._back.read(self._evaluator.evaluate()))
        return batch.column(0)

    def close(self) -> None:
        """Close the evaluation; the JVM stays for other flows."""
        # A hanging JVM is killed for this call: the end of a flow would wait for ever.
        with contextlib.suppress(Py4JError, OSError, AttributeError), self.jvm.within(self._answer_s):
            self._evaluator.close()
        for shared in (self._there, self._back):
            if shared is not None:
                shared.close()


class _Shared:
    """Memory with a path that the JVM can open; it is freed at the end of this process."""

    def __init__(self, name: str) -> None:
        if hasattr(os, "memfd_create"):
            self._file: Any = os.fdopen(os.memfd_create(f"twinlog-sql-{name}"), "w+b", buffering=0)
            self.path = f"/proc/{os.getpid()}/fd/{self._file.fileno()}"
        else:
            self._file = tempfile.NamedTemporaryFile(buffering=0)  # noqa: SIM115
            self.path = self._file.name

    def write(self, rows: Any) -> None:
        self._file.seek(0)
        self._file.truncate()
        with pa.ipc.new_stream(pa.PythonFile(self._file, "w"), rows.schema) as stream:
            stream.write_batch(rows)

    def read(self, size: int) -> bytes:
        found = os.pread(self._file.fileno(), size, 0)
        if size > MOST_KEPT_BYTES:
            self._file.truncate(0)
        return found

    def close(self) -> None:
        self._file.close()


def _cut(rows: Any) -> Iterator[Any]:
    count = max(1, -(-rows.nbytes // MOST_BYTES))
    size = max(1, -(-rows.num_rows // count))
    for first in range(0, max(1, rows.num_rows), size):
        yield rows.slice(first, size)
