"""Appends twinlog's records to a topic in transactions: the last process that claimed the topic is its only writer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from twinlog.clock import wall_ms
from twinlog.errors import ClusterError, FencedError, NotAppendedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.transactions import NOBODY, ProducerEpoch, TransactionCoordinator
from twinlog.kafka.producer.topic_writer import OwnRecord, TopicWriter
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.list_offsets import LATEST
from twinlog.kafka.record.builder import encode_batch
from twinlog.kafka.record.compression import NONE
from twinlog.kafka.record.stamp import stamp
from twinlog.model.types import TopicPartition

VISIBLE_S = 10.0
LOOK_S = 0.02


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
        timeout_s: float,
        *,
        transaction_ms: int,
        codec: int = NONE,
    ) -> None:
        """`writer` knows the topic and belongs to this object alone.

        The open transaction of a dead writer is aborted after `transaction_ms`, or with the next claim.
        """
        self._writer = writer
        self._client = client
        self._timeout_s = timeout_s
        self._codec = codec
        self._where = TopicPartition(writer.topic, 0)
        self._coordinator = TransactionCoordinator(client, transactional_id, transaction_ms)
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
        for bodies in (await self._writer.encode(records)).get(self._where, ()):
            if last is None:
                refused = await self._coordinator.add(holder, [self._where])
                if refused:
                    self._refuse(refused[self._where])
            last = await self._send(list(bodies), holder)
        if last is not None and not await self._coordinator.end(holder, commit=True):
            raise ClusterError(
                f"cluster {self._client.alias}: {self._where}: the transaction was ended by its coordinator"
            )
        return last

    async def _send(self, bodies: list[bytes], holder: ProducerEpoch) -> int:
        now = wall_ms(self._client.loop.clock)
        batch = encode_batch(((now, body) for body in bodies), self._codec)
        stamp(batch, *holder, self._sequence, transactional=True)
        self._sequence += len(bodies)
        topic = self._client.topic(self._where.topic)
        if topic is None or self._where.partition not in topic.leaders:
            self._refuse(Code.LEADER_NOT_AVAILABLE)
        try:
            answers = await self._client.append(
                topic.leaders[self._where.partition].node,
                {self._where.topic: [(self._where.partition, batch)]},
                self._timeout_s,
                control=True,
                transactional_id=self._coordinator.transactional_id,
            )
        except ClusterError:
            self._writer.look_again()
            raise
        answer = answers.get((self._where.topic, self._where.partition))
        if answer is None or answer.code != Code.NONE:
            self._refuse(Code.REQUEST_TIMED_OUT if answer is None else answer.code)
        return answer.base_offset + len(bodies) - 1

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

    def _refuse(self, code: int) -> NoReturn:
        """Raise the error of an error code."""
        self._writer.look_again()
        text = f"cluster {self._client.alias}: {self._where}: {error_codes.explain(code)}"
        if code in error_codes.FENCED:
            raise FencedError(f"{text}: another process writes to it now")
        if error_codes.refused(code):
            raise self._writer.lacks_write()
        raise NotAppendedError(text, code)
