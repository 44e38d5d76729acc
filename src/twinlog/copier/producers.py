"""The Kafka producer of a copier: the interface of both producers, and the idempotent producer (KIP-98). An idempotent
producer stores the writer of each partition with its position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from twinlog.copier.offset_committer import OffsetCommitter
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.recovery import Recovery
from twinlog.copier.start.producer_ids import ProducerIds
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.types import TopicName, TopicPartition

DRAIN_S = 2.0
"""How long a release waits for appends in flight; a target that answers later leaves the position unclean."""


class CopierProducer(Protocol):
    """Appends for all partitions of a copier."""

    @property
    def topics(self) -> set[TopicName]:
        """Topics of the producer itself whose leaders must be known."""

    @property
    def trouble(self) -> str | None:
        """The trouble that delays all partitions, or None."""

    async def start(self) -> None:
        """Become a writer. Raises RefusedError without the rights, ClusterError while the cluster is silent."""

    def stop(self) -> None:
        """Stop sending."""

    async def prepare_producer(self) -> None:
        """Make sure that every partition can begin. Raises ClusterError."""

    def writer(self, remote: TopicPartition, position: Position) -> Writer | None:
        """The writer to store for a partition that begins at `position`."""

    async def store_first(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        """Store start positions, if the store precedes the appends.

        Returns the positions as stored. Raises ClusterError.
        """

    def identity(self, remote: TopicPartition, position: Position) -> tuple[ProducerIdentity, int]:
        """The identity that appends to a partition that begins at `position`, and its first sequence number."""

    def meets_late_appends(self, grant: Grant) -> bool:
        """Whether appends of the previous copier may still arrive."""

    def resolve_partition(self, part: PartitionCopy) -> None:
        """The target lost the state of this producer: find the arrived records, and copy on after them."""

    def abort(self, part: PartitionCopy) -> None:
        """A partition has failed: its appends to an open transaction must stay uncommitted."""

    async def drain_partitions(self, leaving: Sequence[PartitionCopy], *, patient: bool = False) -> set[TopicPartition]:
        """Wait for appends in flight, and store last positions.

        Returns the partitions for which no late append may arrive. With `patient` the open transaction may take as long
        as it takes.
        """

    def forget_partition(self, part: PartitionCopy) -> None:
        """The copier has released a partition."""


class IdempotentProducer:
    """Appends with a producer epoch for each partition."""

    def __init__(
        self, context: CopierContext, ids: ProducerIds, committer: OffsetCommitter, recovery: Recovery
    ) -> None:
        self.topics: set[TopicName] = set()
        self.trouble: str | None = None
        self._loop = context.loop
        self._ids = ids
        self._committer = committer
        self._recovery = recovery
        self._moved = context.moved

    async def start(self) -> None:
        await self._ids.renew_producer_id()

    def stop(self) -> None:
        pass

    async def prepare_producer(self) -> None:
        await self._ids.prepare_producer()

    def writer(self, remote: TopicPartition, position: Position) -> Writer | None:
        return self._ids.writer(remote, position)

    async def store_first(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        return await self._committer.store_first(positions)

    def identity(self, remote: TopicPartition, position: Position) -> tuple[ProducerIdentity, int]:
        assert position.writer is not None
        return ProducerIdentity(position.writer.producer_id, position.writer.epoch), position.writer.sequence

    def meets_late_appends(self, grant: Grant) -> bool:
        return not grant.drained

    def resolve_partition(self, part: PartitionCopy) -> None:
        self._loop.start(self._recovery.resolve_again, part)

    def abort(self, part: PartitionCopy) -> None:
        pass

    async def drain_partitions(self, leaving: Sequence[PartitionCopy], *, patient: bool = False) -> set[TopicPartition]:
        deadline = self._loop.clock.monotonic() + DRAIN_S
        while any(not part.arrived for part in leaving) and self._loop.clock.monotonic() < deadline:
            await self._moved.wait(0.02)
        await self._committer.close(leaving)
        return {part.source for part in leaving if part.arrived and not part.queue.late.expected}

    def forget_partition(self, part: PartitionCopy) -> None:
        self._ids.release_identity(part.remote, part.queue.identity)
