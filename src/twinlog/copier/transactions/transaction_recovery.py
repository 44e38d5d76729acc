"""What follows when a transaction of a copier cannot be committed: it is aborted, or the copier ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.partition.routes import Routes
from twinlog.copier.transactions.losses import look_at_losses
from twinlog.copier.transactions.transaction_partitions import TransactionPartitions
from twinlog.copier.transactions.transaction_positions import TransactionPositions
from twinlog.copier.transactions.transactional_id import TransactionalId
from twinlog.errors import ClusterError, FencedError, RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Signal
from twinlog.model.types import TopicPartition
from twinlog.settings.flow import FlowSettings

FORGOTTEN = 0.9
"""A fenced transaction that was open for this part of its timeout was ended by the target, as it was open too long."""


class TransactionRecovery:
    """Ends the open transaction of one copier, and finds out what the target lost of committed ones.

    `wake` is set when something was acknowledged, `event(kind, text)` is called for operators, and `ended()` is True
    once the copier ends.
    """

    def __init__(
        self,
        client: ClusterClient,
        settings: FlowSettings,
        partitions: Mapping[TopicPartition, PartitionCopy],
        holder: TransactionalId,
        in_transaction: TransactionPartitions,
        positions: TransactionPositions,
        routes: Routes,
        wake: Signal,
        *,
        event: Callable[[str, str], None],
        ended: Callable[[], bool],
    ) -> None:
        self._client = client
        self._now = client.loop.clock.monotonic
        self._settings = settings
        self._partitions = partitions
        self._holder = holder
        self._in_transaction = in_transaction
        self._positions = positions
        self._routes = routes
        self._wake = wake
        self._event = event
        self._ended = ended
        self._suspects: dict[PartitionCopy, None] = {}
        """Partitions of which the target may have lost committed records."""

    def suspect(self, part: PartitionCopy) -> None:
        """The target may have lost committed records of a partition."""
        self._suspects[part] = None

    def forget(self, part: PartitionCopy) -> None:
        """The copier has released a partition."""
        self._suspects.pop(part, None)

    async def recover(self, error: TwinlogError, opened_at: float) -> TwinlogError | None:
        """Have no transaction open any more, and another producer epoch, after `error` ended the one of `opened_at`
        (monotonic seconds). Returns the error that ends the copier instead, if one does."""
        if isinstance(error, FencedError):
            return await self._fenced(error, opened_at)
        if not isinstance(error, ClusterError) or isinstance(error, RefusedError):
            return error
        await self._abort(error)
        return None

    async def _abort(self, error: TwinlogError) -> None:
        await self._silence()
        await self._look_at_losses()
        if self._in_transaction or self._positions:
            await self._holder.end(commit=False)
        await self._holder.renew()
        self._event("transaction", f"{self._holder.name}: aborted, its records are copied again: {error}")

    async def _fenced(self, error: FencedError, opened_at: float) -> TwinlogError | None:
        """Another producer took the transactional id; or the coordinator ended a transaction that was open too long."""
        await self._silence()
        open_s = self._now() - opened_at
        if not (self._in_transaction or self._positions) or open_s < FORGOTTEN * self._holder.timeout_s:
            text = (
                f"{error}; this copier stops. Flow {self._settings.name} must be copied by one process only, and "
                f"group.id must differ where several installations write to {self._settings.target}"
            )
            self._event("fenced", text)
            return FencedError(text)
        await self._look_at_losses()
        self._event(
            "transaction",
            f"{self._holder.name}: the target ended a transaction that was open for {open_s:.0f} s; "
            f"its records are copied again",
        )
        await self._holder.retry(self._holder.take_up)
        return None

    async def _silence(self) -> None:
        """Wait until nothing is in flight; nothing more is sent."""
        queues = [*(part.queue for part in self._partitions.values()), *self._positions.queues, *self._routes.queues]
        for queue in queues:
            queue.shut()
        while any(queue.in_flight for queue in queues) and not self._ended():
            await self._wake.wait(0.1)

    async def _look_at_losses(self) -> None:
        """Give partitions the offset from which the target lost committed records, before anything new is appended.

        A transaction whose marker was lost is open again there, and ends with the open one.
        """
        self._suspects.update((part, None) for part in self._partitions.values() if part.remote in self._in_transaction)
        suspects = list(self._suspects)
        if suspects:
            producer_id = self._holder.identity.producer_id
            await self._holder.retry(lambda: look_at_losses(self._client, suspects, producer_id))

    def clear(self) -> None:
        """Every partition goes on from its committed position."""
        self._suspects.clear()
