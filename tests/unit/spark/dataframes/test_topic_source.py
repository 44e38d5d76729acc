"""Spark's view of `twinlog-kafka`: schema, readers, writers, and the values that travel into tasks."""

from __future__ import annotations

import pickle
import subprocess
import sys
import types
from collections.abc import Iterable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceReader, EqualTo, IsNotNull
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from twinlog.batches.arrow.arrays import schema
from twinlog.errors import OptionError
from twinlog.spark.dataframes import topic_source, writer
from twinlog.spark.dataframes.topic_source import FilteringReader, TopicSource, TopicStreamReader
from twinlog.spark.dataframes.write_options import read_write_options
from twinlog.spark.dataframes.write_task import MicroBatch, WriteTask, WriteTaskResult

OPTIONS = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t"}
HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
COLUMNS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]
PLAIN = StructType(COLUMNS)
WITH_HEADERS = StructType([*COLUMNS, StructField("headers", HEADERS)])


def test_arrow_has_exactly_the_types_that_spark_wants() -> None:
    assert to_arrow_schema(PLAIN, timezone="UTC").equals(schema(headers=False))
    assert to_arrow_schema(WITH_HEADERS, timezone="UTC").equals(schema(headers=True))


def test_its_schema_is_its_own() -> None:
    TopicSource(OPTIONS).reader(PLAIN)
    TopicSource({**OPTIONS, "includeHeaders": "true"}).reader(WITH_HEADERS)
    with pytest.raises(OptionError, match="Kafka source has a fixed schema and cannot be set with a custom one"):
        TopicSource(OPTIONS).reader(WITH_HEADERS)


def test_filters_are_taken_only_where_spark_hands_them_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere Spark refuses a reader that takes filters, as its setting is off by default."""
    plain = TopicSource(OPTIONS).reader(PLAIN)
    assert type(plain).pushFilters is DataSourceReader.pushFilters
    name = "pyspark.sql.worker.data_source_pushdown_filters"
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    reader = TopicSource(OPTIONS).reader(PLAIN)
    assert isinstance(reader, FilteringReader)
    filters = [EqualTo(("partition",), 3), IsNotNull(("key",)), EqualTo(("headers", "key"), "k")]
    assert list(reader.pushFilters(filters)) == filters
    assert [(one.column, one.kind, one.value) for one in reader._conditions] == [
        ("partition", "EqualTo", 3),
        ("key", "IsNotNull", None),
    ]


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"minOffsetsPerTrigger": "3"}, ReadMinRows(3)),
        ({"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "9"}, ReadMaxRows(9)),
    ],
)
def test_limits_are_told_apart_from_reading_everything_at_once(options: dict[str, str], limit: object) -> None:
    assert TopicSource({**OPTIONS, **options}).streamReader(PLAIN).getDefaultReadLimit() == limit


@pytest.mark.parametrize("kind", ["reader", "streamReader"])
def test_tasks_import_nothing_that_plans(kind: str) -> None:
    reader = getattr(TopicSource(OPTIONS), kind)(PLAIN)
    assert reader._options is not None
    data = cloudpickle.dumps(reader)
    assert pickle.loads(data)._options is None
    program = f"""
import pickle, sys
reader = pickle.loads({data!r})
assert reader._task.consumer.client.bootstrap_servers == ("b:9092",)
of_frames = ("twinlog.spark.dataframes." + name for name in ("options", "planner", "ranges", "stream", "write_options"))
planning = ("twinlog.config", *of_frames, "javaproperties", "numpy.")
found = [name for name in sys.modules if name.startswith(planning)]
assert not found, found
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_a_query_over_nothing_reads_nothing() -> None:
    from pyspark.sql.datasource import InputPartition

    assert list(TopicSource(OPTIONS).reader(PLAIN).read(InputPartition(None))) == []
    assert isinstance(TopicSource(OPTIONS).streamReader(PLAIN), TopicStreamReader)


BROKERS = {"kafka.bootstrap.servers": "b:9092", "topic": "t"}
PARTITIONS = 4
ROUNDS = 200


class Begun:
    """What tasks would write: Spark and the cluster are left out."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        patch.setattr(writer, "write_rows", self._write)

    def _write(self, _task: WriteTask, _rows: Iterable[Any], batch: MicroBatch | None, first: int) -> WriteTaskResult:
        self.batch, self.partition = batch, first % PARTITIONS
        return WriteTaskResult(0)

    def partition_of(self, sink: Any, part: int, number: int = 0) -> int:
        properties = {"sql.streaming.queryId": "q", "streaming.sql.batchId": str(number)}
        context = SimpleNamespace(partitionId=lambda: part, getLocalProperty=properties.get)
        self._patch.setattr(topic_source, "TaskContext", SimpleNamespace(get=lambda: context))
        sink.write(iter(()))
        return self.partition


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Begun:
    return Begun(monkeypatch)


def assert_even(partitions: list[int]) -> None:
    assert {partition: partitions.count(partition) for partition in range(PARTITIONS)} == pytest.approx(
        dict.fromkeys(range(PARTITIONS), ROUNDS / PARTITIONS), rel=0.7
    )


@pytest.mark.parametrize("exactly_once", ["true", "false"])
def test_small_micro_batches_of_one_task_go_to_all_partitions(begun: Begun, exactly_once: str) -> None:
    sink = topic_source.TopicStreamWriter(read_write_options({**BROKERS, "exactlyOnce": exactly_once}, "stream"))
    assert_even([begun.partition_of(sink, 0, number) for number in range(ROUNDS)])
    # A query with a watermark has an empty micro-batch after each one with rows.
    assert_even([begun.partition_of(sink, 0, 2 * number) for number in range(ROUNDS)])


def test_tasks_of_one_micro_batch_begin_apart_and_an_attempt_where_the_last_did(begun: Begun) -> None:
    sink = topic_source.TopicStreamWriter(read_write_options(BROKERS, "stream"))
    partitions = [begun.partition_of(sink, part, 7) for part in range(PARTITIONS)]
    assert begun.batch == MicroBatch("q", 7, PARTITIONS - 1)
    assert sorted(partitions) == list(range(PARTITIONS))
    assert [begun.partition_of(sink, part, 7) for part in range(PARTITIONS)] == partitions


def test_small_batches_of_one_task_go_to_all_partitions(begun: Begun, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = count(0, 3)
    monkeypatch.setattr(topic_source, "random", SimpleNamespace(randrange=lambda _: next(drawn)))
    options = read_write_options(BROKERS, "batch")
    assert_even([begun.partition_of(topic_source.TopicBatchWriter(options), 0) for _ in range(ROUNDS)])
    one = topic_source.TopicBatchWriter(options)
    assert sorted(begun.partition_of(one, part) for part in range(PARTITIONS)) == list(range(PARTITIONS))
