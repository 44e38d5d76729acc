"""The exact map of a partition: the target offset of each source offset, and back.

Records are copied in order, so between two holes a source offset and its target offset move in step. The map keeps a
point for each hole: a source hole (compaction, aborted records, markers) or a target hole (records of foreign
producers, markers). A committed offset is the next offset to read, so it translates to the first copied record at or
after it. A group that continues at the translation skips no record and repeats no record.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Generic, NamedTuple, cast

from twinlog.model.types import AnyOffset, SourceOffset, TargetOffset


class Point(NamedTuple):
    """From source offset `source` on, copies begin at target offset `target` and move in step up to the next point.

    The first `uncertainty` source offsets may or may not have a copy. The copy of an offset q is at `target + max(0, q
    - source - uncertainty)` at the earliest. 0 means that the copies of all offsets are known.
    """

    source: SourceOffset
    target: TargetOffset
    uncertainty: int = 0


point_of = cast("Callable[[int, int, int], Point]", Point)
"""Makes a point from the plain numbers that arrays hold."""


class CopiedRun(NamedTuple):
    """The copies of `records` records from source offset `source` on begin at target offset `target`, and move in step.

    With 0 records copying continues at these offsets, and the copies in between are unknown.
    """

    source: SourceOffset
    target: TargetOffset
    records: int


class SourceHole(NamedTuple):
    """Source offsets from `first` up to, excluding, `end` without a copy; the next copy is at `target` or later."""

    first: SourceOffset
    end: SourceOffset
    target: TargetOffset


class Translated(NamedTuple, Generic[AnyOffset]):
    """An offset on the other cluster.

    A group that continues there skips no record; with `exact` False it may repeat records up to the true offset.
    """

    offset: AnyOffset
    exact: bool


class ExactMap:
    """Points of a partition in three arrays, 24 bytes a point, and the end of the copies.

    The map begins with the first copy: `next_source` and `next_target` are the offsets of the next record on both
    sides. With `complete` the partition had no copies before, so older offsets translate too, to the first copy.
    """

    __slots__ = ("_copied", "_source", "_target", "_uncertainty", "complete", "next_source", "next_target")

    def __init__(self, next_source: SourceOffset, next_target: TargetOffset, *, complete: bool = False) -> None:
        self._source = array("q", [next_source])
        self._target = array("q", [next_target])
        self._uncertainty = array("q", [0])
        self._copied = next_source
        """The source offset after the last copied record; `next_source` may be larger, after left-out records."""
        self.next_source = next_source
        self.next_target = next_target
        self.complete = complete

    @classmethod
    def of(cls, points: Iterable[Point], *, complete: bool) -> ExactMap:
        """The map with this non-empty series of points; it ends at the last point until `move_end` moves the end."""
        first, *rest = points
        new = cls(first.source, first.target, complete=complete)
        new._uncertainty[0] = first.uncertainty
        new.add_points(rest)
        return new

    def __len__(self) -> int:
        return len(self._source)

    def points(self, start: int = 0, stop: int | None = None) -> list[Point]:
        """The points from number `start` up to number `stop` (exclusive)."""
        part = slice(start, stop)
        return list(map(point_of, self._source[part], self._target[part], self._uncertainty[part]))

    # Copying.

    def add_runs(self, runs: Iterable[CopiedRun]) -> int:
        """Add copied runs up to the first run that goes back or is empty; returns the number of added runs."""
        taken = 0
        copied, target = self._copied, self.next_target
        uncertainty = self._uncertainty[-1]
        next_source = self.next_source
        for run in runs:
            if run.source < next_source or run.target < target or not run.records:
                break
            if uncertainty or run.source != copied or run.target != target:
                if run.source > copied and run.target > target:
                    # Offsets in the source hole belong after the target hole.
                    self._add(Point(copied, run.target))
                self._add(Point(run.source, run.target))
                uncertainty = 0
            copied = next_source = SourceOffset(run.source + run.records)
            target = TargetOffset(run.target + run.records)
            taken += 1
        self._copied, self.next_source, self.next_target = copied, next_source, target
        return taken

    def goes_back(self, source: SourceOffset, target: TargetOffset) -> bool:
        """Whether a copy at these offsets would come before a known copy."""
        return source < self.next_source or target < self.next_target

    def skip_to(self, next_source: SourceOffset) -> None:
        """Note that the records from the last copy up to `next_source` were read and left out."""
        self.next_source = max(self.next_source, next_source)

    def add_jump(self, next_source: SourceOffset, next_target: TargetOffset) -> None:
        """Continue the map at these offsets, which must not go back; the copies in between are unknown.

        A crash or another program leaves unknown copies.
        """
        if next_target == self.next_target:
            self.skip_to(next_source)
            return
        if next_source > self.next_source:
            self._add(Point(self.next_source, self.next_target, next_source - self.next_source))
        self._add(Point(next_source, next_target))
        self._copied = self.next_source = next_source
        self.next_target = next_target

    # Reading it from where it was stored.

    def add_points(self, points: Iterable[Point]) -> None:
        """Append stored points to the map; an end before the last point moves to the last point."""
        for point in points:
            self._add(point)
        next_source, next_target = max(self.next_source, self._source[-1]), max(self.next_target, self._target[-1])
        self._end(SourceOffset(next_source), TargetOffset(next_target))

    def replace_from(self, first: Point, rest: Iterable[Point], *, new_generation: bool, complete: bool) -> None:
        """Replace all points from `first` on by stored points.

        In a new generation the points at its target or later are replaced, too. `complete` becomes the map's if the
        replacement drops all old points.
        """
        keep = bisect_left(self._source, first.source)
        if new_generation:
            keep = min(keep, bisect_left(self._target, first.target))
        self._truncate(keep)
        if not keep:
            self.complete = complete
        self._add(first)
        if new_generation:
            self._end(first.source, first.target)
        self.add_points(rest)

    def move_end(self, next_source: SourceOffset, next_target: TargetOffset) -> None:
        """Move the end to a position that was stored after all points of this map; an older position is ignored."""
        if next_source >= self._source[-1] and next_target >= self._target[-1]:
            self._end(next_source, next_target)

    def _end(self, next_source: SourceOffset, next_target: TargetOffset) -> None:
        self.next_source = next_source
        self.next_target = next_target
        self._copied = SourceOffset(min(next_source, self._source[-1] + next_target - self._target[-1]))

    # Translating.

    def to_target(self, source: SourceOffset) -> Translated[TargetOffset] | None:
        """The target offset for a committed source offset; None when it is older than the map.

        An offset beyond the end translates to the end, which is inexact: copies still to come may lie between.
        """
        index = bisect_right(self._source, source) - 1
        if index < 0:
            return self.to_target(SourceOffset(self._source[0])) if self.complete else None
        if source > self.next_source:
            return Translated(self.next_target, False)
        ahead = source - self._source[index]
        uncertainty = self._uncertainty[index]
        last = self._target[index + 1] if index + 1 < len(self._target) else self.next_target
        found = min(self._target[index] + max(0, ahead - uncertainty), last)
        return Translated(TargetOffset(found), not uncertainty or not ahead)

    def past_copies(self, source: SourceOffset) -> TargetOffset | None:
        """A target offset after the copies of all records before `source`, also if `to_target` is inexact.

        None beyond the end.
        """
        if source > self.next_source:
            return None
        behind = bisect_right(self._source, source)
        return TargetOffset(self._target[behind]) if behind < len(self) else self.next_target

    def covers(self, source: SourceOffset, target: TargetOffset) -> bool:
        """Whether the record at these offsets was copied between this map's begin and its end."""
        return self._source[0] <= source < self.next_source and self._target[0] <= target < self.next_target

    def to_source(self, target: TargetOffset) -> Translated[SourceOffset] | None:
        """The source offset for a target offset: the first source record whose copy is at `target` or after it."""
        index = bisect_right(self._target, target) - 1
        if index < 0:
            return self.to_source(TargetOffset(self._target[0])) if self.complete else None
        if target > self.next_target:
            return Translated(self._copied, False)
        ahead = target - self._target[index]
        if self._uncertainty[index]:
            return Translated(SourceOffset(self._source[index]), not ahead)
        last = self._source[index + 1] if index + 1 < len(self._source) else self._copied
        return Translated(SourceOffset(min(self._source[index] + ahead, last)), True)

    def last_before(self, target: TargetOffset) -> tuple[SourceOffset, TargetOffset] | None:
        """The source offset and the target offset of the last copied record before target offset `target`.

        None before the first copy, or for uncertain offsets.
        """
        while (index := bisect_left(self._target, target) - 1) >= 0 and not self._uncertainty[index]:
            source, begin = self._source[index], self._target[index]
            behind: tuple[int, int] = self._copied, self.next_target
            if index + 1 < len(self):
                behind = self._source[index + 1], self._target[index + 1]
            steps = min(behind[0] - source, behind[1] - begin, target - begin)
            if steps:
                return SourceOffset(source + steps - 1), TargetOffset(begin + steps - 1)
            target = TargetOffset(begin)
        return None

    def source_holes(self) -> Iterator[SourceHole]:
        """The source offsets without a copy, in their order; offsets with unknown copies are left out."""
        points = self.points()
        ends = [*((point.source, point.target) for point in points[1:]), (self.next_source, self.next_target)]
        for point, (past_source, past_target) in zip(points, ends, strict=True):
            steps = min(past_source - point.source, past_target - point.target)
            if not point.uncertainty and past_source - point.source > steps:
                yield SourceHole(
                    SourceOffset(point.source + steps), SourceOffset(past_source), TargetOffset(point.target + steps)
                )

    # Keeping it small.

    def trim_points(self, source_start: SourceOffset) -> bool:
        """Drop the points before the source's first offset; returns whether the map changed."""
        index = bisect_right(self._source, source_start) - 1
        if index <= 0:
            return False
        for column in (self._source, self._target, self._uncertainty):
            del column[:index]
        self.complete = False
        return True

    def drop_redundant_points(self, before: SourceOffset) -> bool:
        """Drop the points before source offset `before` that continue the point before them in step.

        Returns whether the map changed.
        """
        points = self.points()
        kept = points[:1]
        for point in points[1:]:
            last = kept[-1]
            in_step = point.source - last.source == point.target - last.target
            if point.source >= before or last.uncertainty or point.uncertainty or not in_step:
                kept.append(point)
        if len(kept) == len(points):
            return False
        for column, values in zip(
            (self._source, self._target, self._uncertainty), zip(*kept, strict=True), strict=True
        ):
            column[:] = array("q", values)
        return True

    def limit_points(self, limit: int) -> bool:
        """Join neighbours among the older half until at most `limit` points remain; returns whether the map changed.

        Joined points are inexact: older points become coarser, and an offset translates to the true offset or before
        it.
        """
        shrunk = False
        while len(self) > max(limit, 3):
            old = len(self) // 2
            points = self.points(0, old)
            joined = [_join(*points[at : at + 2]) for at in range(0, old - 1, 2)] + points[old - old % 2 :]
            for column, values in zip(
                (self._source, self._target, self._uncertainty), zip(*joined, strict=True), strict=True
            ):
                column[:old] = array("q", values)
            shrunk = True
        return shrunk

    # Inside.

    def _add(self, point: Point) -> None:
        self._source.append(point.source)
        self._target.append(point.target)
        self._uncertainty.append(point.uncertainty)

    def _truncate(self, count: int) -> None:
        for column in (self._source, self._target, self._uncertainty):
            del column[count:]


def _join(older: Point, newer: Point) -> Point:
    """A point in the place of two points; each offset translates to the same offset as before or an earlier offset."""
    lost = newer.source - older.source - (newer.target - older.target) + newer.uncertainty
    return Point(older.source, older.target, max(1, older.uncertainty, lost))


def join_points(points: Iterable[Point]) -> Point:
    """A point in the place of a non-empty series of points; each offset translates as before or to an earlier offset.

    A group that continues at a translation skips no record, and may repeat records.
    """
    return reduce(_join, points)


class CopiedRuns:
    """The runs of a partition since they were last taken; an append that continues a run costs little."""

    __slots__ = ("_count", "_next_source", "_next_target", "_runs", "_source", "_target")

    def __init__(self) -> None:
        self._runs: list[CopiedRun] = []
        self._source, self._target, self._count = SourceOffset(0), TargetOffset(0), 0
        self._next_source = self._next_target = -1

    def add(self, spans: Iterable[tuple[SourceOffset, int]], base_offset: TargetOffset) -> None:
        """Add an append: (first source offset, count) of its runs, its first record at target offset `base_offset`.

        Records that a transform adds (source offset -1) count as records of a foreign producer.
        """
        for source, count in spans:
            if source < 0:
                base_offset = TargetOffset(base_offset + count)
                continue
            if source == self._next_source and base_offset == self._next_target:
                self._count += count
            else:
                if self._count:
                    self._runs.append(CopiedRun(self._source, self._target, self._count))
                self._source, self._target, self._count = source, base_offset, count
            self._next_source = source + count
            self._next_target = base_offset = TargetOffset(base_offset + count)

    def add_runs(self, runs: Iterable[CopiedRun]) -> None:
        """Add consecutive runs that were found on the target."""
        for run in runs:
            if run.records:
                self.add(((run.source, run.records),), run.target)
            else:
                self.add_jump(run.source, run.target)

    def add_jump(self, next_source: SourceOffset, next_target: TargetOffset) -> None:
        """Continue at these offsets; the copies in between are unknown. The jump is a run of 0 records."""
        self._flush()
        self._runs.append(CopiedRun(next_source, next_target, 0))

    def take_runs(self) -> list[CopiedRun]:
        """The runs since the last call, in the order of copying."""
        self._flush()
        runs, self._runs = self._runs, []
        return runs

    def _flush(self) -> None:
        if self._count:
            self._runs.append(CopiedRun(self._source, self._target, self._count))
            self._count = 0
            self._next_source = -1


def joined(runs: Iterable[CopiedRun]) -> Iterator[tuple[list[tuple[SourceOffset, int]], TargetOffset]]:
    """Join runs that are adjacent on the target; yields spans and base offset as of an append."""
    spans: list[tuple[SourceOffset, int]] = []
    base = end = TargetOffset(-1)
    for run in runs:
        if spans and (run.target != end or not run.records):
            yield spans, base
            spans = []
        if run.records:
            if not spans:
                base = run.target
            spans.append((run.source, run.records))
            end = TargetOffset(run.target + run.records)
    if spans:
        yield spans, base
