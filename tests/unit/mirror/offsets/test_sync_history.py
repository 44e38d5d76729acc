"""What offset syncs prove: places of missing and doubled records, and exact translations."""

from __future__ import annotations

import pytest

from twinlog.mirror.offsets.sync_history import OffsetPair, PartitionSyncs, SyncHistory
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition

PART = TopicPartition(TopicName("orders"), 0)


def history(*syncs: tuple[int, int], end: int = 10_000) -> SyncHistory:
    known = PartitionSyncs()
    for source, target in syncs:
        known.add(source, target)
    return SyncHistory({PART: known.anchors(end)})


def jumps(*syncs: tuple[int, int], end: int = 10_000) -> list[tuple[int, int, int]]:
    return [(one.before.source, one.missing, one.extra) for one in history(*syncs, end=end).jumps(PART)]


def test_offsets_that_grow_in_step_prove_that_nothing_is_missing() -> None:
    assert jumps((0, 0), (100, 100), (250, 250)) == []
    assert jumps((500, 0), (600, 100)) == [], "copying began late, and nothing is missing in between"


def test_source_offsets_that_grow_faster_are_missing() -> None:
    assert jumps((99, 99), (130, 100), (230, 200)) == [(99, 30, 0)]


def test_target_offsets_that_grow_faster_are_doubled() -> None:
    # A restart copied 98 and 99 once more; the sync of 98 goes back.
    assert jumps((0, 0), (99, 99), (98, 100), (150, 152)) == [(99, 0, 2)]


def test_syncs_of_a_deleted_topic_do_not_count() -> None:
    assert jumps((0, 0), (900, 800), (905, 0), (1000, 95)) == [], "the remote topic was recreated"
    assert history((0, 0), (900, 900), (0, 901), (50, 951), end=100).anchors(PART) == [
        OffsetPair(0, 901),
        OffsetPair(50, 951),
    ]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, 0), (40, 40), (99, 99), (100, None), (130, 100), (150, 120), (230, 200), (260, 230), (261, None)],
)
def test_an_offset_is_translated_exactly_or_not_at_all(offset: int, expected: int | None) -> None:
    known = history((0, 0), (99, 99), (130, 100), (230, 200))
    assert known.translate(PART, SourceOffset(offset), target_end=230) == expected


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, 0), (99, 99), (100, 130), (150, 180), (229, 259), (230, 260), (231, None)]
)
def test_an_offset_in_the_copy_is_translated_back_exactly_or_not_at_all(offset: int, expected: int | None) -> None:
    known = history((0, 0), (99, 99), (130, 100), (230, 200))
    assert known.translate_back(PART, TargetOffset(offset), source_end=260) == expected
    # Between syncs that part nothing is certain.
    assert history((0, 0), (100, 90)).translate_back(PART, TargetOffset(50), source_end=260) is None


def test_before_the_first_sync_nothing_is_known() -> None:
    assert history((10, 0)).translate(PART, SourceOffset(9), 100) is None
    assert SyncHistory({}).translate(PART, SourceOffset(9), 100) is None
    assert not SyncHistory({})
