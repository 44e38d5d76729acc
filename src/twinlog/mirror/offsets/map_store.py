"""Reads the topic of exact maps on the driver: the target offsets of each source partition."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import partial

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.record.last_records import KeptRecord, LastRecords, taken
from twinlog.mirror.offsets.exact_map import ExactMap
from twinlog.mirror.offsets.maps import FIRST_COPY, MAX_POINTS, ExactMaps
from twinlog.mirror.offsets.position_store import ChangedPositions
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import LastPoint, segments_topic
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

ALL_POINTS = 2_000_000
"""The most points of all partitions together: about 50 MB."""

LEAST_POINTS = 1024
TIMEOUT_S = 15.0

MISSING_S = 2.0
"""The longest rest before a missing topic is looked for again: answers are two seconds old at most."""

PURPOSE = "joining maps of old offsets"


class MapStore:
    """Maps of a flow; the first `read` reads the whole topic, each later `read` the new records.

    Threads may share the store.

    A map ends at its stored position. `target` is connected to the flow's target.
    """

    def __init__(self, settings: FlowSettings, target: ClusterAdmin, positions: ChangedPositions) -> None:
        topic = segments_topic(settings.source)
        self.maps = ExactMaps()
        self.lock = threading.Lock()
        """Held while a thread uses `maps`."""
        self._target = target
        self._positions = positions
        self._writer = TopicWriter(target.client, topic, TIMEOUT_S, PURPOSE)
        self._reader = TopicReader(target, topic, optional=True, missing_s=MISSING_S)
        self._news: LastRecords = {}
        """Segments that were read and wait for the rest of their topic."""
        self._stood: dict[TopicPartition, Position | None] = {}
        """Positions as of the last `read`."""
        self._changed: dict[TopicPartition, Position | None] = {}
        self._reading = threading.Lock()

    def set_cluster(self, target: ClusterAdmin) -> None:
        """Continue over new connections to the target; all reads must have ended."""
        self._target = target
        self._writer = TopicWriter(target.client, self._writer.topic, TIMEOUT_S, PURPOSE)
        self._reader.set_cluster(target)

    def read(self) -> None:
        """Read the records that were stored since the last call; before the first call the store is empty.

        Raises ClusterError when the target is silent, and RefusedError if the login lacks READ on the topics of
        positions and maps.
        """
        with self._reading:
            # Positions come first: a position that is newer than the map would end the map too far ahead.
            self._changed |= self._positions.read_changed()
            self._reader.read_last(self._news)
            with self.lock:
                partitions = self.maps.apply_records(taken(self._news, KeptRecord.value)) | self._changed.keys()
                self._stood |= self._changed
                self._changed.clear()
                for partition in partitions:
                    self.maps.set_position(partition, self._stood.get(partition))

    def overtaken(self, partition: TopicPartition, known: ExactMap) -> bool:
        """Whether a position was stored after the end of a map: another program copied more records."""
        position = self._stood.get(partition)
        return position is not None and position.next_source > known.next_source

    def position(self, partition: TopicPartition) -> Position | None:
        """The stored position of a source partition as of the last `read`; None for a missing position."""
        return self._stood.get(partition)

    def positions(self) -> dict[TopicPartition, Position]:
        """The stored positions of all source partitions as of the last `read`."""
        with self.lock:
            return {partition: position for partition, position in self._stood.items() if position is not None}

    def tips(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LastPoint]:
        """The newest stored point of each partition with points, as of the last `read`."""
        with self.lock:
            found = {partition: self.maps.tip(partition) for partition in partitions}
        return {partition: tip for partition, tip in found.items() if tip is not None}

    def fragmented(self) -> list[TopicPartition]:
        """The source partitions for which a call of `join_segments` is useful."""
        with self.lock:
            return self.maps.fragmented(self._max_points())

    def join_segments(self, source_starts: Mapping[TopicPartition, SourceOffset]) -> int:
        """Keep maps and their topic small: join old segments of partitions, given their first source offsets.

        Returns how many partitions changed. Raises ClusterError, and RefusedError if the login lacks WRITE on the
        topic.
        """
        changed = 0
        remotes = {partition: remote for partition in source_starts if (remote := self._remote(partition)) is not None}
        target_starts = self._target.offsets(sorted(set(remotes.values())), latest=False) if remotes else {}
        for partition, start in source_starts.items():
            # The copies of a partition whose remote partition is unknown, or has no leader now, may be there.
            there = target_starts.get(remotes[partition], FIRST_COPY) if partition in remotes else FIRST_COPY
            with self.lock:
                records = self.maps.join_segments(
                    partition, source_start=start, target_start=TargetOffset(there), max_points=self._max_points()
                )
            if records:
                self._target.call(partial(self._writer.append, records, at_once=True))
                changed += 1
        return changed

    def _remote(self, partition: TopicPartition) -> TopicPartition | None:
        position = self._stood.get(partition)
        if position is None or position.remote_topic is None:
            return None
        return TopicPartition(TopicName(position.remote_topic), partition.partition)

    def _max_points(self) -> int:
        return max(LEAST_POINTS, min(MAX_POINTS, ALL_POINTS // max(1, len(self.maps))))
