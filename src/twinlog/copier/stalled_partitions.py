"""Partitions of a copier that are stalled: held, unacknowledged for too long, or in trouble.

The other partitions of the copier are copied meanwhile; `model.held` has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from twinlog.clock import wall_ms
from twinlog.copier.granted_partitions import PartitionReleaser
from twinlog.copier.partition.batch_limit import way_on
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.life import PartitionLife, PartitionPhase
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.partition.routes import Routes
from twinlog.copier.producers import CopierProducer
from twinlog.errors import DifferenceError, TwinlogError
from twinlog.kafka.consumer.partition_reader import SourceReader
from twinlog.kafka.net.contact import throttles
from twinlog.kafka.protocol.offsets import LATEST
from twinlog.lease.messages import Grant
from twinlog.mirror.gaps import UNKNOWN
from twinlog.mirror.offsets.positions import Position
from twinlog.model.amounts import shown_age
from twinlog.model.held import HeldPartition, reason_of
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

SILENT_S = 5.0
"""A source broker that is silent for this time is reported as the trouble of its partitions. The same applies to a
target broker that throttles while appends wait for this time."""


OPEN_S = 900.0
"""A source transaction that is open for this time is reported as the trouble of its partitions. Longer transactions
exceed the default of brokers (`transaction.max.timeout.ms`), and a hanging transaction stays open for ever
(KIP-664)."""


class StallReasons:
    """The reasons why partitions of a copier stall."""

    def __init__(self, context: CopierContext, reader: SourceReader, producer: CopierProducer) -> None:
        self._source = context.source
        self._target = context.target
        self._reader = reader
        self._producer = producer
        self._now = context.loop.clock.monotonic

    def find_reason(self, part: PartitionCopy) -> str | None:
        """The reason why a partition stalls, or None."""
        trouble = part.trouble or self._producer.trouble or self._silent_target(part) or self._silent_source(part)
        return trouble or self._open_transaction(part)

    def source_answered_at(self, part: PartitionCopy) -> float | None:
        """When the end of a source partition was last known (monotonic seconds), None while it is unknown."""
        # A released partition was read up to the moment of its release.
        if part.read.answered_at is None or part.held_back or (part.paused and not part.left):
            return part.read.answered_at
        return max(part.read.answered_at, self._reader.answered_at(part.source) or part.read.answered_at)

    def _silent_target(self, part: PartitionCopy) -> str | None:
        if not part.queue.overdue(self._now(), SILENT_S):
            return None
        leader = self._target.leader(part.remote)
        if leader is None:
            return "target: no leader is known"
        return f"TW-WAIT-07: target: {throttles(leader.node)}" if self._target.throttled_s(leader.node) else None

    def _open_transaction(self, part: PartitionCopy) -> str | None:
        since = part.read.open_since
        held_back = part.held_back and not part.awaits_marker
        if since is None or part.paused or held_back or self._now() - since < OPEN_S:
            return None
        age = shown_age(self._now() - since)
        first = part.read.offset if part.awaits_marker else part.read.end
        kept = f"a transaction that has been open for {age} keeps the records from offset {first} on"
        return f"TW-WAIT-06: source: {kept}; kafka-transactions.sh find-hanging names it"

    def _silent_source(self, part: PartitionCopy) -> str | None:
        if part.paused or part.held_back:
            return None
        answered_at = self.source_answered_at(part)
        if answered_at is not None and self._now() - answered_at < SILENT_S:
            return None
        leader = self._source.leader(part.source)
        if leader is None:
            return "source: no leader is known"
        throttled_by = self._reader.throttled_by(part.source)
        if throttled_by is not None:
            return f"TW-WAIT-07: source: {throttles(throttled_by)}"
        return None if answered_at is None else f"source: no answer from broker {leader.node}"


NO_LIMIT_MS = 2**31 - 1
"""Connect's own `delivery.timeout.ms`: batches are tried for ever."""


class DeliveryTimeout:
    """Fails the partitions and routes of a copier whose appends wait too long."""

    def __init__(
        self, context: CopierContext, partitions: Mapping[TopicPartition, PartitionCopy], routes: Routes
    ) -> None:
        self._context = context
        self._loop = context.loop
        self._timeout_ms = context.settings.producer.delivery_timeout_ms
        self._partitions = partitions
        self._routes = routes

    def start(self) -> None:
        """Begin the checks, if there is a limit."""
        if self._timeout_ms < NO_LIMIT_MS:
            self._loop.start(self._keep)

    async def _keep(self) -> None:
        while not self._context.stopped:
            await self._loop.sleep(min(1.0, self._timeout_ms / 10_000))
            now = self._loop.clock.monotonic()
            for part in list(self._partitions.values()):
                part.check_overdue(now)
            self._routes.check_overdue(now)


@dataclass(frozen=True, slots=True)
class StalledGrant:
    """A granted partition that is not copied now, for the reason `trouble`.

    `end` is the end of its source partition, and `waiting_ms` the timestamp of its first uncopied record (Unix ms),
    each -1 while unknown.
    """

    grant: Grant
    trouble: str
    end: SourceOffset = UNKNOWN
    waiting_ms: int = -1


ENDS_EVERY_S = 10.0
"""How often the source is asked for the ends of held partitions: their lag grows, though reading has stopped."""


@dataclass(slots=True)
class HeldGrant:
    """A held partition: its life, and its grant with the stored position of the partition.

    `end` is the source's end, -1 while it is unknown. `waiting_ms` is the timestamp of the first uncopied record, -1 if
    the record was not read.
    """

    life: PartitionLife
    grant: Grant
    held: HeldPartition
    waiting_ms: int
    end: SourceOffset = UNKNOWN


class CopierHeldPartitions:
    """The held partitions of a copier, by their source partition.

    `fail_partition` takes a partition out of the copier's work, once its appends in flight are answered, and stores its
    position. Then the driver gets a report of it. The driver tries a held partition again: it takes the partition back,
    and grants it again to the copier of its choice.
    """

    def __init__(
        self,
        context: CopierContext,
        partitions: Mapping[TopicPartition, PartitionCopy],
        releasing: PartitionReleaser,
    ) -> None:
        self.held: dict[TopicPartition, HeldGrant] = {}
        self._context = context
        self._partitions = partitions
        self._looks = False
        self._releasing = releasing
        self._leaving: set[TopicPartition] = set()
        """Partitions that still have appends in flight on their way to be held."""
        self._left = context.loop.signal()

    def fail_partition(self, part: PartitionCopy, error: TwinlogError) -> None:
        """Hold a partition that has failed, or stop the flow."""
        if reason_of(error) is not None and (part.left or self._partitions.get(part.source) is not part):
            # The next copier of the partition meets the same error.
            return
        if self._stops_flow(error, part.source):
            self._context.listener.report_failure(part.source, error)
        elif part.source not in self._leaving:
            self._leaving.add(part.source)
            self._context.loop.start(self._set_aside, part, error)

    def fail_unbegun(self, life: PartitionLife, error: TwinlogError) -> None:
        """Hold a partition that failed to begin, or stop the flow."""
        self._releasing.note_unbegun(life.grant)
        life.fail(error)
        if self._stops_flow(error, life.source):
            self._context.listener.report_failure(life.source, error)
        else:
            position = life.grant.position or Position(SourceOffset(-1), None)
            if isinstance(error, DifferenceError):
                # The driver grants the partition again with this position, and the difference counts once.
                position = replace(position, difference=TargetOffset(error.target_offset))
            self._hold(life, error, position, -1)

    def _stops_flow(self, error: TwinlogError, source: TopicPartition) -> bool:
        """Whether an error of a partition stops its whole flow: by its kind, or by the policy for the topic."""
        reason = reason_of(error)
        return reason is None or self._context.settings.held_policy(reason, source.topic) == "stop"

    def take_back(self, sources: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Give held partitions back to the driver; returns the stored positions of the partitions that were held."""
        found = [one for source in sources if (one := self.held.pop(source, None)) is not None]
        for one in found:
            one.life.enter_phase(PartitionPhase.RELEASED)
        return {one.grant.source: one.grant.position for one in found if one.grant.position is not None}

    async def wait_held(self, sources: Iterable[TopicPartition]) -> None:
        """Wait until all of these partitions that are about to be held are held."""
        sources = set(sources)
        while sources & self._leaving:
            await self._left.wait(0.1)

    async def _set_aside(self, part: PartitionCopy, error: TwinlogError) -> None:
        source = part.source
        try:
            stored = await self._releasing.release_partitions([source], patient=True)
        finally:
            self._leaving.discard(source)
            self._left.set()
        if source in stored:
            self._hold(part.life, error, stored[source], part.waiting_ms)

    def _hold(self, life: PartitionLife, error: TwinlogError, position: Position, waiting_ms: int) -> None:
        grant = life.grant
        life.enter_phase(PartitionPhase.HELD)
        held = HeldPartition.by(
            error,
            grant.source,
            wall_ms(self._context.loop.clock),
            source_offset=position.next_source,
            target_offset=TargetOffset(-1) if position.next_target is None else position.next_target,
        )
        way_out = way_on(error, grant.source, grant.remote, self._context.settings)
        held = held if way_out is None else replace(held, way_out=way_out)
        known = None if position.next_source < 0 else position
        self.held[grant.source] = HeldGrant(life, replace(grant, position=known), held, waiting_ms)
        self._context.listener.report_held(held)
        if not self._looks:
            self._looks = True
            self._context.loop.start(self._follow_ends)

    async def _follow_ends(self) -> None:
        while self.held:
            # A partition whose end stays unknown shows that by its `end`.
            with suppress(TwinlogError):
                # A topic with a missing right would delay the answer for all other topics.
                held = [source for source, one in self.held.items() if one.held.reason != "missing right"]
                await self._context.source.refresh_soon({source.topic for source in held})
                ends = await self._context.source.list_offsets(
                    held, LATEST, read_committed=self._context.settings.consumer.isolation_level == "read_committed"
                )
                for source, end in ends.items():
                    if source in self.held:
                        self.held[source].end = SourceOffset(end)
            await self._context.loop.sleep(ENDS_EVERY_S)
        self._looks = False
