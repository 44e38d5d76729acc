"""The format `twinlog-kafka`: topics as DataFrames, with the options and columns of Spark's own Kafka source and sink.

Rows that are written become records, in streams once for each micro-batch. Spark also imports this module in tasks: the
modules for planning are imported only when Spark plans.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from twinlog.spark.short_errors import without_trace

if TYPE_CHECKING:
    from twinlog.spark.dataframes.offset_range import OffsetRange, RowTask
    from twinlog.spark.dataframes.options import TopicOptions, Use
    from twinlog.spark.dataframes.ranges import ColumnFilter, JsonOffsets
    from twinlog.spark.dataframes.stream import TopicStream
    from twinlog.spark.dataframes.write_options import WriteUse
    from twinlog.spark.dataframes.write_task import WriteTask, WriteTaskResult

_QUERY, _MICRO_BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's names of both in the local properties of a task."""

_ANYWHERE = 1 << 32

SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS = "headers array<struct<key:string,value:binary>>"

_PUSHES_FILTERS = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module of Spark's process that hands filters over.

In other processes Spark refuses a reader with filters, unless its setting `spark.sql.python.filterPushdown.enabled` is
on. This setting is hidden from a reader.
"""


@dataclass
class WrittenPart(WriterCommitMessage):  # type: ignore[misc]
    """The report of a task to Spark's driver, which commits."""

    part: WriteTaskResult


@without_trace
class TopicBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a batch query as idempotent producers; a task that Spark runs again writes its rows again."""

    def __init__(self, task: WriteTask) -> None:
        self._task = task
        # A random first partition, so that small DataFrames in sequence are spread over all partitions.
        self._first = random.randrange(_ANYWHERE)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        from twinlog.spark.dataframes.writer import write_rows  # noqa: PLC0415

        context = TaskContext.get()
        first = self._first + (context.partitionId() if context else 0)
        return WrittenPart(write_rows(self._task, iterator, None, first))


@without_trace
class TopicStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes micro-batches, in transactions unless `exactlyOnce` is false."""

    def __init__(self, task: WriteTask) -> None:
        self._task = task

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        from twinlog.spark.dataframes.write_task import MicroBatch, first_partition  # noqa: PLC0415
        from twinlog.spark.dataframes.writer import write_rows  # noqa: PLC0415

        context = TaskContext.get()
        assert context is not None
        query, number = str(context.getLocalProperty(_QUERY)), int(context.getLocalProperty(_MICRO_BATCH) or -1)
        batch = MicroBatch(query, number, context.partitionId())
        first = first_partition(query, number, batch.part)
        return WrittenPart(write_rows(self._task, iterator, batch if self._task.exactly_once else None, first))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        from twinlog.spark.dataframes.writer import commit_parts  # noqa: PLC0415

        commit_parts(self._task, batchId, _parts(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort the written parts; a failed task has aborted its rows, or its next attempt does."""
        from twinlog.spark.dataframes.writer import abort_parts  # noqa: PLC0415

        abort_parts(self._task, batchId, _parts(messages))


def _parts(messages: list[WriterCommitMessage | None]) -> list[WriteTaskResult]:
    return [message.part for message in messages if message is not None]


@without_trace
class TopicSource(DataSource):  # type: ignore[misc]
    """Reads and writes topics; options and their messages are those of Spark's own source and sink."""

    @classmethod
    def name(cls) -> str:
        return "twinlog-kafka"

    def schema(self) -> str:
        return f"{SCHEMA}, {HEADERS}" if self._read("either").headers else SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        self._require_own(schema)
        kind = FilteringReader if _PUSHES_FILTERS in sys.modules else TopicBatchReader
        return kind(self._read("batch"))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        self._require_own(schema)
        return TopicStreamReader(self._read("stream"))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        from twinlog.errors import OptionError  # noqa: PLC0415

        if overwrite:
            raise OptionError("Save mode Overwrite not allowed for Kafka. Allowed save mode is Append.")
        return TopicBatchWriter(self._write(schema, "batch"))

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Make the writer of a stream; the output mode complete also appends all rows each time."""

        return TopicStreamWriter(self._write(schema, "stream"))

    def _write(self, schema: Any, use: WriteUse) -> WriteTask:
        from twinlog.spark.dataframes.write_options import check_columns, read_write_options  # noqa: PLC0415

        task = read_write_options(dict(self.options), use)
        check_columns([(one.name, one.dataType.simpleString()) for one in schema.fields], task.topic)
        return task

    def _read(self, use: Use) -> TopicOptions:
        from twinlog.spark.dataframes.options import read_options  # noqa: PLC0415 - only where Spark plans

        return read_options(dict(self.options), use)

    def _require_own(self, schema: Any) -> None:
        from twinlog.errors import OptionError  # noqa: PLC0415

        own = ",".join(column.replace(" ", ":") for column in self.schema().split(", "))
        if schema.simpleString() != f"struct<{own}>":
            raise OptionError("Kafka source has a fixed schema and cannot be set with a custom one")


@without_trace
class TopicBatchReader(DataSourceReader):  # type: ignore[misc]
    """Plans a batch query, and reads its ranges in tasks, which get only its parts for reading."""

    def __init__(self, options: TopicOptions) -> None:
        self._options: TopicOptions | None = options
        self._task = _task(options)
        self._conditions: list[ColumnFilter] = []

    def partitions(self) -> list[InputPartition]:
        from twinlog.clock import SYSTEM  # noqa: PLC0415
        from twinlog.spark.dataframes.planner import TopicPlanner  # noqa: PLC0415
        from twinlog.spark.dataframes.ranges import narrow, split  # noqa: PLC0415

        options = self._options
        assert options is not None
        planner = TopicPlanner(options, SYSTEM)
        try:
            ranges = narrow(planner.batch_ranges(), self._conditions, planner.at_timestamp)
            ranges = split(ranges, options.min_partitions, options.max_records_per_partition)
        finally:
            planner.close()
        return [InputPartition(one) for one in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read_range(self._task, partition.value)

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": None, "_task": self._task, "_conditions": []}


@without_trace
class FilteringReader(TopicBatchReader):
    """A reader that also takes the filters of a query, and leaves out offsets that the filters exclude."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Note the filters, and return all of them, so that Spark tests each remaining record."""
        from twinlog.spark.dataframes.ranges import ColumnFilter  # noqa: PLC0415

        for one in filters:
            attribute: tuple[str, ...] = getattr(one, "attribute", ())
            value = getattr(one, "value", None)
            if len(attribute) == 1:
                self._conditions.append(ColumnFilter(attribute[0], type(one).__name__, value))
        return filters


@without_trace
class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans micro-batches in Spark's source process, for as long as the query runs; reads their ranges in tasks."""

    def __init__(self, options: TopicOptions) -> None:
        self._options: TopicOptions | None = options
        self._task = _task(options)
        self._opened: TopicStream | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limits of the options; the limit of `Trigger.Once` would ask for everything."""
        options = self._options
        assert options is not None
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stream().prepare_available_now()

    def initialOffset(self) -> JsonOffsets:  # noqa: N802
        return self._stream().initial()

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802
        return self._stream().latest(start, everything=isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> JsonOffsets | None:  # noqa: N802
        return self._stream().reported()

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        return [InputPartition(one) for one in self._stream().ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read_range(self._task, partition.value)

    def commit(self, end: JsonOffsets) -> None:
        """Do nothing: Spark's checkpoint has the offsets, and a consumer group is unnecessary."""

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _stream(self) -> TopicStream:
        from twinlog.clock import SYSTEM  # noqa: PLC0415
        from twinlog.spark.dataframes.planner import TopicPlanner  # noqa: PLC0415
        from twinlog.spark.dataframes.stream import TopicStream  # noqa: PLC0415

        if self._opened is None:
            options = self._options
            assert options is not None
            self._opened = TopicStream(options, TopicPlanner(options, SYSTEM), SYSTEM)
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": None, "_task": self._task, "_opened": None}


def _task(options: TopicOptions) -> RowTask:
    from twinlog.spark.dataframes.offset_range import RowTask  # noqa: PLC0415

    return RowTask(options.consumer, options.headers, options.fail_on_data_loss, max(options.poll_timeout_ms, 1) / 1000)


def _read_range(task: RowTask, wanted: OffsetRange | None) -> Iterator[Any]:
    """The record batches of a range; empty when `wanted` is None, as for an empty plan."""
    from twinlog.spark.dataframes.range_reader import read_rows  # noqa: PLC0415

    return iter(()) if wanted is None else read_rows(task, wanted)
