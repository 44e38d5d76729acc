"""Segments: the exact map of a partition as records of a compacted topic on the target, a few hundred points a record.

A point is where source and target offsets part, so a partition without holes is one small record for its whole life.
While copies go on in step nothing is written: the end of the last point is what the stored position says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from twinlog.offsets.exact import ExactMap, Point
from twinlog.offsets.fields import INT16, INT32, INT64, FieldError, FieldReader, string
from twinlog.offsets.positions import Position
from twinlog.read.varint import encode_varint, read_varint
from twinlog.types import Alias, TopicName, TopicPartition

VERSION = 0
SEGMENT_POINTS = 256
_COMPLETE = 1


def segments_topic(source: Alias) -> TopicName:
    """The topic of exact maps of a flow from `source`, on its target; compacted."""
    return TopicName(f"mm2-twinlog-offsets.{source}.internal")


def segment_key(source: TopicPartition, start: int) -> bytes:
    """The record key: STRING source topic, INT32 partition, INT64 source offset of the segment's first point."""
    return string(source.topic) + INT32.pack(source.partition) + INT64.pack(start)


def decode_segment_key(key: bytes | None) -> tuple[TopicPartition, int] | None:
    """Source partition and first source offset of a segment's key; None when it is none."""
    if key is None:
        return None
    fields = FieldReader(key)
    try:
        return TopicPartition(TopicName(fields.string()), fields.int32()), fields.int64()
    except FieldError:
        return None


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive points of one partition, at least one.

    `life` grows whenever one side went back: a segment ends what segments of earlier lives say about its first source
    offset, its first target offset and all after them. Within a life, segments follow each other by source offset.
    `complete` says that copying began with this segment (see `ExactMap`).
    """

    partition: TopicPartition
    life: int
    complete: bool
    points: tuple[Point, ...]

    @property
    def start(self) -> int:
        """The source offset of the first point."""
        return self.points[0].source

    @property
    def key(self) -> bytes:
        return segment_key(self.partition, self.start)

    @property
    def value(self) -> bytes:
        """INT16 version, INT16 flags (1 complete), INT32 life, INT64 first target offset, then varints: the first
        slack, and of each further point its source step, target step and slack."""
        head = INT16.pack(VERSION) + INT16.pack(_COMPLETE * self.complete) + INT32.pack(self.life)
        before = self.points[0]
        parts = [head, INT64.pack(before.target), encode_varint(before.slack)]
        for point in self.points[1:]:
            parts.append(encode_varint(point.source - before.source))
            parts.append(encode_varint(point.target - before.target))
            parts.append(encode_varint(point.slack))
            before = point
        return b"".join(parts)


def decode_segment(key: bytes | None, value: bytes | None) -> Segment | None:
    """The segment of a record; None for a tombstone, for what is none and for a version not known here."""
    where = decode_segment_key(key)
    if where is None or value is None:
        return None
    partition, source = where
    fields = FieldReader(value)
    try:
        version, flags, life, target = fields.int16(), fields.int16(), fields.int32(), fields.int64()
        if version != VERSION:
            return None
        rest = fields.rest()
        slack, at = read_varint(rest, 0)
        points = [Point(source, target, slack)]
        while at < len(rest):
            step, at = read_varint(rest, at)
            source += step
            step, at = read_varint(rest, at)
            target += step
            slack, at = read_varint(rest, at)
            points.append(Point(source, target, slack))
    except (FieldError, IndexError):
        return None
    return Segment(partition, life, bool(flags & _COMPLETE), tuple(points))


class Tip(NamedTuple):
    """The newest stored point of a partition, and the life of its segment."""

    life: int
    source: int
    target: int
    slack: int = 0

    def before(self, next_source: int, next_target: int) -> bool:
        """Whether what comes next there comes behind this point, on both sides."""
        return self.source <= next_source and self.target <= next_target

    def leads_to(self, next_source: int, next_target: int) -> bool:
        """Whether everything from this point up to there was copied in step, if the point is the last before it."""
        return not self.slack and next_source - self.source == next_target - self.target >= 0


class SegmentWriter:
    """The newest segment of one partition while a task copies it.

    It begins at the offsets the next record has on both sides, with the `life` of the newest stored segment, or the
    next one when it begins before that segment's last point; `take_over` finds both. With `known` its first point
    follows from what is stored and is written with the next one only.

    Order matters, because a map is never to be older than the position it ends at: first note the position, then take
    `changed` and write it, and write the noted position when that is acknowledged.
    """

    def __init__(
        self,
        partition: TopicPartition,
        next_source: int,
        next_target: int,
        *,
        life: int = 0,
        complete: bool = False,
        known: bool = False,
        segment_points: int = SEGMENT_POINTS,
    ) -> None:
        self._partition = partition
        self._segment_points = segment_points
        self._life = life
        self._map = ExactMap(next_source, next_target, complete=complete)
        self._written = int(known)
        """How many points of this segment were handed out."""
        self._full: list[Segment] = []

    @classmethod
    def take_over(
        cls,
        partition: TopicPartition,
        position: Position,
        stored: Position | None,
        tip: Tip | None,
        *,
        complete: bool,
        segment_points: int = SEGMENT_POINTS,
    ) -> SegmentWriter:
        """The writer of a task that copies on from `position`.

        `stored` is the position and `tip` the point that whoever copied before has left, None when there is none.
        Behind them records may have arrived of which nothing was noted. `complete` is for a partition that was never
        copied.
        """
        assert position.next_target is not None
        now = position.next_source, position.next_target
        life = 0 if tip is None else tip.life
        begin = None
        if stored is not None and stored.next_target is not None and (tip is None or stored.life == life):
            begin = stored.next_source, stored.next_target
        if tip is not None and (begin is None or not tip.before(*begin)):
            # A crash between the two, or another program has stored the position.
            begin = (tip.source, tip.target) if tip.before(*now) else None
        if begin is None:
            life += tip is not None
            return cls(partition, *now, life=life, complete=complete, segment_points=segment_points)
        known = tip is not None and tip.leads_to(*begin)
        new = cls(partition, *begin, life=life, known=known, segment_points=segment_points)
        new.jumped(*now)
        return new

    @property
    def life(self) -> int:
        """The life of the newest segment, for the position that is stored behind it."""
        return self._life

    @property
    def end(self) -> tuple[int, int]:
        """The offsets the next record has on both sides, as far as is known."""
        return self._map.next_source, self._map.next_target

    def copied(self, spans: Sequence[tuple[int, int]], base_offset: int) -> None:
        """An append arrived: runs of (first source offset, count), the first record at target offset `base_offset`."""
        for source, count in spans:
            if self._map.goes_back(source, base_offset):
                self._begin(source, base_offset, life=self._life + 1)
            self._map.copied(source, base_offset, count)
            self._split()
            base_offset += count

    def passed(self, next_source: int) -> None:
        """Everything before `next_source` was read, and nothing of it copied since the last append."""
        self._map.passed(next_source)

    def jumped(self, next_source: int, next_target: int) -> None:
        """Copying goes on here; what was copied in between is not known."""
        if self._map.goes_back(next_source, next_target):
            self._begin(next_source, next_target, life=self._life + 1)
        else:
            self._map.jumped(next_source, next_target)
        self._split()

    def close(self) -> None:
        """Note the end as a point, so that it is known even if another program goes on with this partition."""
        self._begin(self._map.next_source, self._map.next_target, life=self._life)

    def changed(self) -> list[Segment]:
        """Segments to write now, in order; empty while copies go on in step."""
        found, self._full = self._full, []
        if len(self._map) != self._written:
            found.append(self._segment())
            self._written = len(self._map)
        return found

    def _segment(self) -> Segment:
        return Segment(self._partition, self._life, self._map.complete, tuple(self._map.points()))

    def _split(self) -> None:
        if len(self._map) >= self._segment_points:
            self._begin(self._map.next_source, self._map.next_target, life=self._life)

    def _begin(self, next_source: int, next_target: int, *, life: int) -> None:
        if len(self._map) != self._written:
            self._full.append(self._segment())
        self._life = life
        self._map = ExactMap(next_source, next_target)
        self._written = 0
