"""Records of other writers in a log with identical offsets: they hold the partition, and stay as they are."""

from __future__ import annotations

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import DELETE_RECORDS, FETCH
from tests.copier_reports import copy_partitions
from tests.unit.copier.copied import REMOTE, TOPIC, part, world
from tests.unit.copier.identical.identical_log import (
    SINGLY,
    VALUES,
    again,
    begun_at_31,
    lose_caught_up,
    same,
    trim,
)
from tests.unit.copier.proof.test_foreign_between import write_in_transaction
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset


@pytest.mark.parametrize("producer", [{}, SINGLY], ids=["merged", "singly"])
@pytest.mark.parametrize("stored", [True, False])
def test_another_writer_holds_it_for_good(stored: bool, producer: dict[str, int]) -> None:
    with world(offsets="identical", producer=producer) as here:
        here.feed(VALUES[:20])
        copier = here.begin()
        here.until(lambda: same(here))
        here.pass_by(3)
        here.target.write(REMOTE, b"foreign")
        here.feed(VALUES[20:])
        here.until(lambda: bool(here.held))
        (held,) = here.held
        assert (held.reason, held.message_id, held.source_offset) == ("diverged", "TW-IDENT-01", 20)
        assert "has diverged: the record at source offset 20 got offset 21 there" in held.text
        assert "delete it" in held.way_out
        end = here.target.log(REMOTE).end
        here.crash(copier)
        for _ in range(2):
            copier = here.begin(again(here) if stored else here.grant())
            here.pass_by(5)
            here.crash(copier)
        assert here.target.log(REMOTE).end == end
        assert [one.reason for one in here.held] == ["diverged"] * 3
        assert here.failures == []


def test_the_other_partitions_continue() -> None:
    with world(offsets="identical", partitions=2) as here:
        here.begin(here.grant(0), here.grant(1))
        here.write(b"a", number=0)
        here.write(b"b", number=1)
        here.until(lambda: here.copied(0) == [b"a"] and here.copied(1) == [b"b"])
        here.target.write(REMOTE, b"foreign", partition=0)
        here.write(b"c", number=0)
        here.write(b"d", number=1)
        here.until(lambda: here.copied(1) == [b"b", b"d"] and bool(here.held))
        assert [held.source for held in here.held] == [part(0)]


def test_a_topic_of_others_is_left_alone() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        trim(here, 30)
        here.target.write(REMOTE, *VALUES[:10])
        here.begin()
        here.until(lambda: bool(here.held))
        assert here.held[0].reason == "diverged"
        assert here.copied() == VALUES[:10]
        assert here.target.asked[DELETE_RECORDS] == 0


def test_a_record_of_others_after_the_end_of_the_source_holds_it() -> None:
    """Nothing of the source is there to compare, and its next record comes before the first read."""
    with world(offsets="identical") as here:
        here.feed(VALUES)
        lose_caught_up(here)
        here.target.write(REMOTE, b"foreign")
        copier = here.open()
        here.source.fault(FETCH, Fault(delay_s=1.0), times=3)
        here.run(copy_partitions, copier, [again(here)])
        here.feed(VALUES)
        here.until(lambda: here.target.log(REMOTE).end == here.source.log(TOPIC).end or bool(here.held))
        assert [(one.reason, one.source_offset) for one in here.held] == [("diverged", 40)]
        assert "at offset 40 it has a record, and shop-0 ends there" in here.held[0].text


def test_a_record_of_others_after_an_open_transaction_holds_it() -> None:
    """A lost copier left its transaction open; a committed reader sees no record after its begin."""
    with world(offsets="identical") as here:
        here.feed(VALUES)
        lose_caught_up(here)
        data = encode_batch([(0, record_body(None, b"aborted later", ()))], 0)
        stamp(data, 777, 0, 0, transactional=True)
        here.target.log(REMOTE).append(bytes(data))
        here.target.write(REMOTE, b"of the application")
        here.feed(VALUES[:2])
        trim(here, 42)
        here.begin(again(here))
        here.until(lambda: bool(here.held), 10)
        assert [(one.reason, one.source_offset) for one in here.held] == [("diverged", 40)]
        assert "at offset 41 it has a record of another producer" in here.held[0].text


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_record_of_others_that_the_source_can_no_longer_tell_holds_it(in_transaction: bool) -> None:
    """Applications wrote on both sides, and the source has deleted its own records."""
    with world(offsets="identical") as here:
        here.feed(VALUES)
        lose_caught_up(here)
        values = (b"of the application", b"also")
        if in_transaction:
            write_in_transaction(here.target.log(REMOTE), *values, commit=True)
        else:
            here.target.write(REMOTE, *values)
        here.feed([*VALUES[:2], b"in the place of a marker"][: 3 if in_transaction else 2])
        trim(here, here.target.log(REMOTE).end)
        here.begin(again(here))
        here.until(lambda: bool(here.held), 10)
        assert [(one.reason, one.source_offset) for one in here.held] == [("diverged", 40)]
        assert "at offset 40 it has a record of another producer" in here.held[0].text
        here.pass_by(20)
        assert here.copied()[-2:] == [b"of the application", b"also"]
        assert here.target.asked[DELETE_RECORDS] == 0


def test_equal_records_at_translated_offsets_hold_it() -> None:
    with world() as here:
        here.write(*[b"equal"] * 40)
        trim(here, 10)
        copier = here.begin()
        here.until(lambda: len(here.copied()) == 30)
        here.pass_by(3)
        here.crash(copier)
        here.set_offsets("identical")
        here.begin(again(here))
        here.until(lambda: bool(here.held), 10)
        assert here.held[0].reason == "diverged"
        assert "the copy of source offset 39 before offset 30" in here.held[0].text
        assert len(here.copied()) == 30


def test_equal_records_after_a_position_of_mirrormaker_hold_it() -> None:
    with world(offsets="identical") as here:
        here.write(*[b"equal"] * 40)
        trim(here, 10)
        here.target.write(REMOTE, *[b"equal"] * 30)
        here.begin(here.grant(position=Position(SourceOffset(40))))
        here.until(lambda: bool(here.held), 10)
        assert here.held[0].reason == "diverged"
        assert len(here.copied()) == 30


def test_records_of_others_before_the_first_copy_are_left_alone() -> None:
    with world(offsets="identical") as here:
        begun_at_31(here)
        here.target.write(REMOTE, b"foreign")
        here.begin(again(here))
        here.until(lambda: bool(here.held))
        assert here.held[0].reason == "diverged"
        assert here.copied() == [b"foreign"]
        assert here.target.asked[DELETE_RECORDS] == 0
