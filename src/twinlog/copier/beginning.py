"""Granted partitions until they are copied: each partition begins as soon as its own brokers have answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from twinlog.copier.copier_producer import CopierProducer
from twinlog.copier.offset_committer import OffsetCommitter
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.life import PartitionLife
from twinlog.copier.start.start_position import StartPosition, StartPositions
from twinlog.errors import ClusterError, EngineLostError, RefusedError, TwinlogError
from twinlog.kafka.retry import Backoff
from twinlog.lease.grant import Grant
from twinlog.log_once import LogOnce
from twinlog.mirror.offsets.positions import Position
from twinlog.model.held import reason_of
from twinlog.model.types import TopicPartition

PATIENCE_S = 5.0
"""The copier reports the reason when a partition has waited for this time."""


class PartitionStarter:
    """The partitions of a copier that wait for a cluster.

    `begun(positions)` is called with the start positions of partitions, to copy on from there. `refused(partition,
    error)` is called for a partition with a final error, which ends its wait.
    """

    def __init__(
        self,
        context: CopierContext,
        start_positions: StartPositions,
        producer: CopierProducer,
        committer: OffsetCommitter,
        *,
        begun: Callable[[Mapping[PartitionLife, Position]], None],
        refused: Callable[[PartitionLife, TwinlogError], None],
    ) -> None:
        self.waiting: dict[TopicPartition, PartitionLife] = {}
        self._context = context
        self._loop = context.loop
        self._start_positions = start_positions
        self._producer = producer
        self._committer = committer
        self._begun = begun
        self._refused = refused
        self._logged = LogOnce(context.loop.clock)
        """Which partitions are held back."""
        self._held: dict[TopicPartition, tuple[float, str]] = {}
        """The time since which each partition is held back (monotonic seconds), and the reason."""

    @property
    def held_back(self) -> dict[TopicPartition, tuple[Grant, str]]:
        """Partitions that were held back for `PATIENCE_S`, each with the reason."""
        late = self._loop.clock.monotonic() - PATIENCE_S
        return {
            source: (self.waiting[source].grant, why)
            for source, (since, why) in self._held.items()
            if since <= late and source in self.waiting
        }

    def add_grants(self, grants: Iterable[Grant]) -> list[Grant]:
        """Note partitions that are about to begin."""
        accepted = list(grants)
        self.waiting.update({grant.source: PartitionLife(grant) for grant in accepted})
        return accepted

    def remove_waiting(self, partition: TopicPartition) -> PartitionLife | None:
        """Remove a waiting partition; returns None for other partitions."""
        self._logged.end_condition(partition)
        self._held.pop(partition, None)
        return self.waiting.pop(partition, None)

    async def begin_partitions(self, accepted: Sequence[Grant]) -> None:
        """Begin with all grants; returns when all waits are over. Each partition waits only for its own brokers."""
        try:
            await self._context.retry(lambda: self._start_positions.refresh(accepted))
        except ClusterError as error:
            self._context.report_lost(error)
            return
        groups = self._start_positions.group_by_leader(accepted)
        await self._loop.gather([self._loop.spawn(self._begin_together, group) for group in groups])

    async def _begin_together(self, accepted: Sequence[Grant]) -> None:
        """Begin with partitions that need the same brokers."""
        backoff = Backoff.of(self._context.settings.producer.client)
        refreshed = True
        while (grants := self._still(accepted)) and not self._context.stopped:
            try:
                begun = await self._begin_some(grants, refreshed=refreshed)
            except RefusedError as error:
                self._context.listener.report_failure(None, error)
                return
            except ClusterError as error:
                begun = False
                for grant in grants:
                    self._hold_back(grant.source, error)
            except TwinlogError as error:
                self._context.listener.report_failure(None, error)
                return
            refreshed = False
            if begun:
                backoff.reset_failures()
            if self._still(accepted):
                await self._loop.sleep(backoff.count_failure())

    def _still(self, accepted: Iterable[Grant]) -> list[Grant]:
        return [
            grant for grant in accepted if (life := self.waiting.get(grant.source)) is not None and life.grant is grant
        ]

    async def _begin_some(self, grants: Sequence[Grant], *, refreshed: bool) -> bool:
        """Begin with the grants that are resolved now; returns whether there were any."""
        resolved = await self._find(grants, refreshed=refreshed)
        for source, error in resolved.errors.items():
            if isinstance(error, ClusterError | EngineLostError) and not isinstance(error, RefusedError):
                self._hold_back(source, error)
            elif (life := self.remove_waiting(source)) is not None:
                self._refused(life, error)
        found = {grant: resolved.positions[grant.source] for grant in grants if grant.source in resolved.positions}
        stored = await self._store({grant: found[grant] for grant in self._still(found)}, resolved)
        begun: dict[PartitionLife, Position] = {}
        for grant in self._still(found):
            life = self.remove_waiting(grant.source)
            assert life is not None
            begun[life] = stored[grant.source]
        self._begun(begun)
        return bool(begun)

    async def _find(self, grants: Sequence[Grant], *, refreshed: bool) -> StartPosition:
        """Find the start positions. A missing permission for a topic holds only the topic's partitions back."""
        try:
            return await self._start_positions.find_positions(grants, refreshed=refreshed)
        except RefusedError as error:
            if reason_of(error) is None:
                raise
            if len(grants) == 1:
                return StartPosition({}, {grants[0].source: error})
        middle = len(grants) // 2
        found = await self._find(grants[:middle], refreshed=refreshed)
        rest = await self._find(grants[middle:], refreshed=refreshed)
        return StartPosition(found.positions | rest.positions, found.errors | rest.errors, found.runs | rest.runs)

    async def _store(self, found: Mapping[Grant, Position], resolved: StartPosition) -> dict[TopicPartition, Position]:
        """Store start positions with their writers; returns the positions as they were stored. Raises ClusterError."""
        await self._producer.prepare_producer()
        positions = {
            grant.source: replace(position, writer=self._producer.writer(grant.remote, position))
            for grant, position in found.items()
        }
        for grant in found:
            self._committer.begin_partition(grant, positions[grant.source], resolved.runs.get(grant.source, ()))
        return await self._producer.store_first(positions)

    def _hold_back(self, source: TopicPartition, error: ClusterError | EngineLostError) -> None:
        if source in self.waiting:
            since, _ = self._held.get(source, (self._loop.clock.monotonic(), ""))
            self._held[source] = since, str(error)
        if self._logged.is_due(source, PATIENCE_S):
            self._context.report_event("waiting", f"{source} is not copied yet, and tried again: {error}")
