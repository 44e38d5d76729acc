"""Has the JVM evaluate a query on batches: Arrow goes there and back in memory that both processes see."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError

from twinlog.errors import EngineLostError, TransformError
from twinlog.rows.arrow import schema
from twinlog.transform.sql.jvm import HEAP_MB, SqlJvm, module, reason
from twinlog.transform.sql.query import analyse

MOST_BYTES = 8 << 20
"""So much goes to the JVM at a time; its heap holds a few times that."""

BEGIN_S = 120.0
_OF_CODE = {3: f"has ended: its heap of {HEAP_MB} MB was too small for what the query makes of the records"}


class Evaluation:
    """A transform by one JVM, which has `answer_s` seconds for each part of a batch. `close` comes last.

    Raises TransformError for a query that is none, and for what it fails on; EngineLostError where the JVM is at fault.
    """

    def __init__(self, jvm: SqlJvm, text: str, answer_s: float = 60.0) -> None:
        self.jvm = jvm
        self._answer_s = answer_s
        self._there: _Shared | None = None
        self._back: _Shared | None = None
        try:
            with jvm.within(BEGIN_S):
                self._query = analyse(jvm, text)
                self._begin(jvm.java)
                self._warm_up()
        except BaseException as error:
            self.close()
            if isinstance(error, (Py4JError, OSError)):
                raise self._lost(error) from None
            raise

    def _begin(self, java: Any) -> None:
        self._there, self._back = _Shared("there"), _Shared("back")
        self._converters = module(java, "org.apache.spark.sql.execution.arrow.ArrowConverters")
        self._read = java.org.apache.spark.sql.api.python.PythonSQLUtils.readArrowStreamFromFile
        self._out = java.java.io.RandomAccessFile(self._back.path, "rw")
        # py4j would send an array of bytes as text, so that none of it may come here: the JVM writes what it made.
        handles, kinds = java.java.lang.invoke.MethodHandles, java.java.lang.invoke.MethodType
        bytes_class = java.java.lang.Class.forName("[B")
        write = handles.publicLookup().findVirtual(
            self._out.getClass(), "write", kinds.methodType(java.java.lang.Void.TYPE, bytes_class)
        )
        function = java.java.lang.Class.forName("scala.Function1")
        self._write = java.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(function, write.bindTo(self._out))

    def _warm_up(self) -> None:
        """The first evaluation takes a second or so, in which the JVM learns what it has to do."""
        row: dict[str, Any] = {"key": b"", "value": b"", "topic": "", "partition": 0, "offset": 0, "timestamp": 0}
        nothing = pa.RecordBatch.from_pylist([{**row, "timestampType": 0}], schema=schema(headers=True))
        with contextlib.suppress(Py4JJavaError):
            self._made(nothing)

    def __call__(self, rows: Any) -> Any:
        parts = [self._evaluate(part) for part in _cut(rows)]
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def _evaluate(self, rows: Any) -> Any:
        if not rows.num_rows:
            return rows
        try:
            with self.jvm.within(self._answer_s):
                made = self._told(rows)
        except (Py4JError, OSError, pa.ArrowInvalid) as error:
            raise self._lost(error) from None
        if made.null_count:
            stay = made.is_valid()
            rows, made = rows.filter(stay), made.filter(stay)
        for at, name in enumerate(self._query.computed):
            rows = rows.set_column(rows.schema.get_field_index(name), name, made.field(at))
        return rows

    def _told(self, rows: Any) -> Any:
        """`_made`; what an error is the JVM is asked, too, which may be lost meanwhile: then no record is at fault."""
        try:
            return self._made(rows)
        except Py4JJavaError as error:
            if self.jvm.refused(error):
                raise TransformError(reason(error)) from None
            raise EngineLostError(f"Spark's JVM for transform.sql fails: {reason(error)}") from None

    def _made(self, rows: Any) -> Any:
        query = self._query
        assert self._there is not None
        assert self._back is not None
        self._there.write(rows.select(list(query.needs)))
        given = self._converters.fromBatchIterator(self._read(self._there.path), query.given, "UTC", False, False, None)
        made = self._converters.toBatchWithSchemaIterator(
            given.map(query.projection), query.made, 0, 0, "UTC", True, False
        )
        try:
            self._out.seek(0)
            made.foreach(self._write)
        finally:
            made.close()
            # What is left of it would be kept.
            given.length()
        (batch,) = pa.ipc.open_stream(self._back.read(self._out.getFilePointer()))
        return batch.column(0)

    def _lost(self, error: Exception) -> EngineLostError:
        if self.jvm.hung:
            why = f"has not answered for {self._answer_s:.0f} s, and was killed"
        elif (code := self.jvm.exit_code) is None:
            why = f"does not answer any more: {error}"
        elif code < 0:
            why = f"was killed by {signal.Signals(-code).name}"
        else:
            why = _OF_CODE.get(code, f"has ended with code {code}")
        return EngineLostError(f"Spark's JVM for transform.sql {why}")

    def close(self) -> None:
        """Ends it, and leaves the JVM to others."""
        # A JVM that hangs is killed for it: who ends a flow would wait for ever.
        with contextlib.suppress(Py4JError, OSError, AttributeError), self.jvm.within(self._answer_s):
            self._out.close()
        for shared in (self._there, self._back):
            if shared is not None:
                shared.close()


class _Shared:
    """Memory with a path that the JVM can open; of nobody once this process has ended."""

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
        return os.pread(self._file.fileno(), size, 0)

    def close(self) -> None:
        self._file.close()


def _cut(rows: Any) -> Iterator[Any]:
    count = max(1, -(-rows.nbytes // MOST_BYTES))
    size = max(1, -(-rows.num_rows // count))
    for first in range(0, max(1, rows.num_rows), size):
        yield rows.slice(first, size)
