"""Appends twinlog's records to a topic in transactions: the last process that claimed the topic is its only writer.

The brokers refuse the later requests of earlier writers, however late these arrive. Readers of committed records never
see records of refused requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.transactions import NOBODY, ProducerEpoch, TransactionCoordinator
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.topic_writer import OwnRecord, TopicWriter
from twinlog.kafka.protocol.offsets import LATEST
from twinlog.kafka.record.compression import GZIP
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.kafka.retry import RetryPolicy, retry
from twinlog.model.types import TopicName, TopicPartition

VISIBLE_S = 10.0
LOOK_S = 0.02

TIMEOUT_MS = 10_000
"""The transaction of a dead writer is aborted after this time in ms, or as soon as another writer begins."""

TRY_FOR_S = 60.0


class ClaimedTopic:
    """A topic with a single partition, written by the holder of a transactional id.

    Connect's workers write the topics of their group in the same way (KIP-618). If a writer pauses while another writer
    claims the topic, the brokers refuse the appends of the paused writer, however late they arrive. At most a single
    call runs at a time.
    """

    def __init__(
        self,
        writer: TopicWriter,
        client: ClusterClient,
        transactional_id: str,
        *,
        transaction_ms: int,
    ) -> None:
        """`writer` knows the topic and belongs to this object alone.

        The open transaction of a dead writer is aborted after `transaction_ms`, or with the next claim.
        """
        self._writer = writer
        self._client = client
        self._where = TopicPartition(writer.topic, 0)
        purpose = f"writing topic {writer.topic}"
        self._coordinator = TransactionCoordinator(client, transactional_id, transaction_ms, purpose)
        self._holder: ProducerEpoch | None = None
        self._last = NOBODY
        self._sequence = 0

    @property
    def claimed(self) -> bool:
        """Whether this process is the writer, by its own knowledge."""
        return self._holder is not None

    async def claim_topic(self) -> None:
        """Become the only writer; the open transaction of the last writer is aborted.

        Raises ClusterError, RefusedError.
        """
        await self._claim(NOBODY)

    async def claim_again(self) -> None:
        """Become the writer again after a failed append (KIP-360).

        Raises FencedError if another process has claimed the topic meanwhile; ClusterError, RefusedError.
        """
        await self._claim(self._last)

    async def _claim(self, expected: ProducerEpoch) -> None:
        self._holder = None
        self._holder = self._last = await self._coordinator.init(expected)
        self._sequence = 0

    async def append(self, records: Iterable[OwnRecord]) -> None:
        """Append records in a transaction; returns once readers of committed records see the records.

        After an error the topic has all of the records or none, and must be claimed again. Raises ClusterError,
        RefusedError; FencedError when another process has claimed the topic: then the topic has none of the records.
        """
        holder, self._holder = self._holder, None
        if holder is None:
            raise ClusterError(
                f"cluster {self._client.alias}: the right to write {self._where.topic} is not claimed yet"
            )
        last = await self._append(list(records), holder)
        if last is not None:
            await self._wait_until_visible(last)
        self._holder = holder

    async def _append(self, records: list[OwnRecord], holder: ProducerEpoch) -> int | None:
        """Append records; returns the offset of the last record."""
        last = None
        for append in (await self._writer.encode(records)).get(self._where, ()):
            if last is None:
                refused = await self._coordinator.add(holder, [self._where])
                if refused:
                    raise self._writer.error_of(self._where.partition, refused[self._where], transactional=True)
            last = await self._send(append, holder)
        if last is not None and not await self._coordinator.end(holder, commit=True):
            raise ClusterError(
                f"cluster {self._client.alias}: {self._where}: the transaction was ended by its coordinator"
            )
        return last

    async def _send(self, append: Append, holder: ProducerEpoch) -> int:
        identity = ProducerIdentity(*holder, transactional=True)
        self._sequence = identity.stamp_batch(append.data, self._sequence, append.count)
        name = self._coordinator.transactional_id
        return await self._writer.append_encoded(self._where, append, name) + append.count - 1

    async def _wait_until_visible(self, last: int) -> None:
        """Wait for the marker of a transaction, which is written after the end is decided."""
        until = self._client.loop.clock.monotonic() + VISIBLE_S
        while (await self._client.list_offsets([self._where], LATEST, read_committed=True)).get(
            self._where, -1
        ) <= last:
            if self._client.loop.clock.monotonic() >= until:
                raise ClusterError(
                    f"cluster {self._client.alias}: {self._where}: a transaction that was committed is not at its end "
                    f"after {VISIBLE_S:.0f} s"
                )
            await self._client.loop.sleep(LOOK_S)


class TransactionalWriter:
    """The writer under a transactional id; `begin` comes first. At most a single append runs at a time.

    Every call tries again for a minute, and then raises ClusterError. Every call raises RefusedError if the principal
    lacks WRITE on the topic or on the transactional id, and FencedError once another writer has begun.
    """

    def __init__(self, client: ClusterClient, topic: TopicName, transactional_id: str) -> None:
        self._client = client
        self._policy = RetryPolicy.of(client.settings, TRY_FOR_S, warns=True)
        timeout_s = client.settings.request_timeout_ms / 1000
        writer = TopicWriter(client, topic, timeout_s, "writing the journal", codec=GZIP)
        self._topic = ClaimedTopic(writer, client, transactional_id, transaction_ms=TIMEOUT_MS)

    async def begin(self) -> None:
        """Become the writer."""
        await retry(self._client.loop, self._policy, self._topic.claim_topic)

    async def append(self, records: Sequence[OwnRecord]) -> None:
        """Append all records or none; returns once the transaction is committed."""
        await retry(self._client.loop, self._policy, partial(self._append, records))

    async def _append(self, records: Sequence[OwnRecord]) -> None:
        if not self._topic.claimed:
            # The outcome of the last transaction is unknown.
            await self._topic.claim_again()
        await self._topic.append(records)
