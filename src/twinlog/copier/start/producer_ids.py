"""The producer id and epoch for each remote partition of a copier that appends as an idempotent producer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.types import TopicPartition

LAST_EPOCH = 32_767
"""Largest producer epoch; a new producer id follows this epoch (Kafka class TransactionManager)."""


def fencing(writer: Writer | None) -> Writer | None:
    """The writer whose first append fences this writer (KIP-360); None when fencing needs a new producer id."""
    if writer is None or writer.epoch >= LAST_EPOCH:
        return None
    return Writer(writer.producer_id, writer.epoch + 1, 0)


class ProducerIds:
    """The producer of a copier: a producer id for all partitions, and an epoch for each partition.

    Sequence numbers begin at 0 under each identity, so a partition gets each identity once. With a repeated identity
    the target would take the first batches for retries, and only acknowledge them. A copier that begins at an old
    position may repeat an epoch of an earlier copier: the offset in the answer tells (class LateAppends), and the next
    epoch follows. `ask()` requests a producer from the target, as (producer id, epoch), and raises ClusterError or
    RefusedError.
    """

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, tuple[int, int]]]) -> None:
        self._ask = ask
        self._producer: ProducerIdentity | None = None
        self._epochs: dict[TopicPartition, int] = {}

    async def renew_producer_id(self) -> None:
        """Use a new producer id for partitions that begin from now on."""
        self._producer = ProducerIdentity(*await self._ask())
        self._epochs.clear()

    async def prepare_producer(self) -> None:
        """Make sure that every partition can begin."""
        if max(self._epochs.values(), default=0) > LAST_EPOCH:
            await self.renew_producer_id()

    def new_identity(self, remote: TopicPartition) -> ProducerIdentity:
        """The identity for a partition that begins here, for the first time or again."""
        assert self._producer is not None
        return ProducerIdentity(self._producer.producer_id, self._epochs.get(remote, self._producer.epoch))

    def writer(self, remote: TopicPartition, position: Position) -> Writer:
        """The writer of a partition that begins at `position`: the position's writer, or else a new writer."""
        if position.writer is not None:
            return position.writer
        identity = self.new_identity(remote)
        return Writer(identity.producer_id, identity.epoch, 0)

    async def continue_identity(self, identity: ProducerIdentity) -> ProducerIdentity:
        """The identity for a partition that continues here after it has used `identity`."""
        if identity.epoch < LAST_EPOCH:
            return ProducerIdentity(identity.producer_id, identity.epoch + 1)
        await self.renew_producer_id()
        assert self._producer is not None
        return self._producer

    def release_identity(self, remote: TopicPartition, identity: ProducerIdentity) -> None:
        """Note that a partition ends here after it has used `identity`."""
        self._epochs[remote] = identity.epoch + 1
