"""Where the writers of `twinlog-kafka` begin with rows that have no key."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.dataframes import topic_source, writer
from twinlog.dataframes.write_options import read_write_options
from twinlog.dataframes.write_task import MicroBatch, WriteTask, WriteTaskResult

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
