"""The exact maps of a flow, put together from their stored segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from twinlog.mirror.offsets.exact_map import ExactMap
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import (
    SEGMENT_POINTS,
    LastPoint,
    Segment,
    SegmentKey,
    decode_partition,
    decode_place,
    most_points,
    segment_at,
    segment_key,
    split_segment_key,
)
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

MAX_POINTS = 65_536
"""The most points of a partition: 1.5 MB of memory, and records of less than 600 kB together."""

MAX_SEGMENTS = 16
"""With more segments the map is checked for segments of copiers that copied few records."""

OLDEST, FIRST_COPY = SourceOffset(0), TargetOffset(0)

_OFFSET = (1 << 64) - 1
_NOT_JOINED = _OFFSET
"""In a rank, a number after each offset up to which a segment may be joined."""

StoredRecord = tuple[bytes, bytes | None]
"""Key and value of a record; None deletes."""


@dataclass(slots=True)
class _LoadedMap:
    """A partition's map, the ranks of its stored segments, and the rank of the newest segment."""

    map: ExactMap
    last: int
    """The rank of the newest segment."""
    stored: set[int] = field(default_factory=set)
    """The ranks of the stored segments."""

    @property
    def generation(self) -> int:
        return self.last >> 128

    @property
    def newest(self) -> SourceOffset:
        """The first source offset of the newest segment."""
        return SourceOffset(self.last & _OFFSET)

    @property
    def joined(self) -> bool:
        """Whether all segments before the newest segment were joined already."""
        up_to = _rank(SourceOffset(0), self.generation, self.newest) >> 64
        return any(rank >> 64 == up_to for rank in self.stored)


class _End(NamedTuple):
    """The end of a map by its stored position, and the generation of the position."""

    next_source: SourceOffset
    next_target: TargetOffset
    generation: int


@dataclass(slots=True)
class _Unread:
    """Stored segments of a partition, by the second part of their keys; and the end of the map."""

    segments: dict[bytes, bytes] = field(default_factory=dict)
    end: _End | None = None

    def newest(self, partition: TopicPartition) -> Segment | None:
        """The newest segment; None if its version is unknown here."""
        rank, value = max((_rank(*decode_place(place)), value) for place, value in self.segments.items())
        return segment_at(_segment_key(partition, rank), value)

    def most_points(self) -> int:
        """An upper bound of the number of points."""
        return sum(map(most_points, self.segments.values()))


def _rank(start: SourceOffset, generation: int, joined_up_to: SourceOffset | None = None) -> int:
    """A segment's rank in its partition, from older to newer.

    The rank is a number, because a million segments are possible.
    """
    return generation << 128 | (_NOT_JOINED if joined_up_to is None else joined_up_to) << 64 | start


def _segment_key(partition: TopicPartition, rank: int) -> SegmentKey:
    start, up_to = SourceOffset(rank & _OFFSET), SourceOffset(rank >> 64 & _OFFSET)
    return SegmentKey(partition, start, rank >> 128, None if up_to == _NOT_JOINED else up_to)


class ExactMaps:
    """Maps by source partition; used on the driver, by a single thread.

    The first call of `apply_records` must hold the whole topic. Read stored positions before segments, and give them to
    `extend_map` afterwards: a position that is newer than the map would end the map too far ahead.

    A partition's segments are decoded at the first use of its map. Until then the maps keep the stored bytes: a flow
    that starts needs only the newest points, and maps of deleted topics stay unused.
    """

    def __init__(self) -> None:
        self._known: dict[TopicPartition, _LoadedMap] = {}
        self._unread: dict[TopicPartition, _Unread] = {}
        self._same: dict[TopicPartition, ExactMap] = {}
        """The maps of partitions whose copies keep their offsets."""

    def apply_records(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> set[TopicPartition]:
        """Take records (key, value) of the topic in their order; returns their partitions."""
        partitions: set[TopicPartition] = set()
        news: dict[bytes, dict[bytes, bytes | None]] = {}
        for key, value in records:
            parts = split_segment_key(key)
            if parts is not None:
                name, place = parts
                if name in news:
                    news[name][place] = value
                else:
                    news[name] = {place: value}
        while news:
            name, values = news.popitem()
            partition = decode_partition(name)
            partitions.add(partition)
            known = self._known.get(partition)
            if known is not None:
                self._join(known, partition, values)
            else:
                self._keep(partition, values)
        return partitions

    def _keep(self, partition: TopicPartition, values: dict[bytes, bytes | None]) -> None:
        unread = self._unread.setdefault(partition, _Unread())
        for place, value in values.items():
            if value is None:
                unread.segments.pop(place, None)
            else:
                unread.segments[place] = value
        if not unread.segments:
            del self._unread[partition]

    def _decoded(self, partition: TopicPartition) -> _LoadedMap | None:
        """The map of a partition, its segments decoded."""
        unread = self._unread.pop(partition, None)
        if unread is not None:
            self._join(None, partition, unread.segments)
            if unread.end is not None:
                self.extend_map(
                    partition, unread.end.next_source, unread.end.next_target, generation=unread.end.generation
                )
        return self._known.get(partition)

    def _join(self, known: _LoadedMap | None, partition: TopicPartition, values: Mapping[bytes, bytes | None]) -> None:
        ranked = {_rank(*decode_place(place)): value for place, value in values.items()}
        if known is not None:
            known.stored -= {rank for rank, value in ranked.items() if value is None}
        for rank, value in sorted(ranked.items()):
            segment = None if value is None else segment_at(_segment_key(partition, rank), value)
            if segment is not None:
                self._add(segment)

    def _add(self, segment: Segment) -> None:
        rank = _rank(segment.start, segment.generation, segment.joined_up_to)
        known = self._known.get(segment.partition)
        if known is None:
            new = ExactMap.of(segment.points, complete=segment.complete)
            self._known[segment.partition] = _LoadedMap(new, rank, {rank})
            return
        known.stored.add(rank)
        # Older segments are rewritten only to make them coarser, and the map here is finer.
        if rank >= known.last:
            first, *rest = segment.points
            known.map.replace_from(
                first, rest, new_generation=segment.generation != known.generation, complete=segment.complete
            )
            known.last = rank

    def extend_map(
        self, partition: TopicPartition, next_source: SourceOffset, next_target: TargetOffset, *, generation: int
    ) -> None:
        """End the partition's map by a position that was read before its segments.

        A position of another generation ends another map: a side went back, and the position of the new generation is
        missing.
        """
        known = self._known.get(partition)
        unread = self._unread.get(partition)
        if unread is not None:
            unread.end = _End(next_source, next_target, generation)
        elif known is not None and known.generation == generation:
            known.map.move_end(next_source, next_target)

    def set_position(self, partition: TopicPartition, position: Position | None) -> None:
        """Take a stored position that was read before the segments, None for a deleted one: the map ends there.

        If the copies keep the offsets of their sources, each offset translates to itself, and segments of earlier
        copies are left out.
        """
        if position is None or position.kept_from is None:
            self._same.pop(partition, None)
            if position is not None and position.next_target is not None:
                self.extend_map(partition, position.next_source, position.next_target, generation=position.generation)
        elif position.next_source >= position.kept_from:
            same = self._same.setdefault(partition, ExactMap(SourceOffset(0), TargetOffset(0), complete=True))
            same.move_end(position.next_source, TargetOffset(position.next_source))

    def map(self, partition: TopicPartition) -> ExactMap | None:
        """The map of a partition; None before twinlog's first copy of the partition."""
        if partition in self._same:
            return self._same[partition]
        known = self._decoded(partition)
        return None if known is None else known.map

    def tip(self, partition: TopicPartition) -> LastPoint | None:
        """The newest point of a partition; None for an unknown partition."""
        newest = self._unread[partition].newest(partition) if partition in self._unread else None
        if newest is not None:
            return LastPoint(newest.generation, newest.points[-1].source, newest.points[-1].target)
        known = self._decoded(partition)
        if known is None:
            return None
        last = known.map.points(-1)[0]
        return LastPoint(known.generation, last.source, last.target)

    def __len__(self) -> int:
        """The number of partitions with a map."""
        return len(self._known) + len(self._unread) + len(self._same)

    def fragmented(self, max_points: int = MAX_POINTS) -> list[TopicPartition]:
        """The partitions whose segments `join_segments` may change."""
        known = [
            partition
            for partition, known in self._known.items()
            if len(known.stored) > MAX_SEGMENTS or len(known.map) > max_points
        ]
        unread = [
            partition
            for partition, unread in self._unread.items()
            if len(unread.segments) > MAX_SEGMENTS or unread.most_points() > max_points
        ]
        return known + unread

    def join_segments(
        self,
        partition: TopicPartition,
        *,
        source_start: SourceOffset = OLDEST,
        target_start: TargetOffset = FIRST_COPY,
        max_points: int = MAX_POINTS,
        segment_points: int = SEGMENT_POINTS,
    ) -> list[StoredRecord]:
        """Drop points that no group needs, and make old points coarser.

        A point before the source's first offset counts as long as its copies are on the target, whose log begins at
        `target_start`: a group may stand there on either side, and continue in copies of records that the source
        deleted. With more than `max_points`, points before the source's first offset are dropped first.

        Returns the records that do the same in the topic, empty if the map stays the same. Write these records as a
        single batch, because half of the records would make a wrong map, and read the records back. The newest segment
        is left to the task that writes it. Joined segments up to the newest segment stay as they are: their deletion
        could arrive after another join under the same keys.
        """
        known = self._decoded(partition)
        if known is None or known.joined:
            return []
        start = min(source_start, known.newest)
        copied = known.map.to_source(target_start)
        changed = copied is not None and known.map.trim_points(min(start, copied.offset))
        if changed or len(known.map) > max_points or len(known.stored) > MAX_SEGMENTS:
            changed |= known.map.drop_redundant_points(known.newest)
            if len(known.map) > max_points:
                changed |= known.map.trim_points(start)
            changed |= known.map.limit_points(max_points)
        if not changed:
            return []
        old = [point for point in known.map.points() if point.source < known.newest]
        segments = [
            Segment(
                partition,
                known.generation,
                known.map.complete and not at,
                tuple(old[at : at + segment_points]),
                known.newest,
            )
            for at in range(0, len(old), segment_points)
        ]
        gone = sorted(rank for rank in known.stored if rank < known.last)
        records: list[StoredRecord] = [(segment.key, segment.value) for segment in segments]
        return records + [(segment_key(*_segment_key(partition, rank)), None) for rank in gone]
