"""What offset syncs prove: places of missing and doubled records, and places of groups."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.offsets.sync_history import OffsetPair, PartitionSyncs, SyncedPlace, SyncHistory, SyncHistoryReader
from twinlog.mirror.offsets.syncs import OffsetSync
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

PART = TopicPartition(TopicName("orders"), 0)


class Written(NamedTuple):
    """The record of an offset sync."""

    key: bytes
    value: bytes


def history(*syncs: tuple[int, int], end: int = 10_000) -> SyncHistory:
    known = PartitionSyncs()
    for source, target in syncs:
        known.add(source, target)
    return SyncHistory({PART: known.written(end)})


def jumps(*syncs: tuple[int, int], end: int = 10_000) -> list[tuple[int, int, int]]:
    return [(one.before.source, one.missing, one.extra) for one in history(*syncs, end=end).jumps(PART)]


def test_offsets_that_grow_in_step_have_no_jump() -> None:
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
    ("offset", "least", "past"),
    [
        (0, 0, 0),
        (1, 1, 1),
        (40, 1, 99),
        (99, 99, 99),
        (100, 100, 100),
        (130, 100, 100),
        (131, 101, 101),
        (150, 101, 200),
        (230, 200, 200),
        (260, 201, 230),
    ],
)
def test_an_offset_between_syncs_is_translated_to_the_first_of_them(offset: int, least: int, past: int) -> None:
    known = history((0, 0), (99, 99), (130, 100), (230, 200))
    place = known.translate(PART, SourceOffset(offset), target_end=230)
    assert place == SyncedPlace(least, past)
    assert place.exact == (least == past)


def test_syncs_in_step_may_hide_a_skip() -> None:
    # The record at 60 follows a hole of 9 offsets, and its sync is lost in a kill. The restart copies 9 records again.
    known = history((0, 0), (62, 62))
    assert known.jumps(PART) == []
    place = known.translate(PART, SourceOffset(60), target_end=100)
    assert place == SyncedPlace(1, 62), "the record at 60 is at 51"


def test_a_restart_that_copied_again_moves_later_groups_only() -> None:
    known = history((0, 0), (100, 100), (50, 151), (201, 302))
    assert known.translate(PART, SourceOffset(80), 400) == SyncedPlace(1, 302), "80 is repeated after 151"
    assert known.translate(PART, SourceOffset(50), 400) == SyncedPlace(1, 100)
    assert known.translate(PART, SourceOffset(160), 400) == SyncedPlace(152, 302)
    # The reader of the first copies has read up to 150, and a group that begins at the second copies up to 49.
    assert known.translate_back(PART, TargetOffset(151), 400) == SyncedPlace(50, 151)
    assert known.translate_back(PART, TargetOffset(152), 400) == SyncedPlace(51, 151)


def test_the_way_back_leads_no_group_past_records_of_a_recreated_source_topic() -> None:
    # The records 0 to 100 of the earlier topic are at 0 to 100; the records from 50 on may be of the present topic.
    known = history((0, 0), (100, 100), (50, 101), (201, 252))
    assert known.translate_back(PART, TargetOffset(90), 400) == SyncedPlace(1, 90)
    assert known.translate_back(PART, TargetOffset(101), 400) == SyncedPlace(50, 101)
    assert known.translate_back(PART, TargetOffset(252), 400) == SyncedPlace(201, 201)


def test_a_task_that_copied_beside_the_next_task_moves_no_group() -> None:
    # The first task has copied up to 150. The second task began at 90 and ended, and the third began after the first.
    known = history((0, 0), (100, 100), (90, 151), (151, 152), (252, 253))
    assert known.translate(PART, SourceOffset(120), 300) == SyncedPlace(101, 152), "120 is at 120 only"
    assert known.translate(PART, SourceOffset(200), 300) == SyncedPlace(153, 253)


@pytest.mark.parametrize(
    ("offset", "least", "past"),
    [(0, 0, 0), (1, 1, 1), (99, 99, 99), (100, 130, 130), (101, 131, 131), (150, 131, 180), (230, 231, 260)],
)
def test_an_offset_in_the_copy_is_translated_back_to_the_last_sync(offset: int, least: int, past: int) -> None:
    known = history((0, 0), (99, 99), (130, 100), (230, 200))
    assert known.translate_back(PART, TargetOffset(offset), source_end=261) == SyncedPlace(least, past)


def test_very_many_syncs_keep_the_steps_back() -> None:
    known = PartitionSyncs()
    for source in range(0, 110, 10):
        known.add(source, source)
    for source in range(50, 160, 10):
        known.add(source, source + 51)
    known.add(160, 211)
    assert known.thin_out() == 10
    kept = known.written(1_000)
    assert {(0, 0), (100, 100), (50, 101), (160, 211)} < set(kept)
    assert known.places().to_target(95) == SyncedPlace(81, 151)


def test_another_record_at_the_same_place_is_of_another_log() -> None:
    known = history((5, 0), (6, 0), (7, 1))
    assert known.translate(PART, SourceOffset(5), 10) is None
    assert known.translate(PART, SourceOffset(6), 10) == SyncedPlace(0, 0)
    assert history((5, 0), (5, 0)).translate(PART, SourceOffset(5), 10) == SyncedPlace(0, 0)


def test_an_end_before_the_place_is_of_another_log() -> None:
    known = history((0, 0), (99, 99))
    assert known.translate(PART, SourceOffset(150), target_end=100) == SyncedPlace(100, 100)
    assert known.translate(PART, SourceOffset(150), target_end=99) is None
    assert known.translate_back(PART, TargetOffset(150), source_end=99) is None


def test_a_sync_of_a_record_that_came_meanwhile_keeps_the_history() -> None:
    class Reader:
        def read(self) -> Iterator[tuple[int, Written]]:
            ends[PART] = 250
            yield from ((0, Written(one.key, one.value)) for one in syncs)

    ends = {PART: 200}
    pairs = ((0, 0), (100, 100), (200, 200))
    syncs = [OffsetSync(PART.topic, 0, SourceOffset(source), TargetOffset(target)) for source, target in pairs]
    cluster = cast("ClusterAdmin", SimpleNamespace(client=None))
    flow = cast("FlowSettings", SimpleNamespace(offset_syncs_location="source", offset_syncs_topic="syncs"))
    reader = SyncHistoryReader(flow, cluster, cluster)
    vars(reader)["_reader"] = Reader()
    assert len(reader.read(ends.copy).anchors(PART)) == 3


def test_before_the_first_sync_nothing_is_known() -> None:
    assert history((10, 0)).translate(PART, SourceOffset(9), 100) is None
    assert SyncHistory({}).translate(PART, SourceOffset(9), 100) is None
    assert not SyncHistory({})
