"""Writes the exact maps and the offset syncs of a copier.

A map is stored before the position at which the map ends. Records are copied on while a cluster refuses syncs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.retry import OFFSET_SYNCS, REFUSED
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.exact_map import CopiedRun, joined
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import COPIER_GENERATIONS, SegmentWriter, first_generation, segments_topic
from twinlog.mirror.offsets.starts import AT_FIRST
from twinlog.mirror.offsets.syncs import SyncEmitter
from twinlog.model.types import TargetOffset, TopicName, TopicPartition
from twinlog.process.log_once import LogOnce
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

        `found` had arrived between the granted position and `position`. A map is superfluous for a partition
        whose copies keep their offsets.
        """
        if position.kept_from is not None:
            return
        # Older records were never copied, or will be copied: their offsets lead to the first copy.
        fresh = grant.position is None and (grant.begin == AT_FIRST or position.next_target == 0)
        least = first_generation(self._clock.wall()) if grant.tip is None else 0
        stored, tip, runs = grant.position, grant.tip, list(found)
        if stored is not None and stored.kept_from is not None:
            # The last copies have the offsets of their sources. A stored map has earlier copies only.
            first, kept = stored.kept_from, stored.next_source - stored.kept_from
            least = least if tip is None else tip.generation + COPIER_GENERATIONS
            runs = [CopiedRun(first, TargetOffset(first), max(kept, 0)), *runs]
            stored, tip, fresh = replace(stored, next_source=first, next_target=TargetOffset(first)), None, True
        # Segments of an earlier attempt have another generation.
        before = self._writers.get(grant.source)
        self._writers[grant.source] = SegmentWriter.take_over(
            grant.source,
            position,
            stored,
            tip,
            found=runs,
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
            if position.kept_from is not None:
                marked[partition] = position
                continue
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
                # The writer takes the records once it knows the topic's leader: without it nothing is encoded.
                await self._topic.append(
                    (segment.key, segment.value) for _, segments in changed.values() for segment in segments
                )
            except ClusterError:
                for writer, _ in changed.values():
                    writer.not_stored()
                raise
            for writer, segments in changed.values():
                writer.mark_stored(segments)
        return marked


INTERVAL_S = 0.5
REST_S = 0.0004
"""The rest after a write, for each sync in it: a sync costs about 8 us, so that syncs take 2 % of the CPU at most."""

LOG_AFTER_S = 10.0
FLUSH_S = 1.0

_FAILING = "syncs cannot be written"


class SyncWriter:
    """Decides which syncs are due and writes them, a single write at a time.

    `client` reaches the cluster that holds the topic. `gather()` makes the copier pass acknowledged runs to `add_runs`.
    `event("syncs", text)` reports an error.
    """

    def __init__(
        self,
        loop: Loop,
        client: ClusterClient,
        settings: FlowSettings,
        gather: Callable[[], None],
        event: Callable[[str, str], None],
    ) -> None:
        self._loop = loop
        self._topic = TopicWriter(
            client,
            TopicName(settings.offset_syncs_topic),
            settings.consumer.client.request_timeout_ms / 1000,
            "writing offset syncs",
        )
        self._emitter = SyncEmitter(settings.offset_lag_max, loop.clock.monotonic)
        self._gather = gather
        self._event = event
        self._held: set[TopicPartition] = set()
        self._stopped = False
        self._busy = False
        self._free = loop.signal()
        self._backoff = OFFSET_SYNCS.backoff()
        self._logged = LogOnce(loop.clock)

    def add_runs(self, partition: TopicPartition, runs: Sequence[CopiedRun]) -> None:
        """Runs of acknowledged records, in their order."""
        self._held.add(partition)
        for spans, base in joined(runs):
            self._emitter.acknowledged(partition, spans, base)

    async def run(self) -> None:
        """Write the due syncs every half second, until `stop`."""
        pause_s = INTERVAL_S
        while not self._stopped:
            await self._loop.sleep(pause_s)
            self._gather()
            pause_s = await self._write()

    def stop(self) -> None:
        self._stopped = True

    async def flush(self, partitions: Iterable[TopicPartition]) -> None:
        """Write the waiting syncs of released partitions; gives up after `FLUSH_S` seconds."""
        for partition in partitions:
            self._emitter.release_partition(partition)
            self._held.discard(partition)
        done = self._loop.signal()
        self._loop.spawn(self._write).add_both(lambda _: done.set())
        await done.wait(FLUSH_S)

    async def _write(self) -> float:
        """Write the due syncs; returns the seconds to rest before the next write."""
        deadline = self._loop.clock.monotonic() + FLUSH_S
        while self._busy:
            await self._free.wait(0.05)
            if self._loop.clock.monotonic() > deadline:
                return INTERVAL_S
        syncs = self._emitter.take_syncs()
        if not syncs:
            return INTERVAL_S
        self._busy = True
        try:
            await self._topic.append([(sync.key, sync.value) for sync in syncs])
        except ClusterError as error:
            # A partition released meanwhile has another writer, and an older sync after a newer sync does harm.
            left = [sync for sync in syncs[self._topic.appended :] if sync.source in self._held]
            if self._topic.in_doubt:
                self._emitter.unanswered(left)
            else:
                self._emitter.not_stored(left)
            return self._failed(error)
        finally:
            self._busy = False
            self._free.set()
        self._logged.end_condition(_FAILING)
        self._backoff.reset_failures()
        return max(INTERVAL_S, REST_S * len(syncs))

    def _failed(self, error: ClusterError) -> float:
        refused = isinstance(error, RefusedError)
        if not self._stopped and self._logged.is_due(_FAILING, 0.0 if refused else LOG_AFTER_S):
            self._event("syncs", f"offset syncs cannot be written, trying again: {error}")
        if refused:
            return REFUSED.first_s
        return self._backoff.count_failure()
