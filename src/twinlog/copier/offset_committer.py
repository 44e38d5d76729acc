"""Stores the offsets of copied records: exact maps, then positions, and offset syncs; each on its own schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from twinlog.clock import LONG_AGO
from twinlog.copier.offset_writers import MapWriter, SyncWriter
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.position_writer import PositionWriter
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicPartition
from twinlog.process.log_once import LogOnce

STEADY = 4
"""A partition that always moves has its position stored at every fourth interval only."""

UNSTORED_BYTES = 32 << 20
"""If a copier has copied this many bytes since its stored positions, it stores all moved positions. This bounds the
bytes to compare after a crash."""


class _StoredPosition(NamedTuple):
    position: Position
    at: float
    copied_bytes: int


class IdleDetector:
    """Tells whether a copier has just become idle.

    It tells so once for each idle time, and at most once in `interval_s` seconds.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._seen = self._reported = 0
        self._reported_at = LONG_AGO

    def became_idle(self, batches: int, now: float) -> bool:
        """Compare the number of batches that the copier has appended so far."""
        idle, self._seen = batches == self._seen, batches
        if not idle or batches == self._reported or now - self._reported_at < self._interval_s:
            return False
        self._reported, self._reported_at = batches, now
        return True


class DuePositions:
    """The last stored positions of a copier, with their times; `interval_s` is the interval of `choose_due`."""

    def __init__(self, interval_s: float) -> None:
        # Half an interval less, because turns may be late or early.
        self._rest_s = (STEADY - 0.5) * interval_s
        self._stored: dict[TopicPartition, _StoredPosition] = {}
        self._seen: dict[TopicPartition, Position] = {}
        """The positions of the partitions that had moved at the last call."""

    def choose_due(self, parts: Iterable[PartitionCopy], now: float) -> list[PartitionCopy]:
        """The partitions whose positions are stored now. Each has moved since its last store.

        A partition is due if it has rested since the last call, or if its stored position is old enough. All moved
        partitions are due if many bytes were copied since their stored positions.
        """
        moved = self.choose_moved(parts)
        before, self._seen = self._seen, {part.source: part.acknowledged for part in moved}
        if sum(map(self._unstored, moved)) >= UNSTORED_BYTES:
            return moved
        return [
            part
            for part in moved
            if now - self._at(part) >= self._rest_s or before.get(part.source) == part.acknowledged
        ]

    def choose_moved(self, parts: Iterable[PartitionCopy]) -> list[PartitionCopy]:
        """The partitions whose position differs from the stored position."""
        return [part for part in parts if self._moved(part)]

    def stored(self, source: TopicPartition, position: Position, copied_bytes: int, now: float) -> None:
        """A position was stored that covers `copied_bytes` of this copier's bytes."""
        self._stored[source] = _StoredPosition(position, now, copied_bytes)

    def forget_partition(self, source: TopicPartition) -> None:
        """Another copier stores the position from now on."""
        self._stored.pop(source, None)

    def _moved(self, part: PartitionCopy) -> bool:
        stored = self._stored.get(part.source)
        return stored is None or stored.position != part.acknowledged

    def _unstored(self, part: PartitionCopy) -> int:
        stored = self._stored.get(part.source)
        return part.copied.bytes - (0 if stored is None else stored.copied_bytes)

    def _at(self, part: PartitionCopy) -> float:
        stored = self._stored.get(part.source)
        return LONG_AGO if stored is None else stored.at


LOG_AFTER_S = 20.0
LOG_AGAIN_S = 600.0
LOOKS = 5
"""How often in an interval the committer looks whether the copier has become idle."""

_FAILING = "positions cannot be stored"


class OffsetCommitter:
    """Stores the progress of this copier's `partitions` on the target, for the next copier.

    A position is stored after its map. A broker's refusal stops the flow. All methods run on the loop's thread.
    """

    def __init__(self, context: CopierContext, partitions: Mapping[TopicPartition, PartitionCopy]) -> None:
        loop, target, settings = context.loop, context.target, context.settings
        self._context = context
        self._loop = loop
        self._settings = settings
        self._partitions = partitions
        self._positions = PositionWriter(loop, target, settings)
        self._maps = MapWriter(loop, target, settings)
        self._due = DuePositions(settings.position_interval_ms / 1000)
        self._turn = loop.lock()
        self._logged = LogOnce(loop.clock)
        self._syncs: SyncWriter | None = None
        if settings.emit_offset_syncs:
            holder = context.source if settings.offset_syncs_location == "source" else target
            self._syncs = SyncWriter(loop, holder, settings, self._gather, context.report_event)

    def start(self, *, positions: bool) -> None:
        """Begin to store in intervals; with `positions` False, transactions store the positions."""
        if positions:
            self._loop.start(self._keep_positions)
        if self._syncs is not None:
            self._loop.start(self._syncs.run)

    def stop(self) -> None:
        """Stop writing offset syncs; the copier has stopped."""
        if self._syncs is not None:
            self._syncs.stop()

    def begin_partition(self, grant: Grant, position: Position, found: Sequence[CopiedRun]) -> None:
        """A partition is about to be copied from a position.

        `found` had arrived between the granted position and this position.
        """
        self._maps.begin_partition(grant, position, found)

    async def store_first(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        """Store the start positions of partitions; returns the positions as they were stored. Raises ClusterError."""
        return await self._store(partial(dict, positions))

    async def store_position(self, part: PartitionCopy) -> None:
        """Store the acknowledged position of a partition. Raises ClusterError."""
        await self._store_acknowledged([part])

    async def close(self, leaving: Sequence[PartitionCopy]) -> None:
        """Store the last positions of partitions, and end their maps; a fault is reported as an event."""
        self._gather()
        for part in leaving:
            self._maps.close(part.source)
        try:
            await self._store_acknowledged(leaving)
        except TwinlogError as error:
            self._context.report_event("positions", f"positions could not be stored at the end: {error}")

    async def close_committed(self, leaving: Sequence[PartitionCopy]) -> None:
        """End the maps of partitions whose last transaction was committed. Raises ClusterError."""
        for part in leaving:
            self._maps.close(part.source)
        await self.store_maps({part.source: part.committed for part in leaving})

    async def flush_syncs(self, leaving: Sequence[PartitionCopy]) -> None:
        """Write the waiting offset syncs."""
        if self._syncs is not None:
            await self._syncs.flush(part.source for part in leaving)

    def forget_partition(self, partition: TopicPartition) -> None:
        """Another copier copies this partition from now on."""
        self._maps.forget_partition(partition)
        self._positions.forget_partition(partition)
        self._due.forget_partition(partition)

    async def store_maps(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        """Store maps up to `positions`.

        Returns the positions with the generations of their maps. Raises ClusterError.
        """
        self._gather()
        return await self._maps.write(positions)

    async def _keep_positions(self) -> None:
        interval_s = self._settings.position_interval_ms / 1000
        idle, chosen_at = IdleDetector(interval_s / 2), self._loop.clock.monotonic()
        while not self._context.stopped:
            await self._loop.sleep(interval_s / LOOKS)
            begun = self._loop.clock.monotonic()
            # A caller that drains a flow waits for its last positions, so they are stored as soon as the copier is
            # idle.
            due = (
                self._due.choose_moved(self._partitions.values())
                if idle.became_idle(self._context.tally.batches, begun)
                else []
            )
            if not due and begun - chosen_at >= (LOOKS - 0.5) / LOOKS * interval_s:
                chosen_at = begun
                # Holes are gathered at each turn, and stored with the position. Gathered less often, they might be too
                # many to keep.
                self._gather()
                due = self._due.choose_due(self._partitions.values(), begun)
            if not due:
                continue
            try:
                await self._store_acknowledged(due)
            except RefusedError as error:
                self._context.report_lost(error)
                return
            except ClusterError as error:
                self._context.tally.add_store(0, good=False)
                if self._logged.is_due(_FAILING, LOG_AFTER_S, LOG_AGAIN_S):
                    self._context.report_event(
                        "positions",
                        f"positions cannot be stored, trying again: {error}; the next copier would copy again what "
                        "came since",
                    )
            else:
                self._context.tally.add_store(self._loop.clock.monotonic() - begun, good=True)
                self._logged.end_condition(_FAILING)

    async def _store_acknowledged(self, parts: Sequence[PartitionCopy]) -> None:
        def held() -> dict[TopicPartition, Position]:
            # The position of a meanwhile released partition is stored by its next copier.
            return {part.source: part.acknowledged for part in parts if self._partitions.get(part.source) is part}

        stored = await self._store(held)
        for part in parts:
            if part.source in stored:
                part.set_generation(stored[part.source].generation)

    async def _store(self, positions: Callable[[], dict[TopicPartition, Position]]) -> dict[TopicPartition, Position]:
        """Store positions after their maps.

        Returns the positions as they were stored. `positions()` is called once the store has its turn.
        """
        async with self._turn:
            sizes = {source: part.copied.bytes for source, part in self._partitions.items()}
            marked = await self.store_maps(positions())
            await self._positions.write(marked)
            now = self._loop.clock.monotonic()
            for source, position in marked.items():
                self._due.stored(source, position, sizes.get(source, 0), now)
            return marked

    def _gather(self) -> None:
        """Hand acknowledged runs to the map writer and the sync writer."""
        for part in self._partitions.values():
            runs = part.take_runs()
            if runs:
                self._maps.add_runs(part.source, runs)
                if self._syncs is not None:
                    self._syncs.add_runs(part.source, runs)
