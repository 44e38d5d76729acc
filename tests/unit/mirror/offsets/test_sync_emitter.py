"""Offset syncs are emitted by MirrorMaker 2's rule, and never starve."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.mirror.offsets.sync_store import MirrorTranslation
from twinlog.mirror.offsets.syncs import MAX_PENDING, OffsetSync, SyncEmitter
from twinlog.model.types import TopicName, TopicPartition

RECORDED = Path(__file__).parents[3] / "recorded" / "translations.jsonl"
RULES = [row for row in map(json.loads, RECORDED.read_text("utf-8").splitlines()) if row["kind"] == "rule"]
PART = TopicPartition(TopicName("orders"), 3)
OTHER = TopicPartition(TopicName("orders"), 4)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def pairs(syncs: list[OffsetSync]) -> list[tuple[int, int]]:
    return [(sync.upstream, sync.downstream) for sync in syncs]


@pytest.mark.parametrize("row", RULES, ids=lambda row: f"lag-{row['offset_lag_max']}")
def test_without_source_holes_it_emits_what_kafka_emits(row: dict[str, Any]) -> None:
    emitter = SyncEmitter(row["offset_lag_max"], VirtualClock().monotonic, delay_s=1e9)
    found = []
    for upstream, downstream in row["records"]:
        emitter.acknowledged(PART, [(upstream, 1)], downstream)
        found += [list(pair) for pair in pairs(emitter.take_syncs())]
    assert found == row["synced"]
    assert len(found) >= 5


def test_one_append_emits_its_first_record_and_doubling_distances_from_its_last() -> None:
    emitter = SyncEmitter(9, VirtualClock().monotonic)
    emitter.acknowledged(PART, [(1000, 100)], 500)
    expected = [500, 519, 559, 579, 589, 599]
    assert pairs(emitter.take_syncs()) == [(down + 500, down) for down in expected]


def test_an_append_is_synced_at_the_offsets_its_records_had() -> None:
    emitter = SyncEmitter(0, VirtualClock().monotonic)
    emitter.acknowledged(PART, [(10, 2), (20, 1), (30, 3)], 7)
    assert pairs(emitter.take_syncs()) == [(10, 7), (11, 8), (30, 10), (31, 11), (32, 12)]


def test_nothing_is_due_before_the_lag_is_reached() -> None:
    emitter = SyncEmitter(100, VirtualClock().monotonic)
    emitter.acknowledged(PART, [(0, 1)], 0)
    assert pairs(emitter.take_syncs()) == [(0, 0)]
    emitter.acknowledged(PART, [(1, 100)], 1)
    assert emitter.take_syncs() == []
    emitter.acknowledged(PART, [(101, 1)], 101)
    assert pairs(emitter.take_syncs()) == [(101, 101)]


def test_holes_cost_no_sync() -> None:
    emitter = SyncEmitter(100, VirtualClock().monotonic)
    for number in range(50):
        emitter.acknowledged(PART, [(number * 2, 1)], number)
    assert pairs(emitter.take_syncs()) == [(0, 0)]


@pytest.mark.parametrize(("upstream", "downstream"), [(4, 20), (20, 4)])
def test_what_went_back_is_synced_from_its_first_record_on(upstream: int, downstream: int) -> None:
    emitter = SyncEmitter(100, VirtualClock().monotonic)
    emitter.acknowledged(PART, [(10, 5)], 10)
    emitter.take_syncs()
    emitter.acknowledged(PART, [(upstream, 3)], downstream)
    assert pairs(emitter.take_syncs()) == [(upstream, downstream), (upstream + 2, downstream + 2)]


def test_an_idle_partition_gets_a_sync_for_its_last_record(clock: VirtualClock) -> None:
    emitter = SyncEmitter(100, clock.monotonic, delay_s=5)
    emitter.acknowledged(PART, [(0, 10)], 0)
    emitter.take_syncs()
    emitter.acknowledged(PART, [(10, 3)], 10)
    clock.now += 3
    emitter.acknowledged(PART, [(13, 1)], 13)
    assert emitter.take_syncs() == []
    clock.now += 2
    # Five seconds after the first record that was held back: a trickle must not put it off.
    assert pairs(emitter.take_syncs()) == [(13, 13)]
    clock.now += 60
    assert emitter.take_syncs() == []


def test_what_was_held_back_is_not_written_after_something_newer(clock: VirtualClock) -> None:
    emitter = SyncEmitter(10, clock.monotonic, delay_s=5)
    for first, count in ((0, 1), (1, 5), (6, 20)):
        emitter.acknowledged(PART, [(first, count)], first)
    taken = pairs(emitter.take_syncs())
    assert taken == sorted(taken)
    assert taken[-1] == (25, 25)
    clock.now += 60
    assert emitter.take_syncs() == []


def test_what_waits_is_dropped_when_its_offsets_went_back() -> None:
    emitter = SyncEmitter(0, VirtualClock().monotonic)
    emitter.acknowledged(PART, [(10, 5)], 10)
    emitter.acknowledged(PART, [(4, 1)], 15)
    assert pairs(emitter.take_syncs()) == [(4, 15)]


def test_a_late_sync_counts_for_the_lag(clock: VirtualClock) -> None:
    emitter = SyncEmitter(10, clock.monotonic, delay_s=5)
    emitter.acknowledged(PART, [(0, 8)], 0)
    emitter.take_syncs()
    emitter.acknowledged(PART, [(8, 5)], 8)
    clock.now += 5
    assert pairs(emitter.take_syncs()) == [(12, 12)]
    emitter.acknowledged(PART, [(13, 10)], 13)
    assert emitter.take_syncs() == []
    emitter.acknowledged(PART, [(23, 1)], 23)
    assert pairs(emitter.take_syncs()) == [(23, 23)]


def test_all_is_taken_at_the_end() -> None:
    emitter = SyncEmitter(100, VirtualClock().monotonic)
    for part in (PART, OTHER):
        emitter.acknowledged(part, [(0, 1)], 0)
        emitter.acknowledged(part, [(1, 4)], 1)
    assert sorted(pairs(emitter.take_syncs())) == [(0, 0), (0, 0)]
    assert sorted((sync.partition, sync.upstream) for sync in emitter.take_syncs(all_of_them=True)) == [(3, 4), (4, 4)]


def test_a_released_partition_begins_anew() -> None:
    emitter = SyncEmitter(100, VirtualClock().monotonic)
    emitter.acknowledged(PART, [(0, 1)], 0)
    emitter.take_syncs()
    emitter.acknowledged(PART, [(1, 4)], 1)
    emitter.release_partition(PART)
    assert pairs(emitter.take_syncs()) == [(4, 4)]
    emitter.acknowledged(PART, [(5, 1)], 5)
    assert pairs(emitter.take_syncs()) == [(5, 5)]


def test_syncs_not_stored_come_again_in_order() -> None:
    emitter = SyncEmitter(0, VirtualClock().monotonic)
    emitter.acknowledged(PART, [(0, 2)], 0)
    taken = emitter.take_syncs()
    emitter.acknowledged(PART, [(2, 2)], 2)
    emitter.not_stored(taken)
    assert pairs(emitter.take_syncs()) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_of_syncs_that_may_be_stored_only_the_newest_comes_again() -> None:
    emitter = SyncEmitter(0, VirtualClock().monotonic)
    emitter.acknowledged(PART, [(0, 3)], 0)
    emitter.acknowledged(OTHER, [(7, 2)], 0)
    taken = emitter.take_syncs()
    emitter.acknowledged(PART, [(3, 1)], 3)
    emitter.unanswered(taken)
    again = emitter.take_syncs()
    assert pairs([sync for sync in again if sync.source == PART]) == [(2, 2), (3, 3)]
    assert pairs([sync for sync in again if sync.source == OTHER]) == [(8, 1)]
    # A reader that has them all keeps its history.
    reader = MirrorTranslation()
    for sync in taken + again:
        reader.add(sync)
    reader.ready()
    assert reader.translate(PART, 0) == 0


def test_what_waits_for_an_unreachable_cluster_stays_small_and_keeps_both_ends() -> None:
    emitter = SyncEmitter(0, VirtualClock().monotonic)
    for number in range(5000):
        emitter.acknowledged(PART, [(number, 1)], number)
    waiting = pairs(emitter.take_syncs())
    assert len(waiting) <= MAX_PENDING
    assert waiting[0] == (0, 0)
    assert waiting[-1] == (4999, 4999)
    assert waiting == sorted(waiting)
    # In between as near to the end as a reader would remember.
    assert all(there - here <= max(1, 4999 - there) for (here, _), (there, _) in pairwise(waiting))
