"""A flow that stores its exact map in segments, as drawn, and what a reader of them knows."""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st

from twinlog.mirror.offsets.exact_map import CopiedRuns
from twinlog.mirror.offsets.maps import ExactMaps, StoredRecord
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import SegmentWriter, first_generation
from twinlog.model.types import TopicName, TopicPartition

PART = TopicPartition(TopicName("orders"), 3)

SEGMENT_POINTS = 2

MAX_POINTS = 9


@dataclass
class Truth:
    """The two logs: which record is where, and where each log ends."""

    source_end: int
    target_end: int
    copies: list[tuple[int, int]] = field(default_factory=list)

    def append(self, holes: list[tuple[int, int]], foreign: int) -> tuple[list[tuple[int, int]], int]:
        """Copy runs of (source hole before it, count) after `foreign` records of somebody else, as one append."""
        self.target_end += foreign
        base, spans = self.target_end, []
        for hole, count in holes:
            first, at = self.source_end + hole, self.target_end
            spans.append((first, count))
            self.copies += zip(range(first, first + count), range(at, at + count), strict=True)
            self.source_end, self.target_end = first + count, at + count
        return spans, base

    def back_to(self, source: int, target: int) -> None:
        self.source_end, self.target_end = min(self.source_end, source), min(self.target_end, target)
        self.copies = [(here, there) for here, there in self.copies if here < source and there < target]

    def next_copy(self, source: int) -> int | None:
        """Where the first copied record at or after a source offset is."""
        return min((there for here, there in self.copies if here >= source), default=None)


holes = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=4)


class Flow:
    """A flow of one partition with its stored segments and position, whose copier comes and goes."""

    def __init__(self, *, begun_s: float = 0.0) -> None:
        self.begun_s = begun_s
        self.truth = Truth(2, 3)
        self.topic: list[StoredRecord] = []
        self.position: Position | None = None
        self.late: list[StoredRecord] = []
        self.late_joins: list[list[StoredRecord]] = []
        self.strays = False
        """Whether segments arrived that were forgotten before: they stand where nobody asks, but copies may seem to
        follow them in step."""
        self.noted = CopiedRuns()
        self.followed = ExactMaps()
        self.read_up_to = 0
        self.writer = self._take_over(ExactMaps(), complete=True)
        self.source_start = 0
        self.all_known = True
        """Whether every copy was noted, and none forgotten since."""
        self.store()

    def _take_over(self, maps: ExactMaps, *, complete: bool = False) -> SegmentWriter:
        end = Position(self.truth.source_end, self.truth.target_end)
        tip = maps.tip(PART)
        return SegmentWriter.take_over(
            PART,
            end,
            self.position,
            tip,
            complete=complete,
            generation=first_generation(self.begun_s) if tip is None else 0,
            segment_points=SEGMENT_POINTS,
        )

    def append(self, runs: list[tuple[int, int]], foreign: int) -> None:
        self.noted.add(*self.truth.append(runs, foreign))

    def lost_track(self, runs: list[tuple[int, int]], foreign: int) -> None:
        """The target lost track of the producer: what was in flight arrived, and nobody noted where."""
        self.truth.append(runs, foreign)
        self.noted.add_jump(self.truth.source_end, self.truth.target_end)
        self.all_known = False

    def passed(self, count: int) -> None:
        self.truth.source_end += count

    def went_back(self, source: int, target: int) -> None:
        """A truncated source (or one recreated), a truncated remote topic, or both; the copier notices and notes it."""
        truth = self.truth
        truth.back_to(max(0, truth.source_end - source), max(0, truth.target_end - target))
        self.noted.add_jump(truth.source_end, truth.target_end)
        self.store()

    def store(self, *, position: bool = True) -> None:
        self.note()
        segments = self.writer.changed()
        self.topic += [(segment.key, segment.value) for segment in segments]
        self.writer.mark_stored(segments)
        if position:
            self.position = Position(self.truth.source_end, self.writer.end[1], generation=self.writer.generation)
        self.follow()

    def note(self) -> None:
        self.writer.add_runs(self.noted.take_runs())
        self.writer.skip_to(self.truth.source_end)

    def fail(self, arrive: int) -> None:
        """Nobody knows what arrives of a write: some of it at once, some of it later, some of it never."""
        self.note()
        records = [(segment.key, segment.value) for segment in self.writer.changed()]
        self.writer.not_stored()
        self.topic += records[: arrive % 3]
        self.late += records[arrive % 3 :][: arrive // 3]
        self.follow()

    def arrive_late(self) -> None:
        self.strays |= bool(self.late and self.source_start)
        self.topic += self.late
        self.late = []
        self.follow()

    def restart(self, kind: str) -> None:
        """The copier ends and another one takes over.

        It ends in order, by a crash, by one between segments and position, or for good with another program's turn.
        """
        if kind == "half":
            self.store(position=False)
        elif kind != "crash":
            self.note()
            self.writer.close()
            self.store()
        self.noted.take_runs()
        if kind == "other":
            self.truth.append([(1, 3), (0, 2)], 2)
            self.position = None
        self.all_known &= kind == "clean"
        maps = self.loaded()
        self.writer = self._take_over(maps)
        self.store()

    def join(self, source_start: int, *, max_points: int = MAX_POINTS, late: str = "") -> None:
        """Join old segments; nobody knows yet when a `late` join arrives.

        It is of this driver, or of one that ended: then another one goes on.
        """
        self.source_start = max(self.source_start, min(source_start, self.truth.source_end))
        records = self.followed.join_segments(
            PART,
            source_start=self.source_start,
            target_start=self.truth.target_end,
            max_points=max_points,
            segment_points=SEGMENT_POINTS,
        )
        self.all_known &= not records
        if late:
            self.late_joins.append(records)
        else:
            self.topic += records
        if late == "ended":
            self.followed = self.loaded()
        self.follow()

    def join_arrives(self, which: int) -> None:
        """One of the joins arrives, whole: it is one batch."""
        if self.late_joins:
            records = self.late_joins.pop(which % len(self.late_joins))
            self.strays |= bool(records and self.source_start)
            self.topic += records
        self.follow()

    def follow(self) -> None:
        self.followed.apply_records(self.topic[self.read_up_to :])
        self.read_up_to = len(self.topic)
        if self.position is not None:
            reach(self.followed, self.position)

    def loaded(self) -> ExactMaps:
        """What a driver knows that starts now, from the compacted topic."""
        compacted: dict[bytes, bytes | None] = {}
        for key, value in self.topic:
            compacted.pop(key, None)
            compacted[key] = value
        maps = ExactMaps()
        maps.apply_records(compacted.items())
        if self.position is not None:
            reach(maps, self.position)
        return maps


def reach(maps: ExactMaps, position: Position) -> None:
    assert position.next_target is not None
    maps.extend_map(PART, position.next_source, position.next_target, generation=position.generation)
