"""The interface between a copier and its Kafka producer, which is idempotent or transactional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from twinlog.copier.partition.partition import PartitionCopy
from twinlog.kafka.producer.append_queue import ProducerIdentity
from twinlog.lease.grant import Grant
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
