"""Writes the rows of a task to a cluster, collected until they fill a request; connections stay open."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from twinlog.batches.arrow.encode import encode
from twinlog.clock import wall_ms
from twinlog.errors import RecordTooLargeError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.transactions import NOBODY, ProducerEpoch, TransactionCoordinator
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.record.batch import HEADER
from twinlog.kafka.record.compression import CODECS, NONE
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.kafka.retry import TASK_CONNECT_S, RetryPolicy, retry
from twinlog.model.types import TopicPartition
from twinlog.settings.client import ClientSettings, ProducerSettings
from twinlog.spark.dataframes.outgoing import RowPartitioner, copied, joined
from twinlog.spark.dataframes.range_reader import ALIAS
from twinlog.spark.dataframes.record_appender import RecordAppender
from twinlog.spark.dataframes.transactions import BatchTransactions
from twinlog.spark.dataframes.write_task import MicroBatch, WriteTask, WriteTaskResult

MOST_WAITING_BYTES = 16 << 20
"""The bytes of waiting rows above which each partition's rows are sent at once."""

MOST_HELD_BYTES = 64 << 20
"""The bytes of Spark's batches that waiting rows may hold in memory; above it the rows are copied."""


class WaitingRows:
    """The rows of each partition that wait until they reach `batch_bytes`.

    The rows are slices of Spark's batches, and a slice of a single row holds its whole batch. With rare keys, a
    partition that gets a row now and then would hold all batches that were written meanwhile.
    """

    def __init__(self, batch_bytes: int) -> None:
        self._batch_bytes = batch_bytes
        self._rows: dict[TopicPartition, list[Any]] = {}
        self._sizes: dict[TopicPartition, int] = {}
        self._held_bytes = 0

    def add_rows(self, partition: TopicPartition, some: Any) -> None:
        """Add rows of a partition after its waiting rows."""
        self._rows.setdefault(partition, []).append(some)
        self._sizes[partition] = self._sizes.get(partition, 0) + some.nbytes

    def ready(self) -> list[TopicPartition]:
        """The partitions with enough rows for a batch, or all partitions when too many rows wait."""
        crowded = sum(self._sizes.values()) > MOST_WAITING_BYTES
        return [partition for partition, size in self._sizes.items() if crowded or size >= self._batch_bytes]

    def left(self) -> list[TopicPartition]:
        """All partitions with rows."""
        return list(self._sizes)

    def take_rows(self, partition: TopicPartition) -> Any:
        """Take the waiting rows of a partition."""
        del self._sizes[partition]
        return joined(self._rows.pop(partition))

    def note_batch(self, size: int) -> None:
        """Note that a batch of `size` bytes was divided, of which rows may wait."""
        self._held_bytes += size
        if self._held_bytes > MOST_HELD_BYTES:
            self._rows = {partition: [copied(some)] for partition, some in self._rows.items()}
            self._held_bytes = sum(self._sizes.values())


DROP_S = 10.0
"""How long a failed attempt tries to abort its transaction, in seconds."""


MOST_LINKS = 4
"""The most clusters, or logins to clusters, to which a process keeps connections."""


class WriterConnection:
    """Connections to a cluster, on a thread of their own."""

    def __init__(self, settings: ClientSettings) -> None:
        self.loop = Loop()
        self.client = ClusterClient(self.loop, ALIAS, settings)
        self.loop.net.start()

    def open(self, patience_s: float) -> None:
        """Connect, unless it is connected. Raises ClusterError."""
        if not self.client.connected:
            at_once_s = min(TASK_CONNECT_S, patience_s)
            policy = RetryPolicy.of(self.client.settings, patience_s, warns=True)
            self.loop.run(retry, self.loop, policy, lambda: self.client.connect(at_once_s))

    def close(self) -> None:
        if self.loop.ended:
            # The loop has ended, and closing connections want to wake it.
            with contextlib.suppress(Exception):
                self.client.close()
        else:
            self.loop.call_threadsafe(self.client.close)
        self.loop.net.stop()
        self.loop.close()


_links: dict[ClientSettings, WriterConnection] = {}
"""The links are kept because Spark reuses its Python workers for consecutive tasks."""


def link_to(producer: ProducerSettings) -> WriterConnection:
    """A connected link, the present link or a new link. Raises ClusterError."""
    # kafka-python logs every lost connection as an error; a lasting failure is raised.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    settings = producer.client
    link = _links.pop(settings, None)
    if link is not None and link.loop.ended:
        link.close()
        link = None
    link = _links[settings] = link or WriterConnection(settings)
    while len(_links) > MOST_LINKS:
        _links.pop(next(iter(_links))).close()
    link.open(producer.delivery_timeout_ms / 1000)
    return link


def write_rows(task: WriteTask, rows: Iterable[Any], batch: MicroBatch | None, first: int) -> WriteTaskResult:
    """Append all rows, and return once all in-sync replicas have them; with a `batch` in an open transaction.

    `first` is the number of the first partition for keyless rows. Raises ClusterError and CopyError.
    """
    link = link_to(task.producer)
    if batch is None:
        policy = RetryPolicy.of(link.client.settings, task.producer.delivery_timeout_ms / 1000, warns=True)
        producer = link.loop.run(retry, link.loop, policy, link.client.init_producer)
        return WriteTaskResult(
            _write(task, link, _appender(task, link, ProducerEpoch(*producer), None), rows, first)[0]
        )
    transactions = transactions_of(task, link, batch.query)
    part, holder = link.loop.run(transactions.begin_part, batch)
    if holder is None:
        return part
    appender = _appender(task, link, holder, transactions.coordinator(batch.part))
    try:
        records, somewhere = _write(task, link, appender, rows, first)
    except BaseException:
        # Consumers with read_committed would otherwise wait for the open transaction until its timeout.
        with contextlib.suppress(TwinlogError):
            late = link.loop.run(appender.wait_for_answers, DROP_S)
            link.loop.run(transactions.abort_parts, [replace(part, holder=holder)], DROP_S, late)
        raise
    if somewhere is None:
        return part
    return replace(part, records=records, holder=holder, somewhere=somewhere)


def commit_parts(task: WriteTask, number: int, parts: Sequence[WriteTaskResult]) -> None:
    """Have a micro-batch with written parts count. Spark's driver calls this function and `abort_parts`."""
    if any(part.holder != NOBODY or part.committed for part in parts):
        link = link_to(task.producer)
        link.loop.run(transactions_of(task, link, parts[0].query).commit, number, parts)


def abort_parts(task: WriteTask, number: int, parts: Sequence[WriteTaskResult]) -> None:
    """Drop the written rows of a failed micro-batch, unless a decision counts them."""
    if any(part.holder != NOBODY for part in parts):
        link = link_to(task.producer)
        link.loop.run(transactions_of(task, link, parts[0].query).abort, number, parts)


def transactions_of(task: WriteTask, link: WriterConnection, query: str) -> BatchTransactions:
    """The transactions of a query."""
    producer = task.producer
    return BatchTransactions(
        link.client,
        task.name,
        query,
        timeout_ms=producer.transaction_timeout_ms,
        patience_ms=producer.delivery_timeout_ms,
    )


def _appender(
    task: WriteTask, link: WriterConnection, holder: ProducerEpoch, coordinator: TransactionCoordinator | None
) -> RecordAppender:
    identity = ProducerIdentity(*holder, transactional=coordinator is not None)
    return RecordAppender(link.client, task.producer, identity, coordinator)


def _write(
    task: WriteTask, link: WriterConnection, appender: RecordAppender, rows: Iterable[Any], first: int
) -> tuple[int, TopicPartition | None]:
    """Append all rows, and close the appender; returns their number, and a partition that got rows."""
    producer = task.producer
    batch_bytes = max(1, min(producer.merge_batch_bytes, producer.max_request_size))
    partitioner = RowPartitioner(task.topic, appender.partitions, batch_bytes, task.ignore_keys, first)
    waiting = WaitingRows(batch_bytes)
    records, somewhere = 0, None

    def send(partition: TopicPartition) -> None:
        for data in _encoded(partition, waiting.take_rows(partition), producer, batch_bytes):
            appender.append(partition, data, HEADER.unpack_from(data, 0)[-1])

    try:
        for batch in rows:
            for partition, some in partitioner.split(batch, wall_ms(link.loop.clock)):
                waiting.add_rows(partition, some)
                records += some.num_rows
                somewhere = somewhere or partition
            for partition in waiting.ready():
                send(partition)
            waiting.note_batch(batch.nbytes)
        for partition in waiting.left():
            send(partition)
        appender.flush()
    finally:
        appender.close()
    return records, somewhere


def _encoded(partition: TopicPartition, rows: Any, producer: ProducerSettings, most_bytes: int) -> Iterator[bytearray]:
    codec = CODECS[producer.compression_type] if producer.compression_type else NONE
    level, largest = producer.compression_level, producer.max_request_size
    try:
        yield from encode(rows, most_bytes=most_bytes, codec=codec, level=level, largest=largest)
    except RecordTooLargeError as error:
        raise _too_large(error, partition) from None


def _too_large(error: RecordTooLargeError, where: TopicPartition) -> RecordTooLargeError:
    """The error for a row that is too large for a request of this producer."""
    return RecordTooLargeError(
        f"{where}: a row needs a batch of up to {error.size} bytes, and kafka.max.request.size is {error.limit}; raise "
        "it, and the topic's max.message.bytes if that is smaller, or write a smaller value",
        size=error.size,
        limit=error.limit,
    )
