"""The exact maps of a flow, put together from their stored segments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from twinlog.offsets.exact import ExactMap
from twinlog.offsets.segments import (
    SEGMENT_POINTS,
    Segment,
    SegmentKey,
    Tip,
    decode_segment_key,
    segment_at,
    segment_key,
)
from twinlog.types import TopicPartition

MAX_POINTS = 65_536
"""Points kept of a partition, at most: 1.5 MB of memory, and records of less than 600 kB together."""

MAX_SEGMENTS = 16
"""With more of them than that it is worth while to see whether copiers only came and went."""

StoredRecord = tuple[bytes, bytes | None]
"""Key and value of a record; None deletes."""


@dataclass(slots=True)
class _Known:
    """A partition's map, which segments are stored, and the newest of them."""

    map: ExactMap
    life: int
    newest: int
    stored: set[int] = field(default_factory=set)

    @property
    def last(self) -> int:
        """The rank of the newest."""
        return _rank(self.life, self.newest)


def _rank(life: int, start: int) -> int:
    """A segment's rank among those of its partition; a number, since there may be a million."""
    return life << 64 | start


def _segment_key(partition: TopicPartition, rank: int) -> SegmentKey:
    return SegmentKey(partition, rank & (1 << 64) - 1, rank >> 64)


class ExactMaps:
    """Maps by source partition; used on the driver, not thread-safe.

    The first call of `take` must hold the whole topic. To know where a map ends, read the stored positions before the
    segments and give them to `reach` afterwards: a position that is newer than the map would end it too far.
    """

    def __init__(self) -> None:
        self._known: dict[TopicPartition, _Known] = {}

    def take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> set[TopicPartition]:
        """Take records (key, value) of the topic in their order; returns the partitions they speak of."""
        news: dict[TopicPartition, dict[int, bytes | None]] = {}
        for key, value in records:
            where = decode_segment_key(key)
            if where is not None:
                news.setdefault(where.partition, {})[_rank(where.life, where.start)] = value
        partitions = set(news)
        while news:
            partition, values = news.popitem()
            if partition in self._known:
                self._known[partition].stored -= {rank for rank, value in values.items() if value is None}
            for rank, value in sorted(values.items()):
                if value is not None:
                    segment = segment_at(_segment_key(partition, rank), value)
                    if segment is not None:
                        self._add(segment)
        return partitions

    def _add(self, segment: Segment) -> None:
        rank = _rank(segment.life, segment.start)
        known = self._known.get(segment.partition)
        if known is None:
            new = ExactMap.of(segment.points, complete=segment.complete)
            self._known[segment.partition] = _Known(new, segment.life, segment.start, {rank})
            return
        known.stored.add(rank)
        # Older ones are rewritten only to make them coarser, and what is known here is finer.
        if rank >= known.last:
            first, *rest = segment.points
            known.map.replace_from(first, rest, new_life=segment.life != known.life, complete=segment.complete)
            known.life, known.newest = segment.life, segment.start

    def reach(self, partition: TopicPartition, next_source: int, next_target: int, *, life: int) -> None:
        """The partition's map ends here, says a position that was read before its segments.

        A position of another life ends another map: one side went back, and it was not stored again since.
        """
        known = self._known.get(partition)
        if known is not None and known.life == life:
            known.map.reach(next_source, next_target)

    def map(self, partition: TopicPartition) -> ExactMap | None:
        """What is known of a partition; None when nothing of it was ever copied by twinlog."""
        known = self._known.get(partition)
        return None if known is None else known.map

    def tip(self, partition: TopicPartition) -> Tip | None:
        """The newest point of a partition, None when there is none."""
        known = self._known.get(partition)
        if known is None:
            return None
        last = known.map.points(-1)[0]
        return Tip(known.life, last.source, last.target)

    def __len__(self) -> int:
        """Of how many partitions something is known."""
        return len(self._known)

    def untidy(self, max_points: int = MAX_POINTS) -> list[TopicPartition]:
        """Partitions for which `tidy` may have something to do."""
        return [
            partition
            for partition, known in self._known.items()
            if len(known.stored) > MAX_SEGMENTS or len(known.map) > max_points
        ]

    def tidy(
        self,
        partition: TopicPartition,
        *,
        source_start: int = 0,
        max_points: int = MAX_POINTS,
        segment_points: int = SEGMENT_POINTS,
    ) -> list[StoredRecord]:
        """Forget what lies before the source's first offset and make what is old coarser.

        Returns the records that do the same in the topic, empty when there is nothing to do; they must be written as
        one batch, because half of them would make a wrong map, and be read back. The newest segment is left to the task
        that writes it.
        """
        known = self._known.get(partition)
        if known is None:
            return []
        changed = known.map.trim(min(source_start, known.newest))
        if changed or len(known.map) > max_points or len(known.stored) > MAX_SEGMENTS:
            changed |= known.map.straighten(known.newest)
            changed |= known.map.shrink(max_points)
        if not changed:
            return []
        old = [point for point in known.map.points() if point.source < known.newest]
        segments = [
            Segment(partition, known.life, known.map.complete and not at, tuple(old[at : at + segment_points]))
            for at in range(0, len(old), segment_points)
        ]
        keep = {_rank(segment.life, segment.start) for segment in segments}
        gone = sorted(rank for rank in known.stored - keep if rank < known.last)
        records: list[StoredRecord] = [(segment.key, segment.value) for segment in segments]
        return records + [(segment_key(*_segment_key(partition, rank)), None) for rank in gone]
