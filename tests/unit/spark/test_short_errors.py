"""What Spark's workers print of an error of ours, and of one of somebody else."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest
from pyspark.util import handle_worker_exception

from twinlog.errors import ClusterError
from twinlog.ops.verify.source import VerifyReader, VerifySource
from twinlog.spark.dataframes.topic_source import (
    FilteringReader,
    TopicBatchReader,
    TopicBatchWriter,
    TopicSource,
    TopicStreamReader,
    TopicStreamWriter,
)
from twinlog.spark.short_errors import HIDE, without_trace

OURS = ClusterError("cluster east: no broker can be reached")


@without_trace
class Reader:
    """As Spark calls one."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def partitions(self) -> list[int]:
        raise self._error

    def read(self) -> Iterator[int]:
        yield 1
        raise self._error

    def schema(self) -> str:
        return "a int"


def printed(step: Callable[[], object]) -> str:
    out = io.BytesIO()
    try:
        step()
    except Exception as error:
        handle_worker_exception(error, out)
    return out.getvalue()[8:].decode()


@pytest.mark.parametrize("step", [lambda reader: reader.partitions(), lambda reader: list(reader.read())])
def test_an_error_of_ours_is_its_sentence(monkeypatch: pytest.MonkeyPatch, step: Callable[[Reader], object]) -> None:
    monkeypatch.delenv(HIDE, raising=False)
    assert printed(lambda: step(Reader(OURS))) == f"twinlog.errors.ClusterError: {OURS}\n"


def test_one_of_somebody_else_keeps_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HIDE, raising=False)
    assert "Traceback" in printed(lambda: list(Reader(ValueError("theirs")).read()))
    assert Reader(OURS).schema() == "a int"


def test_all_that_spark_calls_is_told_so() -> None:
    for kind, names in (
        (TopicSource, ("schema", "reader", "streamReader", "writer", "streamWriter")),
        (TopicBatchReader, ("partitions", "read")),
        (FilteringReader, ("pushFilters",)),
        (TopicStreamReader, ("initialOffset", "latestOffset", "partitions", "read")),
        (TopicBatchWriter, ("write",)),
        (TopicStreamWriter, ("write", "commit", "abort")),
        (VerifySource, ("reader",)),
        (VerifyReader, ("partitions", "read")),
    ):
        assert all(hasattr(vars(kind)[name], "__wrapped__") for name in names), kind
