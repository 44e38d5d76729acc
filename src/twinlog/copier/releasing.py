"""Partitions that a copier gives back: appends in flight are awaited first, then the positions are stored."""

from __future__ import annotations

from collections.abc import Sequence

from twinlog.copier.beginning import PartitionStarter
from twinlog.copier.copier_producer import CopierProducer
from twinlog.copier.offset_committer import OffsetCommitter
from twinlog.copier.partition.life import PartitionPhase
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.partition.routes import Routes
from twinlog.copier.start.logs_at_rest import LogsAtRest
from twinlog.lease.grant import Grant
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicPartition


class PartitionReleaser:
    """Takes partitions out of a copier's `partitions`, or out of its waiting partitions."""

    def __init__(
        self,
        partitions: dict[TopicPartition, PartitionCopy],
        routes: Routes,
        beginning: PartitionStarter,
        logs_at_rest: LogsAtRest,
        producer: CopierProducer,
        committer: OffsetCommitter,
    ) -> None:
        self.undrained: set[TopicPartition] = set()
        """Released partitions whose last appends the target left unanswered in time: they may still arrive."""
        self._partitions = partitions
        self._routes = routes
        self._beginning = beginning
        self._logs_at_rest = logs_at_rest
        self._producer = producer
        self._committer = committer

    async def release_partitions(
        self, released: Sequence[TopicPartition], *, patient: bool = False
    ) -> dict[TopicPartition, Position]:
        """Stop copying partitions; returns the stored positions of the partitions that had begun.

        With `patient` the release waits for a long transaction, while the copier continues with its other partitions;
        the partitions have failed, and are held afterwards.
        """
        for partition in released:
            self._withdraw(partition)
        leaving = [self._partitions[part] for part in released if part in self._partitions]
        if not leaving:
            # Waiting or held partitions have stored positions already, so they skip the wait for the stores of other
            # partitions.
            return {}
        for part in leaving:
            part.stop_reading()
        drained = await self._producer.drain_partitions(leaving, patient=patient)
        await self._committer.flush_syncs(leaving)
        self._logs_at_rest.forget_logs(part.remote for part in leaving)
        for part in leaving:
            self._end(part, drained=part.source in drained)
            if not patient:
                part.life.enter_phase(PartitionPhase.RELEASED)
        return {part.source: part.durable for part in leaving}

    def _withdraw(self, partition: TopicPartition) -> None:
        """Withdraw a waiting partition."""
        withdrawn = self._beginning.remove_waiting(partition)
        if withdrawn is not None:
            withdrawn.enter_phase(PartitionPhase.RELEASED)
            self.note_unbegun(withdrawn.grant)

    def note_unbegun(self, grant: Grant) -> None:
        """A granted partition is withdrawn before it has begun."""
        self._committer.forget_partition(grant.source)
        self._logs_at_rest.forget_logs([grant.remote])
        # Appends of its previous copier may still be under way.
        if self._producer.meets_late_appends(grant):
            self.undrained.add(grant.source)

    def _end(self, part: PartitionCopy, *, drained: bool) -> None:
        self._committer.forget_partition(part.source)
        if drained:
            self.undrained.discard(part.source)
        else:
            self.undrained.add(part.source)
        part.close()
        self._partitions.pop(part.source, None)
        self._routes.remove_owned(part.remote, part.queue)
        self._producer.forget_partition(part)
