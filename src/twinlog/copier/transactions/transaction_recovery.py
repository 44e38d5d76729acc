"""Recovers from a failed transaction of a copier: it is aborted and its losses are found, or the copier ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.start.log_reader import find_unverified
from twinlog.copier.transactions.open_transaction import TransactionalId, TransactionPartitions, TransactionPositions
from twinlog.errors import ClusterError, FencedError, RefusedError, TwinlogError
from twinlog.kafka.admin.partition_states import open_transactions
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import LATEST
from twinlog.kafka.retry import TRANSACTION_STEP
from twinlog.model.types import TargetOffset, TopicPartition

MARKER_S = 5.0
"""A commit marker arrives in its partitions within this time."""


async def committed_ends(
    target: ClusterClient, parts: Collection[PartitionCopy], producer_id: int
) -> dict[PartitionCopy, TargetOffset]:
    """The offset up to which each remote partition has the producer's appends of ended transactions.

    Partitions of deleted topics are left out. Raises ClusterError when an offset is unknown.
    """
    known = await target.refresh({part.remote.topic for part in parts})
    there = [part for part in parts if known[part.remote.topic].error != Code.UNKNOWN_TOPIC_OR_PARTITION]
    ends = await target.list_offsets([part.remote for part in there], LATEST)
    if len(ends) < len(there):
        raise ClusterError(f"cluster {target.alias}: the end of a remote partition is unknown")
    opened = await open_transactions(target, ends)
    return {
        part: TargetOffset(
            min(
                [
                    ends[part.remote],
                    *(one.first_offset for one in opened[part.remote] if one.producer_id == producer_id),
                ]
            )
        )
        for part in there
    }


async def look_at_losses(target: ClusterClient, parts: Collection[PartitionCopy], producer_id: int) -> None:
    """Give partitions the offset from which the target lost, or may have lost, committed records. Raises ClusterError.

    Waits for the marker of the last transaction, which may still be on its way.
    """
    deadline = target.loop.clock.monotonic() + MARKER_S
    while True:
        ends = await committed_ends(target, parts, producer_id)
        lost = {part: end for part, end in ends.items() if end < (part.committed.next_target or 0)}
        if all(part.misplaced is not None for part in lost) or target.loop.clock.monotonic() > deadline:
            break
        await target.loop.sleep(TRANSACTION_STEP.first_s)
    whole = {part.remote: part for part in ends if part not in lost}
    unverified, errors = await find_unverified(target, {remote: part.committed for remote, part in whole.items()}, {})
    for remote, why in errors.items():
        raise ClusterError(f"cluster {target.alias}: {remote} does not report where committed records end: {why}")
    # Recovery compares the records with the source, and finds the missing records.
    lost |= {
        part: part.committed.next_target or TargetOffset(0) for remote, part in whole.items() if unverified[remote]
    }
    for part in ends:
        part.truncated(lost.get(part))


FORGOTTEN = 0.9
"""A fenced transaction that was open for this part of its timeout was ended by the target, because it was open too
long."""


class TransactionRecovery:
    """Ends the open transaction of a copier, and finds the committed records that the target lost.

    `queues()` are all queues of the copier. `ended()` is True once the transactions end.
    """

    def __init__(
        self,
        context: CopierContext,
        partitions: Mapping[TopicPartition, PartitionCopy],
        holder: TransactionalId,
        in_transaction: TransactionPartitions,
        positions: TransactionPositions,
        queues: Callable[[], Iterable[AppendQueue]],
        *,
        ended: Callable[[], bool],
    ) -> None:
        self._context = context
        self._client = context.target
        self._now = context.loop.clock.monotonic
        self._settings = context.settings
        self._partitions = partitions
        self._holder = holder
        self._in_transaction = in_transaction
        self._positions = positions
        self._queues = queues
        self._wake = in_transaction.wake
        self._ended = ended
        self._suspects: dict[PartitionCopy, None] = {}
        """Partitions whose committed records the target may have lost."""

    def add_suspect(self, part: PartitionCopy) -> None:
        """The target may have lost committed records of a partition."""
        self._suspects[part] = None

    def forget_partition(self, part: PartitionCopy) -> None:
        """The copier has released a partition."""
        self._suspects.pop(part, None)

    async def recover_transaction(self, error: TwinlogError, opened_at: float) -> TwinlogError | None:
        """Close the transaction of `opened_at` (monotonic seconds) after `error`, and get a new producer epoch.

        Returns None, or the error that ends the copier instead.
        """
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
        await self._holder.renew_epoch()
        self._context.report_event(
            "transaction", f"{self._holder.name}: aborted, its records are copied again: {error}"
        )

    async def _fenced(self, error: FencedError, opened_at: float) -> TwinlogError | None:
        """Another producer took the transactional id; or the coordinator ended a transaction that was open too long."""
        await self._silence()
        open_s = self._now() - opened_at
        if not (self._in_transaction or self._positions) or open_s < FORGOTTEN * self._holder.timeout_s:
            text = (
                f"{error}; this copier stops. Flow {self._settings.name} must be copied by one process only, and "
                f"group.id must differ where several installations write to {self._settings.target}"
            )
            self._context.report_event("fenced", text)
            return FencedError(text)
        await self._look_at_losses()
        self._context.report_event(
            "transaction",
            f"{self._holder.name}: the target ended a transaction that was open for {open_s:.0f} s; "
            f"its records are copied again",
        )
        await self._holder.retry(self._holder.take_up)
        return None

    async def _silence(self) -> None:
        """Stop sending, and wait until all appends in flight are answered."""
        queues = list(self._queues())
        for queue in queues:
            queue.close_gate()
        while any(queue.in_flight for queue in queues) and not self._ended():
            await self._wake.wait(0.1)

    async def _look_at_losses(self) -> None:
        """Give partitions the offset from which the target lost committed records, before the next append.

        A transaction whose marker was lost is open again on the target, and ends with the open transaction.
        """
        self._suspects.update((part, None) for part in self._partitions.values() if part.remote in self._in_transaction)
        suspects = list(self._suspects)
        if suspects:
            producer_id = self._holder.identity.producer_id
            await self._holder.retry(lambda: look_at_losses(self._client, suspects, producer_id))

    def clear(self) -> None:
        """Every partition continues from its committed position."""
        self._suspects.clear()
