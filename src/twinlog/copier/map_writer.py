"""Stores the exact maps of the partitions that a copier copies, each before the position that it ends at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.lease.grant import Grant
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import SegmentWriter, first_generation, segments_topic
from twinlog.mirror.offsets.starts import AT_FIRST
from twinlog.model.types import TopicPartition
from twinlog.settings.flow import FlowSettings

NO_GENERATION = -1
"""A position of this generation ends no map."""


class MapWriter:
    """The maps of one copier; one write at a time, so that no segment overtakes a newer one."""

    def __init__(self, loop: Loop, target: ClusterClient, settings: FlowSettings) -> None:
        self._clock = loop.clock
        self._writing = loop.lock()
        self._topic = TopicWriter(
            target,
            segments_topic(settings.source),
            settings.producer.client.request_timeout_ms / 1000,
            "storing where records were copied to",
        )
        self._writers: dict[TopicPartition, SegmentWriter] = {}

    def begin_partition(self, grant: Grant, position: Position, found: Sequence[CopiedRun] = ()) -> None:
        """Take a partition over that will be copied on from `position`; `found` had arrived between the granted one
        and that."""
        # Older records were never copied, or will be: an offset of theirs leads to the first copy.
        fresh = grant.position is None and (grant.begin == AT_FIRST or position.next_target == 0)
        least = first_generation(self._clock.wall()) if grant.tip is None else 0
        # Segments that an earlier attempt wrote have another generation.
        before = self._writers.get(grant.source)
        self._writers[grant.source] = SegmentWriter.take_over(
            grant.source,
            position,
            grant.position,
            grant.tip,
            found=found,
            complete=fresh,
            generation=least if before is None else max(least, before.generation + 1),
        )

    def add_runs(self, partition: TopicPartition, runs: Sequence[CopiedRun]) -> None:
        """Runs of records that were acknowledged, in their order."""
        writer = self._writers.get(partition)
        if writer is not None:
            writer.add_runs(runs)

    def close(self, partition: TopicPartition) -> None:
        """Store with the next `write` where the map of a partition ends, for the next copier."""
        writer = self._writers.get(partition)
        if writer is not None:
            writer.close()

    def forget_partition(self, partition: TopicPartition) -> None:
        """Another copier continues this partition's map."""
        self._writers.pop(partition, None)

    async def write(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        """Store the segments by which maps end at these positions, after all runs noted until now.

        Returns the positions as they are to be stored then. Raises ClusterError when maps could not be stored now,
        RefusedError when they never will be.
        """
        async with self._writing:
            return await self._write(positions)

    async def _write(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        marked = {}
        changed = {}
        for partition, position in positions.items():
            writer = self._writers.get(partition)
            if writer is None:
                # Released meanwhile: no map is known to reach so far.
                marked[partition] = replace(position, generation=NO_GENERATION)
                continue
            writer.skip_to(position.next_source)
            marked[partition] = (
                position
                if position.generation == writer.generation
                else replace(position, generation=writer.generation)
            )
            segments = writer.changed()
            if segments:
                changed[partition] = writer, segments
        if changed:
            try:
                await self._topic.append(
                    [(segment.key, segment.value) for _, segments in changed.values() for segment in segments]
                )
            except ClusterError:
                for writer, _ in changed.values():
                    writer.not_stored()
                raise
            for writer, segments in changed.values():
                writer.mark_stored(segments)
        return marked
