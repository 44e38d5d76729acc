"""Has the JVMs that evaluate `transform.sql` start cheaply, with a class archive: at a third of the processor time.

twinlog's own JVMs of Spark have one (`twinlog.spark.archive`); those beside copiers run for as long as a flow does.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import HarnessError
from harness.jars import locked
from harness.spark_cluster import CHEAP_JVM
from twinlog.spark.archive import archive_file as spark_archive_file
from twinlog.spark.archive import record_options

_VARIABLE = "JDK_JAVA_OPTIONS"
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_WAIT_S = 300.0
_ROW = {"value": b"1", "topic": "t", "partition": 0, "offset": 0, "timestamp": 0, "timestampType": 0}
_QUERY = "SELECT cast(cast(cast(value AS STRING) AS INT) + 1 AS STRING) AS value FROM records WHERE offset < 5"


@contextmanager
def java_options(options: str) -> Iterator[None]:
    """Every `java` that this process and what it starts begin meanwhile has these."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = options
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


@contextmanager
def cheap_sql() -> Iterator[None]:
    """What evaluates queries starts cheaply meanwhile: a test ends long before the code is worth compiling well."""
    with java_options(f"{CHEAP_JVM} {use_options()}"):
        yield


def archive_file() -> Path:
    """Where it lies, whether it exists or not: for this Spark and this Java."""
    other = spark_archive_file()
    return other.with_name(f"sql-{other.name}")


def use_options() -> str:
    """JVM options that use it; empty when there is none."""
    path = archive_file()
    return f"-XX:SharedArchiveFile={path} {_QUIET}" if path.is_file() else ""


def record_sql() -> None:
    """Have one JVM evaluate a query, and keep the classes that it needed. Raises HarnessError."""
    kept = archive_file()
    with locked(kept.with_suffix(".lock")):
        if kept.is_file():
            return
        # They take a second to import, and the archive is there as a rule.
        import pyarrow as pa  # noqa: PLC0415

        from twinlog.rows.arrow import schema  # noqa: PLC0415
        from twinlog.transform.sql.evaluate import Evaluation  # noqa: PLC0415
        from twinlog.transform.sql.jvm import SqlJvm  # noqa: PLC0415

        with tempfile.TemporaryDirectory(prefix=".sql-", dir=kept.parent) as work:
            fresh = Path(work, kept.name)
            with java_options(f"{CHEAP_JVM} {record_options(fresh)}"):
                jvm = SqlJvm()
            try:
                evaluation = Evaluation(jvm, _QUERY)
                evaluation(pa.RecordBatch.from_pylist([_ROW], schema=schema(headers=True)))
                evaluation.close()
                assert jvm.process is not None
                assert jvm.process.stdin is not None
                # It writes the archive at its end, which that of its input is.
                jvm.process.stdin.close()
                jvm.process.wait(_WAIT_S)
            finally:
                jvm.close()
            if not fresh.is_file():
                raise HarnessError(f"Spark left no class archive at {fresh}")
            fresh.rename(kept)
