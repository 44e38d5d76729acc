"""Copies that keep the offsets of their sources: their begin, their end after crashes, and what holds them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import DELETE_RECORDS, PRODUCE
from tests.unit.copier.copied import REMOTE, TOPIC, part, world
from tests.unit.copier.identical.identical_log import (
    SINGLY,
    VALUES,
    again,
    begun_at_31,
    lose_caught_up,
    same,
    transact,
    trim,
    visible,
)
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.batch import (
    ATTRIBUTES,
    BASE_TIMESTAMP,
    CRC,
    CRC_START,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP,
    checksum_of,
)
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.starts import StartSpec
from twinlog.model.types import SourceOffset


def test_a_whole_log_has_its_offsets() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        here.begin()
        here.until(lambda: same(here))
        here.pass_by(3)
        stored = here.stored()
        assert stored is not None
        assert (stored.next_source, stored.next_target, stored.kept_from) == (40, 40, 0)
        assert here.target.asked[DELETE_RECORDS] == 0
        assert here.held == []


def test_a_trimmed_log_begins_where_its_source_begins() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        trim(here, 31)
        copier = here.begin()
        here.until(lambda: same(here))
        assert (here.target.log(REMOTE).start, here.target.log(REMOTE).end) == (31, 40)
        here.feed(VALUES)
        here.until(lambda: same(here))
        assert copier.tally.batches < 30
        counts = copier.partitions[part()].take_counts()
        assert counts.records == 49


def test_a_begin_by_rule_takes_its_offset() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        here.begin(replace(here.grant(), begin=StartSpec(offset=SourceOffset(37))))
        here.until(lambda: here.target.log(REMOTE).end == 40)
        assert [record.offset for record in visible(here.target.log(REMOTE))] == [37, 38, 39]


def test_an_empty_source_begins_at_its_end() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        trim(here, 40)
        here.begin()
        here.until(lambda: here.target.log(REMOTE).start == 40)
        here.feed(VALUES[:3])
        here.until(lambda: same(here))


def test_without_any_stored_position_it_continues_at_the_end() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        copier = here.begin()
        here.until(lambda: same(here))
        here.crash(copier)
        here.feed(VALUES)
        here.begin(here.grant())
        here.until(lambda: same(here))
        assert here.held == []


def test_a_retention_gap_holds_it_and_deletes_nothing() -> None:
    with world(offsets="identical", gap_policy="skip") as here:
        here.feed(VALUES[:20])
        lose_caught_up(here)
        here.feed(VALUES[20:])
        trim(here, 30)
        here.begin(again(here))
        here.until(lambda: bool(here.held))
        (held,) = here.held
        assert (held.reason, held.message_id) == ("gap", "TW-GAP-01")
        assert "delete the remote topic" in held.way_out
        assert here.copied() == VALUES[:20]
        assert here.target.asked[DELETE_RECORDS] == 0


@pytest.mark.parametrize("producer", [{}, SINGLY], ids=["merged", "singly"])
def test_a_transaction_that_is_read_uncommitted_holds_it_at_its_first_record(producer: dict[str, int]) -> None:
    with world(offsets="identical", producer=producer) as here:
        here.feed(VALUES)
        transact(here)
        here.begin()
        here.until(lambda: bool(here.held))
        (held,) = here.held
        assert (held.reason, held.message_id, held.source_offset) == ("hole", "TW-IDENT-02", 40)
        assert "the record at source offset 40 is in a transaction" in held.text
        assert "isolation.level = read_committed" in held.way_out
        assert here.copied() == VALUES


def test_a_topic_that_may_not_delete_records_is_held() -> None:
    with world(offsets="identical") as here:
        here.target.topics.configs[REMOTE]["cleanup.policy"] = "compact"
        here.feed(VALUES)
        trim(here, 5)
        here.begin()
        here.until(lambda: bool(here.held))
        assert here.held[0].reason == "hole"
        assert "lacks delete" in here.held[0].text


def test_a_remote_topic_that_is_created_again_is_copied_again() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        trim(here, 3)
        lose_caught_up(here)
        trim(here, 8)
        here.target.topics.delete(REMOTE)
        here.target.create(REMOTE)
        here.begin(again(here))
        here.until(lambda: same(here))
        assert here.held == []


def test_records_that_the_target_lost_are_copied_again() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        trim(here, 2)
        lose_caught_up(here)
        here.target.log(REMOTE).cut(19)
        here.begin(again(here))
        here.until(lambda: same(here))
        assert here.held == []


def test_a_loss_while_it_copies_holds_it() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES[:20])
        here.begin()
        here.until(lambda: same(here))
        here.target.log(REMOTE).cut(15)
        here.feed(VALUES[20:])
        here.until(lambda: bool(here.held) or same(here))
        if here.held:
            assert here.held[0].reason == "diverged"


def test_translated_offsets_follow_after_a_hole() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        transact(here)
        here.feed(VALUES)
        copier = here.begin()
        here.until(lambda: bool(here.held))
        here.crash(copier)
        here.set_offsets("translated")
        here.begin(again(here))
        here.until(lambda: here.copied() == [*VALUES, b"in it", *VALUES])
        here.pass_by(3)
        stored = here.stored()
        assert stored is not None
        assert (stored.next_source, stored.next_target, stored.kept_from) == (82, 81, None)


def test_a_missing_right_to_delete_is_named() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        trim(here, 5)
        here.target.codes(DELETE_RECORDS, REMOTE, Code.TOPIC_AUTHORIZATION_FAILED)
        here.begin()
        here.until(lambda: bool(here.held))
        assert (here.held[0].reason, here.held[0].source_offset) == ("missing right", 5)
        assert "lacks DELETE on topic north.shop" in here.held[0].text


def test_records_that_the_source_deletes_during_the_fill_are_left_out() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        trim(here, 31)
        here.target.fault(PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER), times=10, topic=REMOTE)
        here.begin()
        here.pass_by(0.1)
        assert here.target.log(REMOTE).end == 0
        trim(here, 36)
        here.until(lambda: same(here) or bool(here.held))
        assert here.held == []
        here.pass_by(3)
        stored = here.stored()
        assert stored is not None
        assert stored.kept_from == 36


def test_later_fillers_are_deleted_after_a_crash() -> None:
    """The crash comes before the fillers of the records that the source deleted during the fill are deleted."""
    with world(offsets="identical") as here:
        here.feed(VALUES)
        trim(here, 31)
        here.target.fault(PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER), times=10, topic=REMOTE)
        here.target.fault(DELETE_RECORDS, Fault(lost=True), times=1_000)
        copier = here.begin()
        here.pass_by(0.1)
        trim(here, 36)
        here.until(lambda: here.target.log(REMOTE).end == 36)
        here.crash(copier)
        here.target.faults.clear()
        here.begin(again(here))
        here.until(lambda: same(here) or bool(here.held))
        assert here.held == []


@pytest.mark.parametrize("filled", [0, 16, 31])
def test_translated_offsets_follow_after_fillers(filled: int) -> None:
    with world(offsets="identical") as here:
        stored = begun_at_31(here)
        assert stored.writer is not None
        if filled:
            fillers = encode_batch([(0, record_body(b"twinlog.offset", b""))] * filled)
            stamp(fillers, stored.writer.producer_id, stored.writer.epoch, stored.writer.sequence)
            here.target.log(REMOTE).append(bytes(fillers))
        here.set_offsets("translated")
        here.begin(again(here))
        here.until(lambda: here.copied() == [b""] * filled + VALUES[31:] or bool(here.held))
        assert here.held == []


def test_copies_of_the_fillers_of_another_mirror_are_kept_without_a_position() -> None:
    """The source is a copy with identical offsets itself, and still has fillers, in a batch with records of users."""
    with world(offsets="identical") as here:
        filler = (0, record_body(b"twinlog.offset", b""))
        bodies = [filler, *((0, record_body(b"key", value)) for value in VALUES[:3])]
        data = encode_batch(bodies)
        stamp(data, 7, 0, 0)
        here.source.log(TOPIC).append(bytes(data))
        copier = here.begin()
        here.until(lambda: same(here))
        here.crash(copier)
        here.begin()
        here.feed(VALUES)
        here.until(lambda: same(here) or bool(here.held))
        assert (here.target.log(REMOTE).start, here.held) == (0, [])


def test_a_begin_that_the_source_deleted_is_left_out_after_fillers_without_a_position() -> None:
    with world(offsets="identical") as here:
        begun_at_31(here)
        here.target.log(REMOTE).append(bytes(encode_batch([(0, record_body(b"twinlog.offset", b""))] * 16)))
        here.begin(replace(here.grant(), begin=StartSpec(offset=SourceOffset(5))))
        here.until(lambda: same(here) or bool(here.held))
        assert here.held == []


def test_late_copies_that_the_source_deleted_are_its_own() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        here.begin()
        here.until(lambda: same(here))
        here.pass_by(3)
        position = here.stored()
        here.feed(VALUES[:9])
        here.until(lambda: same(here))
        here.crash(here.copiers[0])
        trim(here, 49)
        here.begin(here.grant(position=position))
        here.until(lambda: same(here))
        assert here.held == []


def test_fillers_have_the_time_at_which_the_source_appended() -> None:
    """A producer's time may be too old for the remote topic."""
    with world(offsets="identical") as here:
        data = bytearray(encode_batch([(0, record_body(None, b"1", ())), (0, record_body(None, b"2", ()))], 0))
        stamp(data, -1, -1, -1)
        data[BASE_TIMESTAMP] = (1_000).to_bytes(8)
        data[MAX_TIMESTAMP] = (1_700_000_000_000).to_bytes(8)
        data[ATTRIBUTES] = LOG_APPEND_TIME.to_bytes(2)
        data[CRC] = checksum_of(memoryview(data)[CRC_START:]).to_bytes(4)
        here.source.log(TOPIC).append(bytes(data))
        trim(here, 1)
        here.target.codes(DELETE_RECORDS, REMOTE, Code.TOPIC_AUTHORIZATION_FAILED)
        here.begin()
        here.until(lambda: bool(here.held))
        assert here.target.log(REMOTE).records()[0].timestamp == 1_700_000_000_000


def test_a_source_that_was_cut_back_holds_it() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        lose_caught_up(here)
        here.source.log(TOPIC).cut(30)
        here.begin(again(here))
        here.until(lambda: bool(here.held))
        assert (here.held[0].reason, here.held[0].message_id) == ("gap", "TW-GAP-02")
        assert here.copied() == VALUES


def test_a_source_topic_that_is_created_again_holds_it_until_its_copy_is() -> None:
    with world(offsets="identical") as here:
        here.feed(VALUES)
        lose_caught_up(here)
        here.source.topics.delete(TOPIC)
        here.source.create(TOPIC)
        here.feed(VALUES[30:])
        copier = here.begin(again(here))
        here.until(lambda: bool(here.held))
        assert (here.held[0].reason, here.held[0].message_id) == ("gap", "TW-GAP-03")
        here.crash(copier)
        here.held.clear()
        here.target.topics.delete(REMOTE)
        here.target.create(REMOTE)
        here.begin(again(here))
        here.until(lambda: same(here))
        assert here.held == []
