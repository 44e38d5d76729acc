"""The exact map of one partition: where every source offset is in the remote partition, and back.

Records are copied in order, so between two holes a source offset and its target offset move in step. The map keeps one
point for each place where they part: a source hole (compaction, aborted records, markers) or a target hole (records of
somebody else, markers). A committed offset is the next one to read, so it translates to the first copied record at or
after it: a group that continues there skips nothing and repeats nothing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, cast

from twinlog.model.types import AnyOffset, SourceOffset, TargetOffset


class Point(NamedTuple):
    """From source offset `source` on, copies begin at target offset `target` and move in step up to the next point.

    Of the first `uncertainty` source offsets it is not known which were copied, so that the copy of an offset q is at
    `target + max(0, q - source - uncertainty)` at the earliest. 0 means that every offset is known.
    """

    source: SourceOffset
    target: TargetOffset
    uncertainty: int = 0


point_of = cast("Callable[[int, int, int], Point]", Point)
"""Of what arrays hold, which know plain numbers only."""


class CopiedRun(NamedTuple):
    """So many `records` from source offset `source` on are at target offset `target` and after it, without holes.

    With 0 records copying continues there, and what was copied in between is not known.
    """

    source: SourceOffset
    target: TargetOffset
    records: int


class Translated(NamedTuple, Generic[AnyOffset]):
    """An offset on the other cluster; with `exact` False records up to the true one are read again, none is skipped."""

    offset: AnyOffset
    exact: bool


class ExactMap:
    """Points of one partition in three arrays, 24 bytes a point, and the end of what was copied.

    It begins where copying began: `next_source` and `next_target` are the offsets of the next record on both sides.
    With `complete` nothing had been copied before, so that older offsets translate too, to the first copy.
    """

    __slots__ = ("_copied", "_source", "_target", "_uncertainty", "complete", "next_source", "next_target")

    def __init__(self, next_source: SourceOffset, next_target: TargetOffset, *, complete: bool = False) -> None:
        self._source = array("q", [next_source])
        self._target = array("q", [next_target])
        self._uncertainty = array("q", [0])
        self._copied = next_source
        """The source offset after the last copied record; `next_source` may have passed over more."""
        self.next_source = next_source
        self.next_target = next_target
        self.complete = complete

    @classmethod
    def of(cls, points: Iterable[Point], *, complete: bool) -> ExactMap:
        """The map with these points, at least one; it ends at the last until `move_end` moves the end."""
        first, *rest = points
        new = cls(first.source, first.target, complete=complete)
        new._uncertainty[0] = first.uncertainty
        new.add_points(rest)
        return new

    def __len__(self) -> int:
        return len(self._source)

    def points(self, start: int = 0, stop: int | None = None) -> list[Point]:
        """The points from number `start` up to, not including, number `stop`."""
        part = slice(start, stop)
        return list(map(point_of, self._source[part], self._target[part], self._uncertainty[part]))

    # Copying.

    def add_run(self, source: SourceOffset, target: TargetOffset, count: int) -> None:
        """`count` records from source offset `source` on are at `target` and after it, none missing on either side.

        Where a side goes back, the points from there on are dropped: the source was truncated or recreated, or the
        remote topic was.
        """
        if self.goes_back(source, target):
            self._cut(source, target)
        self.copied_runs((CopiedRun(source, target, count),))

    def copied_runs(self, runs: Iterable[CopiedRun]) -> int:
        """`add_run` of each run up to the first that goes back or is empty; returns how many there were."""
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
        """Whether a copy there would come before one that is known."""
        return source < self.next_source or target < self.next_target

    def skip_to(self, next_source: SourceOffset) -> None:
        """Everything before `next_source` was read, and nothing of it copied since the last copy."""
        self.next_source = max(self.next_source, next_source)

    def add_jump(self, next_source: SourceOffset, next_target: TargetOffset) -> None:
        """Copying continues here; what was copied in between is not known, as after a crash or after another
        program."""
        if self.goes_back(next_source, next_target):
            self._cut(next_source, next_target)
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
        """Add stored points after those here; the end moves to the last of them, if it was before it."""
        for point in points:
            self._add(point)
        next_source, next_target = max(self.next_source, self._source[-1]), max(self.next_target, self._target[-1])
        self._end(SourceOffset(next_source), TargetOffset(next_target))

    def replace_from(self, first: Point, rest: Iterable[Point], *, new_generation: bool, complete: bool) -> None:
        """Put stored points in the place of all from `first` on; in a new generation also of those at its target or
        later.

        `complete` becomes the map's when nothing of it is left.
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
        """The end is here, by a position that was stored after all points of this map; an older one changes nothing."""
        if next_source >= self._source[-1] and next_target >= self._target[-1]:
            self._end(next_source, next_target)

    def _end(self, next_source: SourceOffset, next_target: TargetOffset) -> None:
        self.next_source = next_source
        self.next_target = next_target
        self._copied = SourceOffset(min(next_source, self._source[-1] + next_target - self._target[-1]))

    # Translating.

    def to_target(self, source: SourceOffset) -> Translated[TargetOffset] | None:
        """The target offset for a committed source offset; None when it is older than the map.

        Beyond the end it is the end, and not exact: what is still to be copied may lie between.
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
        """A target offset after the copies of everything before `source`, also where `to_target` is not exact; None
        beyond the end."""
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
        """Source and target offset of the last record that was copied to before `target`.

        None when there is none, or it is not known exactly.
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

    # Keeping it small.

    def trim_points(self, source_start: SourceOffset) -> bool:
        """Drop what lies before the source's first offset; returns whether there was anything."""
        index = bisect_right(self._source, source_start) - 1
        if index <= 0:
            return False
        for column in (self._source, self._target, self._uncertainty):
            del column[:index]
        self.complete = False
        return True

    def drop_redundant_points(self, before: SourceOffset) -> bool:
        """Drop redundant points before source offset `before`: those that continue the point before them in step.
        Returns whether there were any."""
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
        """Join neighbours among the older half until there are at most `limit` points; returns whether it did.

        Joined points are no longer exact; the further back, the coarser, and never beyond the true offset.
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

    def _cut(self, source: SourceOffset, target: TargetOffset) -> None:
        """Forget copies of source offsets from `source` on and copies at target offsets from `target` on."""
        keep = min(bisect_left(self._source, source), bisect_left(self._target, target))
        if keep == 0:
            self._truncate(0)
            self._add(Point(source, target))
            self._end(source, target)
            return
        begin = self._source[keep - 1], self._target[keep - 1]
        steps = self._copied - begin[0]
        if keep < len(self):
            steps = min(self._source[keep] - begin[0], self._target[keep] - begin[1])
        uncertainty = self._uncertainty[keep - 1]
        self._truncate(keep)
        steps = min(steps, source - begin[0], target - begin[1])
        self.next_source = min(self.next_source, source)
        self._copied = source if uncertainty else SourceOffset(begin[0] + steps)
        self.next_target = min(self.next_target, target) if uncertainty else TargetOffset(begin[1] + steps)


def _join(older: Point, newer: Point) -> Point:
    """One point in the place of two, from which no offset translates to more than it did."""
    lost = newer.source - older.source - (newer.target - older.target) + newer.uncertainty
    return Point(older.source, older.target, max(1, older.uncertainty, lost))
