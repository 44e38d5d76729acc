"""A copier appends as an idempotent producer: each partition stores its writer with its position (KIP-98)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinlog.copier.copier_producer import DRAIN_S
from twinlog.copier.offset_committer import OffsetCommitter
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.recovery import Recovery
from twinlog.copier.start.producer_ids import ProducerIds
from twinlog.kafka.producer.append_queue import ProducerIdentity
from twinlog.lease.grant import Grant
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.types import TopicName, TopicPartition


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
