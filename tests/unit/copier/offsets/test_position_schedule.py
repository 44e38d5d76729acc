"""When a position is stored: soon where a partition moves now and then, seldom where it moves all the time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

from twinlog.copier.offset_committer import STEADY, UNSTORED_BYTES, DuePositions, IdleDetector
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicName, TopicPartition

INTERVAL_S = 0.5
HOUR = 7200
"""Intervals in an hour."""


@dataclass
class Copied:
    bytes: int = 0


@dataclass
class Part:
    """As much of a partition as counts here."""

    source: TopicPartition
    acknowledged: Position
    copied: Copied = field(default_factory=Copied)

    def copy(self, records: int, size: int = 100) -> None:
        moved = self.acknowledged.next_source + records
        self.acknowledged = replace(self.acknowledged, next_source=moved, next_target=moved)
        self.copied.bytes += records * size


def parts(count: int) -> list[Part]:
    return [Part(TopicPartition(TopicName("t"), number), Position(0, 0)) for number in range(count)]


def turn(due: DuePositions, some: list[Part], at: int) -> list[int]:
    """What is stored in interval number `at`, by partition number."""
    now = at * INTERVAL_S
    chosen = due.choose_due(cast(list[PartitionCopy], some), now)
    for part in chosen:
        due.stored(part.source, part.acknowledged, part.copied.bytes, now)
    return [part.source.partition for part in chosen]


def test_a_busy_partition_has_a_quarter_of_the_positions() -> None:
    due, (busy,) = DuePositions(INTERVAL_S), parts(1)
    stored = 0
    for at in range(HOUR):
        busy.copy(1)
        stored += len(turn(due, [busy], at))
    assert stored == HOUR / STEADY == 1800


def test_one_that_moves_now_and_then_is_stored_at_once_and_to_its_end() -> None:
    due, (now_and_then, still) = DuePositions(INTERVAL_S), parts(2)
    assert turn(due, [now_and_then, still], 0) == [0, 1]
    for at in range(10, 100, 10):
        now_and_then.copy(3)
        assert turn(due, [now_and_then, still], at) == [0]
        now_and_then.copy(1)
        late = [later for later in range(at + 1, at + 10) if turn(due, [now_and_then, still], later)]
        assert late == [at + 2]


def test_what_a_crash_leaves_to_compare_is_bounded_in_bytes_over_all_partitions() -> None:
    due, some = DuePositions(INTERVAL_S), parts(100)
    assert len(turn(due, some, 0)) == 100
    for at in range(1, 50):
        for part in some:
            part.copy(1, UNSTORED_BYTES // 100 + 1)
        assert len(turn(due, some, at)) == 100
    for part in some:
        part.copy(1, UNSTORED_BYTES // 101)
    assert turn(due, some, 50) == []


def test_one_that_was_away_begins_anew() -> None:
    due, (one,) = DuePositions(INTERVAL_S), parts(1)
    assert turn(due, [one], 0) == [0]
    due.forget_partition(one.source)
    assert turn(due, [one], 1) == [0]


def test_a_copier_that_became_idle_is_noticed_once_and_not_too_often() -> None:
    idle = IdleDetector(0.25)
    assert [idle.became_idle(batches, at / 10) for at, batches in enumerate([5, 9, 9, 9, 9])] == [
        False,
        False,
        True,
        False,
        False,
    ]
    # Between one batch and the next it seems idle, again and again.
    told = sum(idle.became_idle(9 + at // 2, 1 + at / 10) for at in range(100))
    assert 20 <= told <= 40


def test_one_that_never_copied_has_nothing_to_store() -> None:
    assert not IdleDetector(0.25).became_idle(0, 1.0)
