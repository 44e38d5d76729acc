"""A copier appends as a transactional producer: its transactions include the positions, and fence late appends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf

from twinlog.copier.copier_producer import DRAIN_S
from twinlog.copier.offset_committer import OffsetCommitter
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.transactions.transactions import Transactions
from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.transactions import TransactionCoordinator
from twinlog.kafka.producer.append_queue import ProducerIdentity
from twinlog.lease.grant import Grant
from twinlog.lease.messages import LentId
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings


class TransactionalProducer:
    """Appends in the transactions of a copier."""

    def __init__(self, context: CopierContext, transactions: Transactions, committer: OffsetCommitter) -> None:
        self.start = transactions.start
        self.stop = transactions.stop
        self.resolve_partition = transactions.abort
        self.abort = transactions.abort_without
        self.forget_partition = transactions.forget_partition
        self._transactions = transactions
        self._committer = committer
        self._context = context

    @property
    def topics(self) -> set[TopicName]:
        return self._transactions.topics

    @property
    def trouble(self) -> str | None:
        return self._transactions.trouble

    async def prepare_producer(self) -> None:
        pass

    def writer(self, remote: TopicPartition, position: Position) -> Writer | None:
        return None

    async def store_first(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        return dict(positions)

    def identity(self, remote: TopicPartition, position: Position) -> tuple[ProducerIdentity, int]:
        return self._transactions.identity, self._transactions.sequence(remote)

    def meets_late_appends(self, grant: Grant) -> bool:
        return False

    async def drain_partitions(self, leaving: Sequence[PartitionCopy], *, patient: bool = False) -> set[TopicPartition]:
        """Commit the appends of the partitions; returns the partitions whose committed records the target still has.

        If the commit takes too long, the result is empty, and the transactions end for good.
        """
        if await self._transactions.commit(leaving, inf if patient else DRAIN_S):
            with suppress(ClusterError):
                await self._committer.close_committed(leaving)
            return {part.source for part in leaving if part.misplaced is None}
        # A later commit would lack the positions of the leaving partitions.
        self._transactions.stop()
        self._context.report_event("transaction", "the last transaction was not committed in time; it will be aborted")
        return set()


async def own_id(target: ClusterClient, settings: FlowSettings) -> LentId:
    """The transactional id of task 0, for a copier that runs without a driver."""
    name = settings.transactional_id(0)
    coordinator = TransactionCoordinator(target, name, settings.producer.transaction_timeout_ms)
    return LentId(name, await coordinator.init())
