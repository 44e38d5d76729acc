"""Partitions of a copier that cannot be copied further, while its other partitions are copied: see `model.held`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from twinlog.clock import wall_ms
from twinlog.copier.listener import Listener
from twinlog.copier.partition.oversized import way_on
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.releasing import Releasing
from twinlog.errors import TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.list_offsets import LATEST
from twinlog.lease.grant import Grant
from twinlog.mirror.gaps import UNKNOWN
from twinlog.mirror.offsets.positions import Position
from twinlog.model.held import Held, reason_of
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition
from twinlog.settings.flow import FlowSettings

ENDS_EVERY_S = 10.0
"""How often the source is asked where held partitions end: their lag grows, though nothing of them is read."""


@dataclass(slots=True)
class HeldGrant:
    """A held partition: what the driver granted, with the position that is stored for the partition. `end` is the
    source's end, -1 while it is unknown."""

    grant: Grant
    held: Held
    end: SourceOffset = UNKNOWN


class HeldPartitions:
    """The held partitions of one copier, by their source partition.

    `hold` takes a partition out of the copier's work, once its appends in flight are answered, and stores its
    position; then the driver hears of it. The driver has it tried again: it takes the partition back, and grants it
    again to the copier of its choice.
    """

    def __init__(
        self,
        loop: Loop,
        settings: FlowSettings,
        source: ClusterClient,
        releasing: Releasing,
        listener: Listener,
    ) -> None:
        self.held: dict[TopicPartition, HeldGrant] = {}
        self._loop = loop
        self._settings = settings
        self._source = source
        self._looks = False
        self._releasing = releasing
        self._listener = listener
        self._leaving: set[TopicPartition] = set()
        """Partitions whose appends in flight are waited for."""
        self._left = loop.signal()

    def stops_flow(self, error: TwinlogError, source: TopicPartition) -> bool:
        """Whether an error of a partition stops its whole flow: by its kind, or by the policy for the topic."""
        reason = reason_of(error)
        return reason is None or self._settings.held_policy(reason, source.topic) == "stop"

    def hold(self, part: PartitionCopy, error: TwinlogError) -> None:
        """Hold a partition that was copied until now, and has failed."""
        if part.source not in self._leaving:
            self._leaving.add(part.source)
            self._loop.start(self._set_aside, part, error)

    def hold_unbegun(self, grant: Grant, error: TwinlogError) -> None:
        """Hold a partition that cannot begin."""
        position = grant.position
        self._note(grant, error, Position(SourceOffset(-1), None) if position is None else position)

    def take_back(self, sources: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """The driver takes back those of these partitions that are held; returns the positions that are stored for
        them."""
        found = [one for source in sources if (one := self.held.pop(source, None)) is not None]
        return {one.grant.source: one.grant.position for one in found if one.grant.position is not None}

    async def settled(self, sources: Iterable[TopicPartition]) -> None:
        """Wait until none of these partitions is on its way to be held."""
        sources = set(sources)
        while sources & self._leaving:
            await self._left.wait(0.1)

    async def _set_aside(self, part: PartitionCopy, error: TwinlogError) -> None:
        source = part.source
        try:
            stored = await self._releasing.release([source], patient=True)
        finally:
            self._leaving.discard(source)
            self._left.set()
        if source in stored:
            self._note(part.grant, error, stored[source])

    def _note(self, grant: Grant, error: TwinlogError, position: Position) -> None:
        held = Held.by(
            error,
            grant.source,
            wall_ms(self._loop.clock),
            source_offset=position.next_source,
            target_offset=TargetOffset(-1) if position.next_target is None else position.next_target,
        )
        way_out = way_on(error, grant.source, grant.remote, self._settings)
        held = held if way_out is None else replace(held, way_out=way_out)
        known = None if position.next_source < 0 else position
        self.held[grant.source] = HeldGrant(replace(grant, position=known), held)
        self._listener.held(held)
        if not self._looks:
            self._looks = True
            self._loop.start(self._follow_ends)

    async def _follow_ends(self) -> None:
        while self.held:
            # A partition whose end is not known shows that itself.
            with suppress(TwinlogError):
                # A topic that may not be described would keep the answer for all others back.
                held = [source for source, one in self.held.items() if one.held.reason != "missing right"]
                await self._source.refresh_soon({source.topic for source in held})
                ends = await self._source.list_offsets(
                    held, LATEST, read_committed=self._settings.consumer.isolation_level == "read_committed"
                )
                for source, end in ends.items():
                    if source in self.held:
                        self.held[source].end = SourceOffset(end)
            await self._loop.sleep(ENDS_EVERY_S)
        self._looks = False
