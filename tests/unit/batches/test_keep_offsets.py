"""With kept offsets the appends have every offset of the source, up to the first one that no copy can have."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.source_log import New, SourceLog
from tests.unit.batches.batches import BIG, ONE_BY_ONE, copied_keeping_offsets, rows
from twinlog.batches.prepare import prepare
from twinlog.kafka.producer.appends import CopyRules
from twinlog.model.types import SourceOffset

KEEPING = CopyRules(keep_offsets=True)


def test_small_batches_on_both_sides_of_a_hole_stay_apart() -> None:
    log = SourceLog()
    rows(log, 3)
    log.gap(1)
    rows(log, 3)
    records, end, why = copied_keeping_offsets(log, 0, KEEPING)
    assert ([record.offset for record in records], end) == ([0, 1, 2], 3)
    assert "source offset 3 has no record" in why


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
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_ends_it(how: CopyRules, committed: bool) -> None:
    log = SourceLog()
    rows(log, 2)
    log.batch([New(1, BIG)], producer_id=9, transactional=True)
    log.end_transaction(9, abort=False)
    records, end, why = copied_keeping_offsets(log, 0, replace(how, read_committed=committed))
    assert ([record.offset for record in records], end) == ([0, 1], 2)
    assert "the record at source offset 2 is in a transaction" in why


def test_a_marker_alone_ends_it() -> None:
    log = SourceLog()
    rows(log, 1)
    log.end_transaction(9, abort=True)
    assert re.match("source offset 1 is the marker of a transaction", copied_keeping_offsets(log, 0, KEEPING)[2])


def test_a_batch_with_holes_is_left_whole() -> None:
    log = SourceLog()
    rows(log, 2)
    log.batch([New(1), New(2)], deltas=[0, 2])
    records, end, why = copied_keeping_offsets(log, 0, KEEPING)
    assert (len(records), end) == (2, 2)
    assert "source offset 3 has no record" in why


def test_a_batch_begins_in_the_middle_of_a_source_batch() -> None:
    log = SourceLog()
    log.batch([New(number) for number in range(10)])
    records, end, why = copied_keeping_offsets(log, 4, replace(ONE_BY_ONE, keep_offsets=True))
    assert ([record.offset for record in records], end, why) == ([4, 5, 6, 7, 8, 9], 10, "")
