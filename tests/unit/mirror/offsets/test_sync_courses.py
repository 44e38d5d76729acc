"""Drawn courses of MirrorMaker 2: a group that offset syncs translate skips no record, whatever was lost or doubled."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from twinlog.mirror.offsets.sync_history import PartitionSyncs, SyncHistory
from twinlog.mirror.offsets.sync_store import MirrorTranslation
from twinlog.mirror.offsets.syncs import OffsetSync
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition

PART = TopicPartition(TopicName("orders"), 0)
COURSES = 150


class SyncWriter:
    """MirrorMaker 2's writer of offset syncs for one partition (Kafka class OffsetSyncWriter), from start to kill.

    While syncs are `crowded`, a sync waits, and a later sync takes its place.
    """

    def __init__(self, lag_max: int, out: list[tuple[int, int]]) -> None:
        self._lag_max = lag_max
        self._out = out
        self._before = (-1, -1)
        self._synced = -1
        self._pending: tuple[int, int] | None = None
        self._delayed: tuple[int, int] | None = None

    def acknowledged(self, source: int, target: int, *, crowded: bool) -> None:
        if (
            self._synced == -1
            or target - (self._synced + 1) >= self._lag_max
            or source - self._before[0] != 1
            or target < self._before[1]
        ):
            self._synced, self._pending, self._delayed = target, (source, target), None
        else:
            self._delayed = (source, target)
        self._before = (source, target)
        self._fire(crowded)

    def committed(self, *, crowded: bool) -> None:
        self._pending, self._delayed = self._delayed or self._pending, None
        self._fire(crowded)

    def _fire(self, crowded: bool) -> None:
        if self._pending is not None and not crowded:
            self._out.append(self._pending)
            self._pending = None


class Course:
    """A source log with holes, and its copy by a MirrorMaker 2 that is killed and started several times."""

    def __init__(self, draw: random.Random, *, all_syncs: bool) -> None:
        self.target: list[int | None] = []
        """The source offset of each target offset; None for a marker or a record of another producer."""
        self.syncs: list[tuple[int, int]] = []
        holes = draw.choice([0, 0.05, 0.3])
        size = draw.randint(20, 120)
        self.source = [offset for offset in range(size) if draw.random() >= holes] or [0]
        self.end = size
        self._draw = draw
        self._lost = 0.0 if all_syncs else draw.choice([0, 0.3, 0.8])
        self._markers = draw.choice([0, 0, 0.2])
        self._again = 0.0 if all_syncs else draw.choice([0, 0, 0.1])
        lag_max = draw.choice([0, 3, 10, 100])
        stored = 0
        for _ in range(draw.randint(0, 4)):
            stored = self._live(stored, lag_max, draw.randint(1, len(self.source)))
        self._live(stored, lag_max, None)
        if not all_syncs and draw.random() < 0.3:
            # Compaction keeps the last sync of its part of the log.
            del self.syncs[: draw.randint(0, len(self.syncs) - 1) if self.syncs else 0]

    def _live(self, stored: int, lag_max: int, most: int | None) -> int:
        """Copy from the stored place on; returns the last stored place. Without `most` the whole log is copied."""
        draw, out = self._draw, list[tuple[int, int]]()
        writer = SyncWriter(lag_max, out)
        left = self.source[stored:] if most is None else self.source[stored : stored + most]
        at = stored
        while left:
            size = draw.randint(1, 6)
            batch, left = left[:size], left[size:]
            if draw.random() < self._again:
                # The answer to a produce request is lost, and the producer sends the batch again.
                self.target += batch
            base = len(self.target)
            self.target += batch
            for number, source in enumerate(batch):
                writer.acknowledged(source, base + number, crowded=draw.random() < self._lost)
            at += len(batch)
            if draw.random() < self._markers:
                self.target += [None] * draw.randint(1, 3)
            if draw.random() < 0.2 or (most is None and not left):
                stored = at
                writer.committed(crowded=draw.random() < self._lost)
        self.syncs += [one for one in out if draw.random() >= self._lost / 4]
        return stored

    def history(self) -> SyncHistory:
        known = PartitionSyncs()
        for source, target in self.syncs:
            known.add(source, target)
        return SyncHistory({PART: known.written(self.end)})

    def thinned_out(self) -> SyncHistory:
        """The history by a part of the syncs, as in a worker with very many syncs."""
        known = PartitionSyncs()
        for number, (source, target) in enumerate(self.syncs):
            known.add(source, target)
            if number % 7 == 0:
                known.thin_out()
        return SyncHistory({PART: known.written(self.end)})

    def last_copies(self) -> dict[int, int]:
        return {source: target for target, source in enumerate(self.target) if source is not None}

    def first_copies(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for target, source in enumerate(self.target):
            if source is not None:
                found.setdefault(source, target)
        return found


@pytest.mark.parametrize("all_syncs", [True, False], ids=["all syncs", "lost syncs"])
def test_a_group_skips_no_record_and_repeats_no_more_than_is_said(all_syncs: bool) -> None:
    draw = random.Random(random.getrandbits(64))
    seen: dict[str, int] = defaultdict(int)
    for _ in range(COURSES):
        course = Course(draw, all_syncs=all_syncs)
        known, last, first = course.history(), course.last_copies(), course.first_copies()
        for offset in range(course.end + 1):
            place = known.translate(PART, SourceOffset(offset), len(course.target))
            if place is None:
                continue
            about = (offset, place, course.source, course.target, course.syncs)
            assert all(last[source] >= place.least for source in last if source >= offset), about
            seen["exact" if place.exact else "inexact"] += 1
            if all_syncs:
                assert place.past is not None
                assert all(last[source] < place.past for source in last if source < offset), about
        for offset in range(len(course.target) + 1):
            place = known.translate_back(PART, TargetOffset(offset), course.end)
            if place is None:
                continue
            about = (offset, place, course.source, course.target, course.syncs)
            unread = [source for source in first if first[source] >= offset]
            assert all(source >= place.least for source in unread), about
            seen["back, exact" if place.exact else "back, inexact"] += 1
            if all_syncs:
                assert place.past is not None
                assert all(source < place.past for source in first if first[source] < offset), about
    assert len(seen) == 4, seen


def test_a_group_skips_no_record_if_syncs_are_thinned_out() -> None:
    draw = random.Random(random.getrandbits(64))
    places = 0
    for _ in range(COURSES):
        course = Course(draw, all_syncs=False)
        known, last = course.thinned_out(), course.last_copies()
        for offset in range(course.end + 1):
            place = known.translate(PART, SourceOffset(offset), len(course.target))
            if place is not None:
                places += 1
                about = (offset, place, course.source, course.target, course.syncs)
                assert all(last[source] >= place.least for source in last if source >= offset), about
    assert places


def test_a_group_that_mirror_maker_led_to_second_copies_skips_no_record_on_its_way_back() -> None:
    draw = random.Random(random.getrandbits(64))
    places = 0
    for _ in range(COURSES):
        course = Course(draw, all_syncs=False)
        known, copied = course.history(), set(course.target)
        by_mirror_maker = MirrorTranslation()
        by_mirror_maker.ready()
        for source, target in course.syncs:
            by_mirror_maker.add(OffsetSync(PART.topic, PART.partition, SourceOffset(source), TargetOffset(target)))
        for offset in range(course.end + 1):
            begin = by_mirror_maker.translate(PART, SourceOffset(offset))
            if begin is None or begin < 0:
                continue
            read_up_to = draw.randint(begin, max(begin, len(course.target)))
            place = known.translate_back(PART, TargetOffset(read_up_to), course.end)
            if place is not None:
                places += 1
                unread = copied - set(course.target[begin:read_up_to])
                about = (offset, begin, read_up_to, place, course.source, course.target, course.syncs)
                assert all(not offset <= source < place.least for source in unread if source is not None), about
    assert places
