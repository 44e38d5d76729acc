"""The partitions of a copier between their grant and their release.

A partition begins as soon as its own brokers have answered. A partition leaves once its appends in flight are answered
and its position is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from twinlog.copier.offset_committer import OffsetCommitter
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.life import PartitionLife, PartitionPhase
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.partition.routes import Routes
from twinlog.copier.producers import CopierProducer
from twinlog.copier.proofs import CopierProofs
from twinlog.copier.start.first_look import LogsAtRest
from twinlog.copier.start.start_position import StartPosition, StartPositions
from twinlog.errors import ClusterError, DifferenceError, EngineLostError, RefusedError, TwinlogError
from twinlog.kafka.retry import Backoff
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.positions import Position
from twinlog.model.held import reason_of
from twinlog.model.types import TopicPartition
from twinlog.process.log_once import LogOnce

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
        self._storing: set[TopicPartition] = set()
        """Partitions whose start positions are on their way to the target."""
        self._stored = context.loop.signal()

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

    async def wait_stored(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait until no start position of these partitions is on its way to the target."""
        leaving = set(partitions)
        while leaving & self._storing:
            await self._stored.wait(0.1)

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
        for source, opened in resolved.opened.items():
            if (waiting := self.waiting.get(source)) is not None:
                waiting.note_opened(opened)
        for source, error in resolved.errors.items():
            if isinstance(error, ClusterError | EngineLostError) and not isinstance(error, RefusedError):
                self._hold_back(source, error)
            elif (life := self.remove_waiting(source)) is not None:
                self._refused(life, error)
        found = {grant: resolved.positions[grant.source] for grant in grants if grant.source in resolved.positions}
        for grant, position in found.items():
            unaccepted = self._unaccepted_difference(grant, position)
            if unaccepted is None and grant.source in resolved.differences:
                unaccepted = self._new_difference(grant, resolved.differences[grant.source])
            if unaccepted is not None and (life := self.remove_waiting(grant.source)) is not None:
                self._refused(life, unaccepted)
        stored = await self._store({grant: found[grant] for grant in self._still(found)}, resolved)
        begun: dict[PartitionLife, Position] = {}
        for grant in self._still(found):
            life = self.remove_waiting(grant.source)
            assert life is not None
            begun[life] = stored[grant.source]
        self._begun(begun)
        return bool(begun)

    def _unaccepted_difference(self, grant: Grant, position: Position) -> DifferenceError | None:
        """The difference that a stored position tells, if the topic is still proven, and the policy asks for more
        than a report."""
        settings, stored, topic = self._context.settings, grant.position, grant.source.topic
        if stored is None or stored.difference is None or not settings.proves(topic):
            return None
        if settings.held_policy("difference", topic) == "report" or position.remote_topic_id != stored.remote_topic_id:
            return None
        return DifferenceError(
            f"{grant.source}: {grant.remote} differs at offset {stored.difference}, before source offset "
            f"{stored.next_source}: the difference waits to be accepted",
            target_offset=stored.difference,
        )

    def _new_difference(self, grant: Grant, error: DifferenceError) -> DifferenceError | None:
        """Count a difference that was found after the stored position; None if the policy asks for a report alone."""
        known = None if grant.position is None else grant.position.difference
        if known != error.target_offset:
            self._context.tally.add_difference(error.kind)
        if self._context.settings.held_policy("difference", grant.source.topic) != "report":
            return error
        if known != error.target_offset:
            self._context.report_event("difference", error.message)
        if (life := self.waiting.get(grant.source)) is not None:
            life.note_difference(error)
        return None

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
        return found.joined(rest)

    async def _store(self, found: Mapping[Grant, Position], resolved: StartPosition) -> dict[TopicPartition, Position]:
        """Store start positions with their writers; returns the positions as they were stored. Raises ClusterError.

        Partitions that were withdrawn meanwhile are left out.
        """
        await self._producer.prepare_producer()
        grants = self._still(found)
        positions = {
            grant.source: replace(
                found[grant], writer=self._producer.writer(grant.remote, found[grant]), difference=None
            )
            for grant in grants
        }
        for grant in grants:
            self._committer.begin_partition(grant, positions[grant.source], resolved.runs.get(grant.source, ()))
        self._storing.update(positions)
        try:
            return await self._producer.store_first(positions)
        finally:
            self._storing.difference_update(positions)
            self._stored.set()

    def _hold_back(self, source: TopicPartition, error: ClusterError | EngineLostError) -> None:
        if source in self.waiting:
            since, _ = self._held.get(source, (self._loop.clock.monotonic(), ""))
            self._held[source] = since, str(error)
        if self._logged.is_due(source, PATIENCE_S):
            text = f"{source} is not copied yet, and tried again: {error}"
            self._context.report_event("waiting", f"{error.message_id}: {text}" if error.message_id else text)


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
        proofs: CopierProofs,
    ) -> None:
        self.undrained: set[TopicPartition] = set()
        """Released partitions whose last appends the target left unanswered in time: they may still arrive."""
        self._partitions = partitions
        self._routes = routes
        self._beginning = beginning
        self._logs_at_rest = logs_at_rest
        self._producer = producer
        self._committer = committer
        self._proofs = proofs

    async def release_partitions(
        self, released: Sequence[TopicPartition], *, patient: bool = False
    ) -> dict[TopicPartition, Position]:
        """Stop copying partitions; returns the stored positions of the partitions that had begun.

        A start position that is on its way to the target is awaited: it would replace the positions of the next copier.
        With `patient` the release waits for a long transaction, while the copier continues with its other partitions;
        the partitions have failed, and are held afterwards.
        """
        withdrawn = [life for part in released if (life := self._beginning.remove_waiting(part)) is not None]
        leaving = [self._partitions[part] for part in released if part in self._partitions]
        # Waiting or held partitions skip the wait for the stores of other partitions.
        stored = await self._drain(leaving, patient=patient) if leaving else {}
        await self._beginning.wait_stored(life.source for life in withdrawn)
        for life in withdrawn:
            life.enter_phase(PartitionPhase.RELEASED)
            self.note_unbegun(life.grant)
        return stored

    async def _drain(self, leaving: Sequence[PartitionCopy], *, patient: bool) -> dict[TopicPartition, Position]:
        for part in leaving:
            part.stop_reading()
        drained = await self._producer.drain_partitions(leaving, patient=patient)
        await self._committer.flush_syncs(leaving)
        await self._proofs.wait_proven(leaving)
        await self._store_differences(leaving)
        self._logs_at_rest.forget_logs(part.remote for part in leaving)
        for part in leaving:
            self._end(part, drained=part.source in drained)
            if not patient:
                part.life.enter_phase(PartitionPhase.RELEASED)
        return {part.source: part.durable for part in leaving}

    async def _store_differences(self, leaving: Sequence[PartitionCopy]) -> None:
        """Store the positions of partitions whose last appends differ on the target, for the next copier."""
        for part in leaving:
            if part.acknowledged.difference is not None and not part.transactional:
                # Otherwise the next copier would continue after these records; the difference was reported.
                with suppress(ClusterError):
                    await self._committer.store_position(part)

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
        self._proofs.close_partition(part)
        self._partitions.pop(part.source, None)
        self._routes.remove_owned(part.remote, part.queue)
        self._producer.forget_partition(part)
