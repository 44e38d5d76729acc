"""As which kind of Kafka's producers a copier appends: what differs between them is behind one interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from twinlog.copier.partition.partition import PartitionCopy
from twinlog.kafka.producer.append_queue import AppendQueue, ProducerIdentity
from twinlog.lease.grant import Grant
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.types import TopicName, TopicPartition

DRAIN_S = 2.0
"""How long a release waits for appends in flight; a target that answers later than this leaves the position unclean."""


class CopierProducer(Protocol):
    """Appends for all partitions of one copier."""

    @property
    def topics(self) -> set[TopicName]:
        """Topics of our own whose leaders must be known."""

    @property
    def trouble(self) -> str | None:
        """What keeps all partitions from going on."""

    async def start(self) -> None:
        """Become a writer. Raises RefusedError without the rights, ClusterError while the cluster does not answer."""

    def stop(self) -> None:
        """Send nothing more."""

    async def prepare_producer(self) -> None:
        """Make sure that every partition can begin. Raises ClusterError."""

    def writer(self, remote: TopicPartition, position: Position) -> Writer | None:
        """Who is stored as appending to a partition that begins at `position`."""

    async def store_first(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        """Store where partitions begin, if that comes before appends; returns it as stored. Raises ClusterError."""

    def identity(self, remote: TopicPartition, position: Position) -> tuple[ProducerIdentity, int]:
        """Who appends to a partition that begins at `position`, and with which sequence number first."""

    def meets_late_appends(self, grant: Grant) -> bool:
        """Whether appends of the copier before this one may still arrive."""

    def offer_queue(self, queue: AppendQueue) -> None:
        """A queue may have something to send."""

    def notify_progress(self) -> None:
        """Something was acknowledged or passed over."""

    def resolve_partition(self, part: PartitionCopy) -> None:
        """The target lost the state of this producer: find out what arrived, and copy on from there."""

    def abort(self, part: PartitionCopy) -> None:
        """A partition has failed: what it appended to the open transaction, if there is one, must not be committed."""

    async def drain_partitions(self, leaving: Sequence[PartitionCopy], *, patient: bool = False) -> set[TopicPartition]:
        """Wait for what is in flight, and store last positions; returns partitions of which nothing may still
        arrive. With `patient` the open transaction may take as long as it takes."""

    def forget_partition(self, part: PartitionCopy) -> None:
        """The copier has released a partition."""
