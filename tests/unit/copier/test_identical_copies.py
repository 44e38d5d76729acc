"""Copies that keep the offsets of their sources: their begin, their end after crashes, and what holds them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.log import VirtualLog
from harness.virtual.requests import DELETE_RECORDS, FETCH, PRODUCE, topics_of
from tests.unit.copier.copied import REMOTE, TOPIC, World, part, world
from tests.unit.copier.proof.test_foreign_between import write_in_transaction
from tests.unit.copier.test_identical_transactions import SourceProducer
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
from twinlog.kafka.record.records import Record
from twinlog.kafka.record.stamp import stamp
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.starts import StartSpec
from twinlog.model.types import SourceOffset, TargetOffset

VALUES = [b"%d" % number for number in range(40)]


def logs(here: World) -> tuple[VirtualLog, VirtualLog]:
    return here.source.log(TOPIC), here.target.log(REMOTE)


def visible(log: VirtualLog) -> list[Record]:
    return [record for record in log.records() if record.offset >= log.start]


def same(here: World) -> bool:
    """Whether both logs have the same records at the same offsets, and the same bounds."""
    source, target = logs(here)
    return (source.start, source.end, visible(source)) == (target.start, target.end, visible(target))


def again(here: World) -> Grant:
    return here.grant(position=here.stored())


def trim(here: World, offset: int) -> None:
    here.source.log(TOPIC).delete_before(offset)


def lose_caught_up(here: World) -> None:
    """A copier has copied everything and stored its position, and is lost."""
    copier = here.begin()
    here.until(lambda: same(here))
    here.pass_by(3)
    here.crash(copier)


def require_once_where_late(here: World, late: bytes) -> None:
    """An append of a dead copier comes between the look of the next copier and that copier's first append."""
    arrived: list[int] = []

    def arrive(key: int, request: Any) -> None:
        if key == PRODUCE and not arrived and REMOTE in topics_of(key, request):
            arrived.append(here.target.log(REMOTE).append(late)[0])

    here.target.carried_out = arrive
    here.begin(again(here))
    here.until(lambda: same(here))
    assert arrived == [0]
    assert here.held == []


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


SINGLY = {"merge_batch_bytes": 0, "max_in_flight": 1}
"""Settings of a producer that sends a batch of the source at a time, so that others wait."""


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


def transact(here: World) -> None:
    """A transaction with a record."""
    one = SourceProducer(here, 7)
    one.send(b"in it")
    one.end(commit=True)


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


def test_a_record_of_others_after_the_end_of_the_source_holds_it() -> None:
    """Nothing of the source is there to compare, and its next record comes before the first read."""
    with world(offsets="identical") as here:
        here.feed(VALUES)
        lose_caught_up(here)
        here.target.write(REMOTE, b"foreign")
        copier = here.open()
        here.source.fault(FETCH, Fault(delay_s=1.0), times=3)
        here.run(copier.copy_partitions, [again(here)])
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


FAULTS = (
    Fault(lost=True),
    Fault(lost=True, done=True),
    Fault(code=Code.NOT_LEADER_OR_FOLLOWER),
    Fault(code=Code.REQUEST_TIMED_OUT),
    Fault(delay_s=1.0),
)


REPEATED_EPOCH = 1543055029
"""A copier takes an epoch of its producer that an earlier copier has used for fillers."""


def test_crashes_and_faults_at_any_moment(chance: random.Random) -> None:
    crash_again_and_again(REPEATED_EPOCH)
    for _ in range(30):
        crash_again_and_again(chance.randrange(1 << 31))


def crash_again_and_again(seed: int) -> None:
    chance = random.Random(seed)
    with world(
        seed, offsets="identical", brokers=2, producer={"merge_batch_bytes": chance.choice([300, 524_288])}
    ) as here:
        for number in range(chance.randrange(1, 60)):
            here.write(*(b"%d.%d" % (number, at) for at in range(chance.choice([1, 1, 3, 20]))))
        if chance.random() < 0.7:
            trim(here, chance.randrange(here.source.log(TOPIC).end + 1))
        position: Position | None = None
        for _ in range(chance.randrange(1, 6)):
            for _ in range(chance.randrange(3)):
                key, topic = chance.choice([(PRODUCE, REMOTE), (DELETE_RECORDS, None)])
                here.target.fault(key, chance.choice(FAULTS), topic=topic)
            copier = here.begin(here.grant(position=position))
            here.pass_by(chance.choice([0.0, 0.005, 0.02, 0.3, 2.0]) * chance.random())
            here.write(*(b"later %d" % at for at in range(chance.choice([1, 3]))))
            here.pass_by(chance.choice([0.0, 0.005, 0.02, 0.3, 2.0]) * chance.random())
            here.crash(copier)
            position = here.stored() if chance.random() < 0.8 else position
            if chance.random() < 0.1:
                here.target.log(REMOTE).cut(
                    chance.randrange(here.target.log(REMOTE).start, here.target.log(REMOTE).end + 1)
                )
        here.target.faults.clear()
        here.begin(here.grant(position=here.stored()))
        here.until(lambda: same(here) or bool(here.held), 300)
        assert here.held == [], (seed, here.held, logs(here)[0].end, logs(here)[1].end)
        assert here.failures == []
        assert here.target.log(REMOTE).end == TargetOffset(here.source.log(TOPIC).end)


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("count", [1, 3, 20])
def test_a_late_append_of_a_dead_copier_is_there_once(merged: bool, count: int) -> None:
    """Its batch comes between the look of the next copier and that copier's first append."""
    with world(offsets="identical", producer={} if merged else {"merge_batch_bytes": 0}) as here:
        here.feed(VALUES[:20])
        lose_caught_up(here)
        stored = here.stored()
        assert stored is not None
        assert stored.writer is not None
        here.feed(VALUES[20:])
        late = encode_batch([(0, record_body(None, value, ())) for value in VALUES[20 : 20 + count]], 0)
        stamp(late, stored.writer.producer_id, stored.writer.epoch, stored.writer.sequence)
        require_once_where_late(here, bytes(late))


def begun_at_31(here: World) -> Position:
    """The position of a copier that ends before it fills the offsets up to 31."""
    here.feed(VALUES)
    trim(here, 31)
    here.target.fault(PRODUCE, Fault(lost=True), times=1_000, topic=REMOTE)
    here.crash(here.begin())
    here.target.faults.clear()
    stored = here.stored()
    assert stored is not None
    assert (stored.next_target, stored.kept_from, here.target.log(REMOTE).end) == (0, 31, 0)
    return stored


@pytest.mark.parametrize("count", [1, 5, 16, 31])
def test_late_fillers_of_a_dead_copier_are_there_once(count: int) -> None:
    with world(offsets="identical") as here:
        stored = begun_at_31(here)
        assert stored.writer is not None
        late = encode_batch([(0, record_body(b"twinlog.offset", b""))] * count)
        stamp(late, stored.writer.producer_id, stored.writer.epoch, stored.writer.sequence)
        require_once_where_late(here, bytes(late))


def test_records_of_others_before_the_first_copy_are_left_alone() -> None:
    with world(offsets="identical") as here:
        begun_at_31(here)
        here.target.write(REMOTE, b"foreign")
        here.begin(again(here))
        here.until(lambda: bool(here.held))
        assert here.held[0].reason == "diverged"
        assert here.copied() == [b"foreign"]
        assert here.target.asked[DELETE_RECORDS] == 0


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
