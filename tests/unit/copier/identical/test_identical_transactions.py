"""Copies that keep their offsets of topics with transactions and compaction: markers, aborted records, crashes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.log import VirtualLog
from harness.virtual.requests import (
    ADD_PARTITIONS,
    DELETE_RECORDS,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    WRITE_TXN_MARKERS,
)
from tests.unit.copier.copied import REMOTE, TOPIC, World, part, world
from twinlog.kafka.producer.marker_writer import MOST_MARKERS
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.records import Record
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.positions import Position

COMMITTED = {"isolation_level": "read_committed"}


@contextmanager
def transactional_world(seed: int = 1, **how: Any) -> Iterator[World]:
    with world(seed, offsets="identical", consumer=COMMITTED, **how) as here:
        here.target.hidden.clear()
        yield here


class SourceProducer:
    """A transactional producer of the source topic."""

    def __init__(self, here: World, number: int) -> None:
        self.id = number
        self._log = here.source.log(TOPIC)
        self._news = here.source.news
        self._sequence = 0
        self.open = False

    def send(self, *values: bytes) -> None:
        data = encode_batch([(0, record_body(None, value, ())) for value in values], 0)
        stamp(data, self.id, 0, self._sequence, transactional=True)
        self._sequence += len(values)
        assert self._log.append(bytes(data))[0] == Code.NONE
        self.open = True

    def end(self, *, commit: bool) -> None:
        self._log.mark(self.id, 0, commit=commit)
        self.open = False
        self._news()


def seen(log: VirtualLog, *, committed: bool) -> list[Record]:
    return [record for record in log.records(committed=committed) if record.offset >= log.start]


def same(here: World) -> bool:
    """Whether consumers of both isolation levels see the same of both logs, which have the same bounds."""
    source, target = here.source.log(TOPIC), here.target.log(REMOTE)
    return (source.start, source.end, target.stable_end) == (target.start, target.end, source.stable_end) and all(
        seen(source, committed=committed) == seen(target, committed=committed) for committed in (False, True)
    )


def require_same(here: World, within_s: float = 60.0) -> None:
    here.until(lambda: same(here) or bool(here.held), within_s)
    assert here.held == []
    assert here.failures == []


def crash_after_begun_transaction(here: World, copier: Any) -> None:
    """Lose a copier once a transaction on the target has begun, free of faults from then on; begin the next copier."""
    here.until(lambda: any(known.parts for known in here.target.transactions.open.values()))
    here.pass_by(0.1)
    here.crash(copier)
    here.target.faults.clear()
    here.begin(here.grant(position=here.stored()))


def test_committed_transactions() -> None:
    with transactional_world() as here:
        here.write(b"before")
        one = SourceProducer(here, 7)
        for number in range(5):
            one.send(b"%d" % number, b"more")
            one.end(commit=True)
        here.write(b"after")
        copier = here.begin()
        require_same(here)
        assert copier.partitions[part()].take_counts().records == 12
        here.pass_by(3)
        stored = here.stored()
        assert stored is not None
        assert (stored.next_source, stored.next_target) == (17, 17)
        # A transaction at the end of the log is copied at once, too.
        one.send(b"last")
        one.end(commit=True)
        require_same(here)
        assert here.target.log(REMOTE).end == 19


def test_aborted_transactions_that_overlap() -> None:
    with transactional_world() as here:
        one, two = SourceProducer(here, 7), SourceProducer(here, 8)
        here.write(b"0")
        one.send(b"1")
        two.send(b"2", b"3")
        here.write(b"4")
        one.send(b"5")
        one.end(commit=False)
        two.send(b"7")
        one.send(b"8")
        two.end(commit=False)
        one.end(commit=True)
        two.send(b"11")
        two.end(commit=False)
        here.write(b"13")
        here.begin()
        require_same(here)
        log = here.target.log(REMOTE)
        assert log.values(committed=True) == [b"0", b"4", b"8", b"13"]
        assert len(log.values()) == 10
        assert here.target.asked[END_TXN] == 3


def test_aborted_transactions_in_a_row_have_one_producer() -> None:
    """The target gives a producer out once; its epoch stays, and its sequence numbers continue (KIP-98)."""
    with transactional_world() as here:
        one = SourceProducer(here, 7)
        for number in range(30):
            one.send(b"%d" % number, b"more")
            one.end(commit=False)
        here.begin()
        require_same(here)
        assert here.target.asked[END_TXN] == 30
        (known,) = here.target.transactions.open.values()
        assert known.epoch == 0
        # Plain records have a producer of their own.
        assert here.target.asked[INIT_PRODUCER_ID] == 2


def test_a_request_in_doubt_gets_the_next_transaction_a_new_epoch() -> None:
    """The request may arrive later, and would end the next transaction of the same epoch."""
    with transactional_world() as here:
        one = SourceProducer(here, 7)
        here.target.fault(END_TXN, Fault(lost=True, done=True))
        for number in range(3):
            one.send(b"%d" % number)
            one.end(commit=False)
        here.begin()
        require_same(here)
        (known,) = here.target.transactions.open.values()
        assert known.epoch == 1


@pytest.mark.parametrize("number", [1, 4])
def test_the_next_copier_uses_a_begun_transaction_of_a_used_producer(number: int) -> None:
    """Its sequence numbers continue after those of the transactions that its epoch has ended."""
    with transactional_world() as here:
        one = SourceProducer(here, 7)
        for _ in range(number):
            one.send(b"first", b"more")
            one.end(commit=False)
        copier = here.begin()
        require_same(here)
        one.send(b"second")
        here.target.fault(ADD_PARTITIONS, Fault(lost=True, done=True), times=1_000)
        one.end(commit=False)
        crash_after_begun_transaction(here, copier)
        require_same(here)
        assert [known.epoch for known in here.target.transactions.open.values()] == [0]


def test_a_producer_whose_records_the_target_has_deleted_begins_at_0() -> None:
    """A leader that has read its log again knows the producer by its marker alone (Kafka class ProducerAppendInfo)."""
    with transactional_world() as here:
        one = SourceProducer(here, 7)
        one.send(b"first")
        one.end(commit=False)
        here.begin()
        require_same(here)
        for log in (here.source.log(TOPIC), here.target.log(REMOTE)):
            log.delete_before(1)
        here.target.log(REMOTE).cut(2)
        one.send(b"second")
        one.end(commit=False)
        require_same(here)


def test_offsets_that_compaction_removed() -> None:
    with transactional_world() as here:
        for number in range(60):
            here.write(b"%d" % number)
        here.source.log(TOPIC).compact({0, 1, 7, 20, 21, 22, 58})
        here.begin()
        require_same(here)
        assert here.target.log(REMOTE).end == 60


def test_a_hole_of_many_offsets_takes_several_requests() -> None:
    with transactional_world() as here:
        for number in range(MOST_MARKERS * 2 + 500):
            here.write(b"%d" % number)
        here.source.log(TOPIC).compact(set(range(100, MOST_MARKERS * 2 + 400)))
        here.begin()
        require_same(here)
        assert here.target.asked[WRITE_TXN_MARKERS] == 3


def test_markers_of_many_partitions_share_requests() -> None:
    with transactional_world(partitions=20) as here:
        for number in range(20):
            log = here.source.log(TOPIC, number)
            for _ in range(10):
                here.write(b"a", number=number)
                log.mark(7, 0, commit=True)
        here.begin(*(here.grant(number) for number in range(20)))
        here.until(lambda: all(here.target.log(REMOTE, number).end == 20 for number in range(20)))
        assert here.held == []
        assert here.target.asked[WRITE_TXN_MARKERS] <= 60


def test_without_the_right_for_markers_the_partition_is_held() -> None:
    with transactional_world(partitions=2) as here:
        here.write(b"a", number=0)
        here.source.log(TOPIC).mark(7, 0, commit=True)
        here.target.codes(WRITE_TXN_MARKERS, REMOTE, Code.CLUSTER_AUTHORIZATION_FAILED)
        here.begin(here.grant(0), here.grant(1))
        here.until(lambda: bool(here.held))
        (held,) = here.held
        assert (held.reason, held.message_id, held.source_offset) == ("missing right", "TW-RIGHT-01", 1)
        assert "lacks ALTER on the cluster" in held.text
        assert held.way_out.startswith("grant it, or set twinlog.offsets = translated")
        here.write(b"b", number=1)
        here.until(lambda: here.copied(1) == [b"b"])
        assert here.failures == []


def test_brokers_without_the_request_hold_the_partition() -> None:
    with transactional_world() as here:
        here.target.hidden.add(WRITE_TXN_MARKERS)
        here.write(b"a")
        here.source.log(TOPIC).mark(7, 0, commit=True)
        here.begin()
        here.until(lambda: bool(here.held))
        assert (here.held[0].reason, here.held[0].message_id) == ("missing right", "TW-BROKER-04")
        assert "its brokers refuse markers of clients" in here.held[0].text
        assert here.held[0].way_out == "set twinlog.offsets = translated for the topic"
        assert here.copied() == [b"a"]
        assert here.failures == []


def test_brokers_that_refuse_long_transactions_hold_the_partition_alone() -> None:
    with transactional_world(partitions=2) as here:
        here.target.transactions.longest_ms = 10_000
        here.write(b"a", number=0)
        one = SourceProducer(here, 7)
        one.send(b"aborted")
        one.end(commit=False)
        here.write(b"b", number=1)
        here.begin(here.grant(0), here.grant(1))
        here.until(lambda: bool(here.held))
        (held,) = here.held
        assert (held.reason, held.message_id, held.source_offset) == ("missing right", "TW-TARGET-10", 1)
        assert "it refuses transactions of 60000 ms" in held.text
        assert held.way_out.startswith("lower transaction.timeout.ms of its producer, or raise transaction.max.timeout")
        here.write(b"c", number=1)
        here.until(lambda: here.copied(1) == [b"b", b"c"])
        assert here.copied(0) == [b"a"]
        assert here.failures == []


def test_a_shorter_limit_of_the_brokers_is_enough() -> None:
    with transactional_world() as here:
        here.target.transactions.longest_ms = 60_000
        one = SourceProducer(here, 7)
        one.send(b"aborted")
        one.end(commit=False)
        here.begin()
        require_same(here)


IN_DOUBT = (
    Fault(lost=True),
    Fault(lost=True, done=True),
    Fault(code=Code.NOT_LEADER_OR_FOLLOWER),
    Fault(code=Code.REQUEST_TIMED_OUT),
)


@pytest.mark.parametrize("fault", IN_DOUBT, ids=["lost", "done", "moved", "late"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_marker_without_an_answer_is_there_once(fault: Fault, times: int) -> None:
    with transactional_world() as here:
        for _ in range(5):
            here.write(b"a")
            here.source.log(TOPIC).mark(7, 0, commit=True)
        here.target.fault(WRITE_TXN_MARKERS, fault, times=times)
        here.begin()
        require_same(here)


def test_some_markers_of_a_hole_are_missing() -> None:
    with transactional_world() as here:
        for number in range(30):
            here.write(b"%d" % number)
        here.source.log(TOPIC).compact(set(range(10, 20)))
        codes = [0, 0, 0, Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_LEADER_OR_FOLLOWER, 0, 0, 0, 0, 0]
        here.target.codes(WRITE_TXN_MARKERS, REMOTE, *codes)
        here.begin()
        require_same(here)


def test_a_marker_too_many_holds_the_partition() -> None:
    with transactional_world() as here:
        here.write(b"a")
        here.source.log(TOPIC).mark(7, 0, commit=True)
        copier = here.begin()
        require_same(here)
        here.target.log(REMOTE).mark(9, 0, commit=True)
        here.write(b"b")
        here.until(lambda: bool(here.held))
        assert (here.held[0].reason, here.held[0].source_offset) == ("diverged", 2)
        here.crash(copier)
        here.held.clear()
        # The next copier finds a marker in the place of the record.
        here.begin(here.grant(position=here.stored()))
        here.until(lambda: bool(here.held))
        assert here.held[0].reason == "diverged"
        assert "at offset 2 it has a marker" in here.held[0].text


def test_records_of_others_while_a_hole_is_filled_hold_the_partition() -> None:
    with transactional_world() as here:
        for number in range(30):
            here.write(b"%d" % number)
        here.source.log(TOPIC).compact(set(range(10, 20)))
        foreign: list[int] = []

        def interfere(key: int, request: Any) -> None:
            if key == WRITE_TXN_MARKERS and not foreign:
                foreign.append(1)
                here.target.write(REMOTE, b"foreign")

        here.target.carried_out = interfere
        here.begin()
        here.until(lambda: bool(here.held))
        assert (here.held[0].reason, here.held[0].source_offset) == ("diverged", 10)
        assert "it ends at offset 21 while the offsets from 10 to 19 are written" in here.held[0].text


def test_the_next_copier_continues_an_open_transaction() -> None:
    with transactional_world() as here:
        one = SourceProducer(here, 7)
        for number in range(4):
            one.send(b"%d" % number)
            here.write(b"between")
        one.end(commit=False)
        here.target.fault(END_TXN, Fault(lost=True), times=1_000)
        copier = here.begin()
        here.until(lambda: here.target.log(REMOTE).end == 8)
        here.pass_by(3)
        here.crash(copier)
        here.target.faults.clear()
        assert here.target.log(REMOTE).open
        begun = here.target.asked[ADD_PARTITIONS]
        here.begin(here.grant(position=here.stored()))
        require_same(here)
        assert here.target.asked[ADD_PARTITIONS] == begun
        assert len(here.target.transactions.open) == 1


def test_a_transaction_that_has_begun_without_records_is_used() -> None:
    """A new producer would abort it, and its marker would take an offset."""
    with transactional_world() as here:
        one = SourceProducer(here, 7)
        here.write(b"before")
        one.send(b"1")
        one.end(commit=False)
        here.target.fault(ADD_PARTITIONS, Fault(lost=True, done=True), times=1_000)
        copier = here.begin()
        crash_after_begun_transaction(here, copier)
        require_same(here)


def test_a_begin_in_the_middle_of_an_aborted_transaction() -> None:
    with transactional_world() as here:
        one = SourceProducer(here, 7)
        for number in range(6):
            one.send(b"%d" % number)
        one.end(commit=False)
        here.write(b"after")
        here.source.log(TOPIC).delete_before(3)
        here.begin()
        require_same(here)


def test_a_begin_after_all_records_of_an_aborted_transaction() -> None:
    with transactional_world() as here:
        one = SourceProducer(here, 7)
        one.send(b"0")
        here.write(b"1")
        one.end(commit=False)
        here.source.log(TOPIC).delete_before(1)
        here.begin()
        require_same(here)
        assert here.target.asked[END_TXN] == 0


@pytest.mark.parametrize("first", [0, 1], ids=["record and marker", "marker alone"])
def test_without_a_stored_position_it_continues_after_a_marker(first: int) -> None:
    with transactional_world() as here:
        here.write(b"a")
        here.source.log(TOPIC).mark(7, 0, commit=True)
        here.source.log(TOPIC).delete_before(first)
        copier = here.begin()
        require_same(here)
        here.crash(copier)
        here.write(b"b")
        here.begin(here.grant())
        require_same(here)


def test_crashes_and_faults_at_any_moment(chance: random.Random) -> None:
    for _ in range(40):
        crash_again_and_again(chance.randrange(1 << 31))


def draw_traffic(here: World, chance: random.Random, producers: list[SourceProducer], steps: int) -> None:
    for number in range(steps):
        one = chance.choice(producers)
        drawn = chance.random()
        if drawn < 0.35:
            here.write(*(b"plain %d.%d" % (number, at) for at in range(chance.choice([1, 1, 3]))))
        elif drawn < 0.7:
            one.send(*(b"%d in %d" % (number, at) for at in range(chance.choice([1, 2, 5]))))
        elif one.open or drawn < 0.75:
            one.end(commit=chance.random() < 0.5)


def crash_again_and_again(seed: int) -> None:
    chance = random.Random(seed)
    producer = {"merge_batch_bytes": chance.choice([0, 300, 524_288])}
    with transactional_world(seed, brokers=2, producer=producer) as here:
        producers = [SourceProducer(here, number) for number in (7, 8, 9)]
        log = here.source.log(TOPIC)
        if chance.random() < 0.1:
            # The head takes several batches of fillers.
            log.start = chance.randrange(1 << chance.randrange(19))
        draw_traffic(here, chance, producers, chance.randrange(1, 40))
        if chance.random() < 0.4:
            log.delete_before(chance.randrange(log.start, log.end + 1))
        elif log.batches and chance.random() < 0.5:
            plain = [batch.base_offset for batch, _ in log.batches if not batch.is_transactional]
            log.compact({offset for offset in plain if chance.random() < 0.4})
        position: Position | None = None
        for _ in range(chance.randrange(1, 6)):
            for _ in range(chance.randrange(4)):
                key, topic = chance.choice(
                    [
                        (PRODUCE, REMOTE),
                        (DELETE_RECORDS, None),
                        *[(WRITE_TXN_MARKERS, None)] * 2,
                        (END_TXN, None),
                        (ADD_PARTITIONS, None),
                        (INIT_PRODUCER_ID, None),
                    ]
                )
                here.target.fault(key, chance.choice(IN_DOUBT[:2]), topic=topic)
            copier = here.begin(here.grant(position=position))
            here.pass_by(chance.choice([0.0, 0.005, 0.02, 0.3, 2.0]) * chance.random())
            draw_traffic(here, chance, producers, chance.randrange(4))
            for copied in copier.partitions.values() if chance.random() < 0.3 else ():
                copied.free_memory(here.clock.monotonic())
            here.pass_by(chance.choice([0.0, 0.005, 0.02, 0.3, 2.0]) * chance.random())
            here.crash(copier)
            position = here.stored() if chance.random() < 0.8 else position
        here.target.faults.clear()
        for one in producers:
            if one.open:
                one.end(commit=chance.random() < 0.5)
        here.begin(here.grant(position=here.stored()))
        here.until(lambda: same(here) or bool(here.held), 300)
        assert here.held == [], (seed, here.held)
        assert here.failures == [], seed
        assert same(here), seed


def test_translated_offsets_can_follow() -> None:
    with transactional_world() as here:
        one = SourceProducer(here, 7)
        one.send(b"0")
        one.end(commit=True)
        copier = here.begin()
        require_same(here)
        here.pass_by(3)
        here.crash(copier)
        here.set_offsets("translated")
        one.send(b"2")
        one.end(commit=True)
        here.begin(here.grant(position=here.stored()))
        here.until(lambda: here.copied() == [b"0", b"2"])
