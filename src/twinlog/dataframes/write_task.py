"""What a Spark task writes by, and what it reports. Travels between where Spark plans and tasks, so it is light."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from twinlog.kafka.coordinator.transactions import NOBODY, ProducerEpoch
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import ProducerSettings


@dataclass(frozen=True, slots=True)
class WriteTask:
    """How tasks write: the login, the topic (None: a column names it), and whether in transactions.

    `name` is what transactional ids begin with.
    """

    producer: ProducerSettings
    topic: TopicName | None
    exactly_once: bool
    ignore_keys: bool
    name: str


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One task's part of a micro-batch: the query and the micro-batch by Spark's names, and the task's number."""

    query: str
    number: int
    part: int


def first_partition(query: str, number: int, part: int) -> int:
    """Where a task begins with rows that have no key, to be taken modulo the partitions of a topic.

    Tasks of a micro-batch begin one beside the other, and micro-batches anywhere: small ones would all be in the same
    partitions otherwise, and by their numbers alone those of a query that has rows in every other one.
    """
    return zlib.crc32(f"{query} {number}".encode()) + part


@dataclass(frozen=True, slots=True)
class WriteTaskResult:
    """What became of a task's rows: `records` of them are on the target.

    Within a transaction they are once it is committed, which `holder` can do; `root` is the last producer of the query
    as the task began (`transactions.py:begin`), and `somewhere` a partition that it wrote to. Without rows, or where an
    earlier attempt was `committed`, nobody holds a transaction. `decided`: an earlier run decided that the micro-batch
    counts; where nothing is committed, the target has aborted what that run wrote.
    """

    records: int
    query: str = ""
    part: int = -1
    holder: ProducerEpoch = NOBODY
    root: ProducerEpoch = NOBODY
    somewhere: TopicPartition | None = None
    committed: bool = False
    decided: bool = False
