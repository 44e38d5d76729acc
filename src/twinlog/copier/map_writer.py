"""Stores the exact maps of a copier's partitions, each before the position at which the map ends."""

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
    """The maps of a copier; writes run in turn, so that newer segments always come later."""

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
        """Take over a partition that will be copied from `position`.

        `found` had arrived between the granted position and `position`.
        """
        # Older records were never copied, or will be copied: their offsets lead to the first copy.
        fresh = grant.position is None and (grant.begin == AT_FIRST or position.next_target == 0)
        least = first_generation(self._clock.wall()) if grant.tip is None else 0
        # Segments of an earlier attempt have another generation.
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
        """Runs of acknowledged records, in their order."""
        writer = self._writers.get(partition)
        if writer is not None:
            writer.add_runs(runs)

    def close(self, partition: TopicPartition) -> None:
        """Have the next `write` store the end of a partition's map, for the next copier."""
        writer = self._writers.get(partition)
        if writer is not None:
            writer.close()

    def forget_partition(self, partition: TopicPartition) -> None:
        """Another copier continues this partition's map."""
        self._writers.pop(partition, None)

    async def write(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        """Store the segments by which maps end at these positions, after all runs noted until now.

        Returns the positions to store after the segments. Raises ClusterError when the store failed for now,
        RefusedError when the topic refuses them for good.
        """
        async with self._writing:
            return await self._write(positions)

    async def _write(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        marked = {}
        changed = {}
        for partition, position in positions.items():
            writer = self._writers.get(partition)
            if writer is None:
                # The partition was released meanwhile, so the end of its map is unknown.
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
