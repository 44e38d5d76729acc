"""The settings of a Spark task that writes, and its report.

The objects travel between Spark's planning and tasks, so this module is light.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from twinlog.kafka.coordinator.transactions import NOBODY, ProducerEpoch
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ProducerSettings


@dataclass(frozen=True, slots=True)
class WriteTask:
    """The settings of tasks that write: the login, the topic (None: a column names it), and the use of transactions.

    `name` is the prefix of transactional ids.
    """

    producer: ProducerSettings
    topic: TopicName | None
    exactly_once: bool
    ignore_keys: bool
    name: str


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A task's part of a micro-batch: the query and the micro-batch by Spark's names, and the task's number."""

    query: str
    number: int
    part: int


def first_partition(query: str, number: int, part: int) -> int:
    """The first partition of a task's keyless rows, modulo the number of a topic's partitions.

    Tasks of a micro-batch have consecutive first partitions, and each micro-batch begins at a hashed partition.
    Otherwise small micro-batches would all be in the same partitions. The numbers of micro-batches alone would have the
    same effect for a query with rows in every second micro-batch.
    """
    return zlib.crc32(f"{query} {number}".encode()) + part


@dataclass(frozen=True, slots=True)
class WriteTaskResult:
    """The result of a task: `records` rows are on the target.

    Rows in a transaction are on the target after its commit, which `holder` can do. `root` is the last producer of the
    query when the task began (`transactions.py:begin_part`), and `somewhere` is a partition that the task wrote to. In
    an empty task, and after an earlier attempt that was `committed`, the holder is NOBODY. `decided` means that an
    earlier run decided that the micro-batch counts; with `committed` false, the target has aborted the rows of that
    run.
    """

    records: int
    query: str = ""
    part: int = -1
    holder: ProducerEpoch = NOBODY
    root: ProducerEpoch = NOBODY
    somewhere: TopicPartition | None = None
    committed: bool = False
    decided: bool = False
