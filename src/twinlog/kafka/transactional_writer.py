"""Appends records of our own to one partition, each time in a transaction of one writer: a second one fences the first.

Who begins last is the writer (KIP-98). What an earlier one sends afterwards is refused by the brokers, however late it
arrives, and nobody who reads committed records sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from twinlog.clock import wall_ms
from twinlog.errors import ClusterError, FencedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.transactions import NOBODY, ProducerEpoch, TransactionCoordinator
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.types import TopicName, TopicPartition
from twinlog.record.builder import encode_batch
from twinlog.record.compression import GZIP
from twinlog.record.own_records import record_body
from twinlog.record.stamp import stamp

T = TypeVar("T")

TIMEOUT_MS = 10_000
"""A transaction of a writer that died is aborted after this, or as soon as another one begins."""

TRY_FOR_S = 60.0
PAUSE_S = 0.3


class TransactionalWriter:
    """The writer under one transactional id; `begin` comes first. One append at a time.

    Every call tries again for a minute, and then raises ClusterError; RefusedError without WRITE on the topic or on
    the transactional id, and FencedError once another writer has begun.
    """

    def __init__(self, client: ClusterClient, topic: TopicName, transactional_id: str) -> None:
        self._client = client
        self._where = TopicPartition(topic, 0)
        self._coordinator = TransactionCoordinator(client, transactional_id, TIMEOUT_MS)
        self._holder = NOBODY
        self._sequence = 0

    async def begin(self) -> None:
        """Be the writer from now on."""
        self._holder = await self._retry(self._init, NOBODY)
        self._sequence = 0

    async def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Append records of (key, value), all or none; returns once the transaction is committed."""
        await self._retry(self._append, records)

    async def _init(self, expected: ProducerEpoch) -> ProducerEpoch:
        return await self._coordinator.init(expected)

    async def _append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        if self._sequence < 0:
            # What became of the last transaction is unknown: end it, and go on under a higher epoch.
            self._holder = await self._coordinator.init(self._holder)
            self._sequence = 0
        sequence, self._sequence = self._sequence, -1
        await self._client.refresh([self._where.topic])
        leader = self._client.leader(self._where)
        if leader is None:
            raise ClusterError(f"cluster {self._client.alias}: {self._where} has no leader")
        for code in (await self._coordinator.add(self._holder, [self._where])).values():
            self._check(code)
        stamp_ms = wall_ms(self._client.loop.clock)
        batch = encode_batch(((stamp_ms, record_body(key, value)) for key, value in records), GZIP)
        stamp(batch, *self._holder, sequence, transactional=True)
        answers = await self._client.append(
            leader.node,
            {self._where.topic: [(self._where.partition, batch)]},
            self._client.settings.request_timeout_ms / 1000,
            control=True,
            transactional_id=self._coordinator.transactional_id,
        )
        self._check(answers[self._where.topic, self._where.partition].code)
        if not await self._coordinator.end(self._holder, commit=True):
            raise ClusterError(f"cluster {self._client.alias}: the transaction on {self._where} ended by itself")
        self._sequence = sequence + len(records)

    def _check(self, code: int) -> None:
        if code == Code.NONE:
            return
        if code in error_codes.FENCED:
            raise FencedError(f"cluster {self._client.alias}: another process writes {self._where.topic} now")
        if error_codes.refused(code):
            raise self._client.lacks("WRITE", f"topic {self._where.topic}", "writing the journal")
        raise ClusterError(f"cluster {self._client.alias}: {self._where}: {error_codes.explain(code)}")

    async def _retry(self, step: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        clock = self._client.loop.clock
        give_up_at = clock.monotonic() + TRY_FOR_S
        while True:
            try:
                return await step(*args)
            except ClusterError as error:
                if not error.retriable or clock.monotonic() > give_up_at:
                    raise
            await self._client.loop.sleep(PAUSE_S)
