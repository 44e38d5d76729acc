"""Segments: the exact map of a partition as records of a compacted topic on the target, a few hundred points a record.

A point is a hole between source and target offsets. So a partition in step is a small record for each copier that took
it. While copies continue in step the topic stays the same: the last point reaches up to the stored position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from twinlog.kafka.record.varint import encode_varint, read_varint
from twinlog.mirror.offsets.exact_map import CopiedRun, ExactMap, Point, join_points, point_of
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.records import INT16, INT32, INT64, FieldError, FieldReader, string
from twinlog.model.types import Alias, SourceOffset, TargetOffset, TopicName, TopicPartition

VERSION = 0
SEGMENT_POINTS = 256
MAX_RUNS = 512
"""The most holes that are noted for a single position; of more holes, groups are joined."""

MOST_UNSTORED = 16
"""The most full segments of a partition that wait for a topic that is not writable. With more of them all are joined
into a single inexact point: an outage of the topic must cost neither memory nor the exactness of later copies."""

COPIER_GENERATIONS = 256
"""The number of generations of a copier. The last record of a copier may be on its way when the next copier begins."""

FIRST_GENERATIONS = 1 << 20
"""The number of first generations.

A copier whose predecessor is unknown draws a generation by the clock: the number grows every tenth of a second, and
starts again after 29 hours.
"""

_NAME_SIZE = INT16.size + INT32.size
"""The size in bytes of the first part of a key, apart from the topic's name."""

_PLACE = Struct(">qi")
_JOINED = Struct(">qiq")
_COMPLETE = 1
_ONE_BYTE = 64
"""Smaller numbers are a single byte as a varint, and most steps are smaller."""


def first_generation(wall_s: float) -> int:
    """The generation of a copier whose predecessor is unknown, by the time of day.

    A copier that was lost before its first stored position may have written a segment that is on its way. The
    generation of this segment differs, and is smaller unless the clocks of two workers differ. A segment of a larger
    generation ends the map at its own begin, which leads groups too far back, never too far ahead.
    """
    return int(wall_s * 10) % FIRST_GENERATIONS * COPIER_GENERATIONS


def segments_topic(source: Alias) -> TopicName:
    """The topic of exact maps of a flow from `source`, on its target; compacted."""
    return TopicName(f"mm2-twinlog-offsets.{source}.internal")


def segment_key(
    source: TopicPartition, start: SourceOffset, generation: int, joined_up_to: SourceOffset | None = None
) -> bytes:
    """The record key: STRING source topic, INT32 partition, INT64 source offset of the first point, INT32 generation.

    The key of a joined segment also has the INT64 source offset up to which it was joined.
    """
    if joined_up_to is None:
        return partition_name(source) + _PLACE.pack(start, generation)
    return partition_name(source) + _JOINED.pack(start, generation, joined_up_to)


def partition_name(source: TopicPartition) -> bytes:
    """The first part of the keys of a partition's segments."""
    return string(source.topic) + INT32.pack(source.partition)


class SegmentKey(NamedTuple):
    """The segment's source partition, and its place in the partition."""

    partition: TopicPartition
    start: SourceOffset
    generation: int
    joined_up_to: SourceOffset | None = None


def split_segment_key(key: bytes | None) -> tuple[bytes, bytes] | None:
    """Split a segment's key into the bytes of the partition and the bytes of the segment; None for any other key.

    A million keys may belong to a few thousand partitions, so a name is decoded once for all segments of its partition.
    """
    if key is None or len(key) < _NAME_SIZE or key[0] >= 0x80:
        return None
    end = _NAME_SIZE + (key[0] << 8 | key[1])
    place = key[end:]
    return (key[:end], place) if len(place) in (_PLACE.size, _JOINED.size) else None


def decode_partition(name: bytes) -> TopicPartition:
    """The source partition that the first part of a segment's key names."""
    fields = FieldReader(name)
    return TopicPartition(TopicName(fields.string()), fields.int32())


def decode_place(place: bytes) -> tuple[SourceOffset, int, SourceOffset | None]:
    """Decode the second part of a segment's key.

    Returns the source offset of its first point, its generation, and the source offset up to which it was joined.
    """
    if len(place) == _JOINED.size:
        start, generation, up_to = _JOINED.unpack(place)
        return start, generation, up_to
    start, generation = _PLACE.unpack(place)
    return start, generation, None


@dataclass(frozen=True, slots=True)
class Segment:
    """A non-empty series of consecutive points of a partition.

    `generation` grows by `COPIER_GENERATIONS` with each copier that takes the partition, and by 1 when a side went
    back, or a segment may be lost on its way. So two copiers always write different keys, and a late segment is
    harmless. A segment replaces the segments of earlier generations from its first source offset and its first target
    offset on. Within a generation, segments follow each other by source offset. With `complete` copying began with this
    segment (see `ExactMap`).

    The driver joins old segments of a partition, up to the newest segment, which begins at source offset
    `joined_up_to`. Joined segments come before all segments of copiers in their generation, and replace the segments
    with a smaller `joined_up_to`. A join that arrives late, or that the next driver missed, is harmless, too: its keys
    are unique, and it deletes only segments that were joined less far.
    """

    partition: TopicPartition
    generation: int
    complete: bool
    points: tuple[Point, ...]
    joined_up_to: SourceOffset | None = None

    @property
    def start(self) -> SourceOffset:
        """The source offset of the first point."""
        return self.points[0].source

    @property
    def key(self) -> bytes:
        return segment_key(self.partition, self.start, self.generation, self.joined_up_to)

    @property
    def value(self) -> bytes:
        """The record's value, in the order of its fields.

        INT16 version, INT16 flags (1 complete), INT64 first target offset, then varints: the first uncertainty, and of
        each further point its source step, target step and uncertainty.
        """
        head = INT16.pack(VERSION) + INT16.pack(_COMPLETE * self.complete) + INT64.pack(self.points[0].target)
        return head + encode_varint(self.points[0].uncertainty) + _encode_steps(self.points)


def _encode_steps(points: Sequence[Point]) -> bytes:
    steps = [
        number
        for before, point in pairwise(points)
        for number in (point.source - before.source, point.target - before.target, point.uncertainty)
    ]
    if not steps or (max(steps) < _ONE_BYTE and min(steps) >= 0):
        return bytes([step << 1 for step in steps])
    return b"".join(map(encode_varint, steps))


def segment_at(where: SegmentKey, value: bytes) -> Segment | None:
    """The segment of a record with the key `where`; None for a malformed value and for an unknown version."""
    source: int = where.start
    fields = FieldReader(value)
    try:
        version, flags, target = fields.int16(), fields.int16(), fields.int64()
        if version != VERSION:
            return None
        rest = fields.rest()
        uncertainty, at = read_varint(rest, 0)
        points = [point_of(source, target, uncertainty)]
        while at < len(rest):
            step, at = read_varint(rest, at)
            source += step
            step, at = read_varint(rest, at)
            target += step
            uncertainty, at = read_varint(rest, at)
            points.append(point_of(source, target, uncertainty))
    except (FieldError, IndexError):
        return None
    return Segment(where.partition, where.generation, bool(flags & _COMPLETE), tuple(points), where.joined_up_to)


def most_points(value: bytes) -> int:
    """An upper bound of the points in a stored segment: a point after the first takes three bytes at least."""
    return 1 + len(value) // 3


class LastPoint(NamedTuple):
    """The newest stored point of a partition, and the generation of its segment."""

    generation: int
    source: SourceOffset
    target: TargetOffset

    def before(self, next_source: SourceOffset, next_target: TargetOffset) -> bool:
        """Whether a next copy at these offsets comes after this point, on both sides."""
        return self.source <= next_source and self.target <= next_target


class SegmentWriter:
    """The newest segments of a partition while a task copies it; `take_over` makes a writer.

    The order matters, because a map must be at least as new as its final position. First note the position, then take
    `changed` and write the segments. After their acknowledgement write the noted position with the `generation`.
    """

    def __init__(
        self,
        partition: TopicPartition,
        next_source: SourceOffset,
        next_target: TargetOffset,
        *,
        generation: int = 0,
        complete: bool = False,
        segment_points: int = SEGMENT_POINTS,
    ) -> None:
        self._partition = partition
        self._segment_points = segment_points
        self._generation = generation
        self._map = ExactMap(next_source, next_target, complete=complete)
        self._written = 0
        """How many points of the newest segment were handed out."""
        self._handed: Segment | None = None
        """The newest segment as it was handed out, until it is known to be stored."""
        self._full: list[Segment] = []
        """Earlier segments that may still be unstored."""

    @classmethod
    def take_over(
        cls,
        partition: TopicPartition,
        position: Position,
        stored: Position | None,
        tip: LastPoint | None,
        *,
        complete: bool,
        found: Sequence[CopiedRun] = (),
        generation: int = 0,
        segment_points: int = SEGMENT_POINTS,
    ) -> SegmentWriter:
        """The writer of a copier that continues from `position`.

        `stored` is the position and `tip` the newest point of the last copier; None if missing. After them records may
        have arrived that the stored map lacks; `found` are the runs that were found after `stored` since. `complete` is
        for the first copies of a partition. `generation` is the least generation of the first segment.
        """
        assert position.next_target is not None
        now = position.next_source, position.next_target
        begin = None
        if (
            stored is not None
            and stored.next_target is not None
            and (tip is None or stored.generation == tip.generation)
        ):
            begin = stored.next_source, stored.next_target
        if tip is not None and (begin is None or not tip.before(*begin)):
            # A crash came after the map was stored and before the position was, or another program stored the position.
            begin = (tip.source, tip.target) if tip.before(*now) else None
        generation = generation if tip is None else max(generation, tip.generation + COPIER_GENERATIONS)
        new = cls(partition, *(begin or now), generation=generation, complete=complete, segment_points=segment_points)
        if found and stored is not None and stored.next_target is not None:
            behind = stored.next_source, stored.next_target
            if begin is not None and not new._map.goes_back(*behind):
                new.add_jump(*behind)
                new.add_runs(found)
        new.add_jump(*now)
        return new

    @property
    def generation(self) -> int:
        """The generation of the newest segment, for the position that is stored after it."""
        return self._generation

    @property
    def end(self) -> tuple[SourceOffset, TargetOffset]:
        """The offsets of the next record on both sides, as far as they are known."""
        return self._map.next_source, self._map.next_target

    def add_runs(self, runs: Sequence[CopiedRun]) -> None:
        """Add copied runs of records, in this order. Of more than `MAX_RUNS` runs at once, some are joined."""
        at = 0
        if len(runs) > MAX_RUNS and all(
            run.source >= before.source and run.target >= before.target for before, run in pairwise(runs)
        ):
            step = -(-len(runs) // (MAX_RUNS // 2))
            for run in runs[step::step]:
                self.add_jump(run.source, run.target)
            at = len(runs) - 1 - (len(runs) - 1) % step
        while at < len(runs):
            if not runs[at].records:
                self.add_jump(runs[at].source, runs[at].target)
                at += 1
                continue
            if self._map.goes_back(runs[at].source, runs[at].target):
                self._begin(runs[at].source, runs[at].target, generation=self._generation + 1)
            # A run makes two points at most.
            at += self._map.add_runs(runs[at : at + max(1, (self._segment_points - len(self._map)) // 2)])
            self._split()

    def skip_to(self, next_source: SourceOffset) -> None:
        """Note that the records from the last append up to `next_source` were read and left out."""
        self._map.skip_to(next_source)

    def add_jump(self, next_source: SourceOffset, next_target: TargetOffset) -> None:
        """Continue at these offsets; the copies in between are unknown."""
        if self._map.goes_back(next_source, next_target):
            self._begin(next_source, next_target, generation=self._generation + 1)
        else:
            self._map.add_jump(next_source, next_target)
        self._split()

    def close(self) -> None:
        """Note the end as a point, so that it stays known even if another program copies this partition next."""
        self._begin(self._map.next_source, self._map.next_target, generation=self._generation)

    def changed(self) -> list[Segment]:
        """Segments to write now, in order; empty while copies continue in step.

        Then call `mark_stored` or `not_stored`.
        """
        if len(self._map) != self._written:
            self._written = len(self._map)
            self._handed = self._segment()
        return self._full + ([] if self._handed is None else [self._handed])

    def mark_stored(self, segments: Sequence[Segment]) -> None:
        """Note that these segments of `changed` are stored."""
        done = set(map(id, segments))
        self._full = [segment for segment in self._full if id(segment) not in done]
        if id(self._handed) in done:
            self._handed = None

    def not_stored(self) -> None:
        """Note that the segments of `changed` may be stored now, later or never.

        All of them come again, in new generations, so that a late arrival leaves newer segments in place. More than
        `MOST_UNSTORED` of them come again as a single point, which is inexact.
        """
        oldest = min([segment.generation for segment in self._full], default=self._generation)
        grown = self._generation - oldest + 1
        self._generation += grown
        self._full = [replace(segment, generation=segment.generation + grown) for segment in self._full]
        self._handed = None
        self._written = 0
        if len(self._full) > MOST_UNSTORED:
            self._full = [_join_segments(self._full)]

    def _segment(self) -> Segment:
        return Segment(self._partition, self._generation, self._map.complete, tuple(self._map.points()))

    def _split(self) -> None:
        if len(self._map) >= self._segment_points:
            self._begin(self._map.next_source, self._map.next_target, generation=self._generation)

    def _begin(self, next_source: SourceOffset, next_target: TargetOffset, *, generation: int) -> None:
        if len(self._map) != self._written:
            self._full.append(self._segment())
        elif self._handed is not None:
            self._full.append(self._handed)
        self._generation = generation
        self._map = ExactMap(next_source, next_target)
        self._written = 0
        self._handed = None


def _join_segments(segments: Sequence[Segment]) -> Segment:
    """A segment with a single point in the place of the segments of a partition, in the order of their writer."""
    first, last = segments[0], segments[-1]
    known = ExactMap.of(first.points, complete=first.complete)
    for before, segment in pairwise(segments):
        begin, *rest = segment.points
        known.replace_from(
            begin, rest, new_generation=segment.generation != before.generation, complete=segment.complete
        )
    return Segment(last.partition, last.generation, known.complete, (join_points(known.points()),))
