"""The positions of a copier within its transactions: they are committed together with their records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from twinlog.copier.transactions.transactional_id import TransactionalId
from twinlog.errors import ClusterError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Signal
from twinlog.kafka.producer.append_queue import AppendQueue, ProducerIdentity
from twinlog.kafka.producer.appender import TargetAppender
from twinlog.kafka.protocol import error_codes
from twinlog.mirror.offsets.position_writer import PositionLog
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

RETRY_S = 0.1
PATIENCE_S = 10.0
"""A transaction is aborted if its appends are still unacknowledged this long after it closed, because it delays
readers."""


class AbortedError(ClusterError):
    """This transaction can no longer be committed."""


class TransactionPositions:
    """The positions topic, and the partitions of it that take part in the open transaction.

    `broken(error)` is called with the error that ends the transaction, `wake` is set when the topic answers.
    """

    def __init__(
        self,
        client: ClusterClient,
        settings: FlowSettings,
        appender: TargetAppender,
        holder: TransactionalId,
        wake: Signal,
        broken: Callable[[TwinlogError], None],
    ) -> None:
        self._client = client
        self._holder = holder
        self._wake = wake
        self._broken = broken
        self._log = PositionLog(client, settings, appender.offer_queue, appender.refresh, self._answered)
        self._inside: set[TopicPartition] = set()

    def __bool__(self) -> bool:
        """Whether any partition takes part."""
        return bool(self._inside)

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions that take part."""
        return self._inside

    @property
    def topic(self) -> TopicName:
        return self._log.topic

    @property
    def queues(self) -> Iterable[AppendQueue]:
        return self._log.queues

    async def store_positions(self, positions: Mapping[TopicPartition, Position], check: Callable[[], None]) -> None:
        """Append positions as a part of the open transaction, and wait until they are acknowledged.

        Raises RefusedError without the right to, ClusterError when the transaction must be aborted; `check()` raises
        the error that prevents the commit.
        """
        loop = self._client.loop
        batches = await self._holder.retry(lambda: self._log.encode(positions))
        fresh = [partition for partition in batches if partition not in self._inside]
        while fresh:
            refused = await self._holder.add(fresh)
            if not refused:
                break
            if any(error_codes.refused(code) for code in refused.values()):
                raise self._client.lacks("WRITE", f"topic {self.topic}", "storing positions")
            await loop.sleep(RETRY_S)
            check()
        self._inside.update(fresh)
        self._log.send(batches)
        deadline = loop.clock.monotonic() + PATIENCE_S
        while not self._log.all_acknowledged:
            if loop.clock.monotonic() > deadline:
                raise AbortedError(f"the target does not acknowledge positions in {self.topic}")
            await self._wake.wait(0.1)
            check()

    def end_transaction(self) -> None:
        """The transaction is over."""
        self._inside.clear()

    def clear(self, identity: ProducerIdentity) -> None:
        """The transaction was aborted: drop its appends, and continue as `identity`."""
        self._inside.clear()
        self._log.clear(identity)

    def _answered(self, error: TwinlogError | None) -> None:
        """The log answered: an error, or None for an acknowledged append."""
        if error is not None:
            self._broken(error)
        self._wake.set()
