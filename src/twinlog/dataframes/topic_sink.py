"""The writers of the format `twinlog-kafka`: rows become records, in streams once for each micro-batch.

Spark also imports this module in tasks, which need no options.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from twinlog.spark.short_errors import without_trace

if TYPE_CHECKING:
    from twinlog.dataframes.write_task import WriteTask, WriteTaskResult

_QUERY, _MICRO_BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's names of both in the local properties of a task."""

_ANYWHERE = 1 << 32


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
        from twinlog.dataframes.writer import write_rows  # noqa: PLC0415

        context = TaskContext.get()
        first = self._first + (context.partitionId() if context else 0)
        return WrittenPart(write_rows(self._task, iterator, None, first))


@without_trace
class TopicStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes micro-batches, in transactions unless `exactlyOnce` is false."""

    def __init__(self, task: WriteTask) -> None:
        self._task = task

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        from twinlog.dataframes.write_task import MicroBatch, first_partition  # noqa: PLC0415
        from twinlog.dataframes.writer import write_rows  # noqa: PLC0415

        context = TaskContext.get()
        assert context is not None
        query, number = str(context.getLocalProperty(_QUERY)), int(context.getLocalProperty(_MICRO_BATCH) or -1)
        batch = MicroBatch(query, number, context.partitionId())
        first = first_partition(query, number, batch.part)
        return WrittenPart(write_rows(self._task, iterator, batch if self._task.exactly_once else None, first))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        from twinlog.dataframes.writer import commit_parts  # noqa: PLC0415

        commit_parts(self._task, batchId, _parts(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort the written parts; a failed task has aborted its rows, or its next attempt does."""
        from twinlog.dataframes.writer import abort_parts  # noqa: PLC0415

        abort_parts(self._task, batchId, _parts(messages))


def _parts(messages: list[WriterCommitMessage | None]) -> list[WriteTaskResult]:
    return [message.part for message in messages if message is not None]
