"""With kept offsets the appends have every offset of the source: steps fill the offsets that no batch can have."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.source_log import New, SourceLog
from tests.unit.batches.batches import BIG, ONE_BY_ONE, copied_keeping_offsets, rows
from twinlog.batches.holes import LARGEST_HOLE
from twinlog.batches.prepare import prepare
from twinlog.errors import CorruptBatchError, OffsetHoleError
from twinlog.kafka.producer.appends import CopyRules, SourceTransaction
from twinlog.model.types import SourceOffset

KEEPING = CopyRules(keep_offsets=True)
COMMITTED = replace(KEEPING, read_committed=True)


def test_small_batches_on_both_sides_of_a_hole_stay_apart() -> None:
    log = SourceLog()
    rows(log, 3)
    log.gap(2)
    rows(log, 3)
    prepared = prepare(log.fetch(), SourceOffset(0), KEEPING)
    assert [append.spans for append in prepared.appends] == [((0, 3),), ((3, 2),), ((5, 3),)]
    found = copied_keeping_offsets(log, 0, KEEPING)
    assert ([record.offset for record in found.records], found.markers) == ([0, 1, 2, 5, 6, 7], [3, 4])


@pytest.mark.parametrize("count", [5, 2_000])
@pytest.mark.parametrize("how", [KEEPING, KEEPING.joining(), KEEPING.merging_all()], ids=["plain", "joining", "far"])
def test_many_batches_are_merged_as_ever(count: int, how: CopyRules) -> None:
    log = SourceLog(7)
    rows(log, count, each=2)
    merged = prepare(log.fetch(), SourceOffset(7), replace(how, keep_offsets=False))
    kept = prepare(log.fetch(), SourceOffset(7), how)
    assert [bytes(append.data) for append in kept.appends] == [bytes(append.data) for append in merged.appends]
    assert kept.position == 7 + 2 * count


@pytest.mark.parametrize("how", [KEEPING, replace(KEEPING, merge_below=0)], ids=["merging", "one by one"])
def test_a_transaction_that_is_read_uncommitted_ends_it(how: CopyRules) -> None:
    log = SourceLog()
    rows(log, 2)
    log.batch([New(1, BIG)], producer_id=9, transactional=True)
    log.end_transaction(9, abort=False)
    found = copied_keeping_offsets(log, 0, how)
    assert ([record.offset for record in found.records], found.end) == ([0, 1], 2)
    assert "the record at source offset 2 is in a transaction" in found.why


@pytest.mark.parametrize("how", [COMMITTED, replace(COMMITTED, merge_below=0)], ids=["merging", "one by one"])
def test_a_committed_transaction_is_records_and_a_marker(how: CopyRules) -> None:
    log = SourceLog()
    rows(log, 2)
    log.batch([New(1, b"a"), New(2, b"b")], producer_id=9, transactional=True)
    log.batch([New(3, b"c")], producer_id=9, transactional=True)
    log.end_transaction(9, abort=False)
    rows(log, 1)
    found = copied_keeping_offsets(log, 0, how)
    assert (found.end, found.why) == (7, "")
    assert found.records == log.visible()
    assert (found.markers, found.aborted, found.aborts) == ([5], [], [])


def test_records_of_a_committed_transaction_are_merged() -> None:
    log = SourceLog()
    for number in range(5):
        log.batch([New(number)], producer_id=9, transactional=True)
    log.end_transaction(9, abort=False)
    prepared = prepare(log.fetch(), SourceOffset(0), COMMITTED, [])
    assert [append.spans for append in prepared.appends] == [((0, 5),), ((5, 1),)]


def test_overlapping_transactions_keep_their_ends() -> None:
    log = SourceLog()
    log.batch([New(1, b"a0")], producer_id=8, transactional=True)
    log.batch([New(1, b"b1")], producer_id=9, transactional=True)
    log.batch([New(1, b"a2")], producer_id=8, transactional=True)
    log.end_transaction(8, abort=True)
    log.batch([New(1, b"b4")], producer_id=9, transactional=True)
    log.end_transaction(9, abort=True)
    log.batch([New(1, b"a6")], producer_id=8, transactional=True)
    log.end_transaction(8, abort=False)
    found = copied_keeping_offsets(log, 0, COMMITTED)
    first, second = SourceTransaction(8, SourceOffset(0)), SourceTransaction(9, SourceOffset(1))
    assert [(which, record.offset) for which, record in found.aborted] == [
        (first, 0),
        (second, 1),
        (first, 2),
        (second, 4),
    ]
    assert found.aborts == [(first, 3), (second, 5)]
    assert [record.value for record in found.records] == [b"a6"]
    assert found.markers == [7]
    # In the middle of both transactions, the same steps follow.
    later = copied_keeping_offsets(log, 2, COMMITTED)
    assert (later.aborted, later.aborts) == (found.aborted[2:], found.aborts)


def test_markers_of_transactions_without_records_are_joined() -> None:
    log = SourceLog()
    rows(log, 1)
    log.end_transaction(9, abort=True)
    log.end_transaction(9, abort=False)
    prepared = prepare(log.fetch(), SourceOffset(0), KEEPING)
    assert [append.spans for append in prepared.appends] == [((0, 1),), ((1, 2),)]


def test_a_batch_with_holes_is_cut() -> None:
    log = SourceLog()
    rows(log, 2)
    log.batch([New(1), New(2), New(3)], deltas=[1, 2, 5], last_delta=6)
    found = copied_keeping_offsets(log, 0, KEEPING)
    assert ([record.offset for record in found.records], found.markers) == ([0, 1, 3, 4, 7], [2, 5, 6, 8])
    assert found.records == log.visible()


@pytest.mark.parametrize("more", [0, 1])
def test_a_hole_may_be_too_large(more: int) -> None:
    log = SourceLog()
    rows(log, 1)
    log.gap(LARGEST_HOLE + more)
    rows(log, 1)
    found = copied_keeping_offsets(log, 0, KEEPING)
    assert bool(found.why) == bool(more)
    assert found.end == (1 if more else LARGEST_HOLE + 2)
    if more:
        assert re.match(f"source offsets 1 to {LARGEST_HOLE + 1} have no record", found.why)


def test_a_batch_begins_in_the_middle_of_a_source_batch() -> None:
    log = SourceLog()
    log.batch([New(number) for number in range(10)])
    log.end_transaction(9, abort=False)
    found = copied_keeping_offsets(log, 4, replace(ONE_BY_ONE, keep_offsets=True))
    assert [record.offset for record in found.records] == [4, 5, 6, 7, 8, 9]
    assert (found.markers, found.end, found.why) == ([10], 11, "")


def test_a_batch_that_overlaps_the_one_before_it_leaves_nothing() -> None:
    log = SourceLog()
    log.end_transaction(9, abort=False)
    rows(log, 2)
    log.next_offset -= 1
    rows(log, 1)
    with pytest.raises(CorruptBatchError, match="the batch before it ends at source offset 2"):
        prepare(log.fetch(), SourceOffset(0), KEEPING)


def test_a_damaged_batch_after_a_hole_comes_with_the_next_call() -> None:
    log = SourceLog()
    log.end_transaction(9, abort=False)
    rows(log, 1)
    rows(log, 1, value=BIG)
    log.data[-1] ^= 1
    prepared = prepare(log.fetch(), SourceOffset(0), KEEPING)
    assert prepared.position == 2
    with pytest.raises(CorruptBatchError):
        prepare(log.fetch(2), SourceOffset(2), KEEPING)


def test_the_error_of_a_transaction_names_the_setting() -> None:
    log = SourceLog()
    log.batch([New(1)], producer_id=9, transactional=True)
    with pytest.raises(OffsetHoleError) as caught:
        prepare(log.fetch(), SourceOffset(0), KEEPING)
    assert "isolation.level = read_committed" in caught.value.way_out
