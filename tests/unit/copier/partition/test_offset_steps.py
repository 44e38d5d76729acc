"""Markers and aborted records while a partition goes from a copier to the next, and their remains on the target."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import END_TXN, LIST_OFFSETS, PRODUCE, WRITE_TXN_MARKERS, topics_of
from tests.copier_reports import copy_partitions
from tests.unit.copier.copied import REMOTE, TOPIC, World, part
from tests.unit.copier.identical.test_identical_transactions import (
    SourceProducer,
    require_same,
    same,
    transactional_world,
)
from twinlog.copier.copier import Copier
from twinlog.kafka.producer import marker_writer
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.positions import Position

SLOW_S = 10.0
"""A broker needs longer for an answer than a release waits for it."""


def mark(here: World, *, number: int = 0) -> None:
    here.source.log(TOPIC, number).mark(7, 0, commit=True)
    here.source.news()


def hold_up_look(here: World, look: int) -> None:
    """The answer to so many looks at the remote log from now on is late."""
    looks = 0

    def count(key: int, request: Any) -> None:
        nonlocal looks
        if key == LIST_OFFSETS and REMOTE in topics_of(key, request):
            looks += 1
            if looks == look - 1:
                here.target.fault(LIST_OFFSETS, Fault(delay_s=SLOW_S), topic=REMOTE)

    here.target.carried_out = count


def begun_step(here: World, *, aborted: bool) -> None:
    """The first step of a partition looks at the remote log; the last look is answered late."""
    hold_up_look(here, 4)
    if aborted:
        one = SourceProducer(here, 8)
        one.send(b"in it")
        one.end(commit=False)
    else:
        mark(here)
    here.pass_by(1.0)
    assert not here.target.faults_left


@pytest.mark.parametrize("aborted", [False, True], ids=["marker", "aborted"])
@pytest.mark.parametrize("back", [False, True], ids=["to another copier", "to the same copier"])
def test_a_step_of_a_released_partition_writes_nothing(back: bool, aborted: bool) -> None:
    with transactional_world() as here:
        here.write(b"a")
        copier = here.begin()
        require_same(here)
        here.pass_by(3)
        begun_step(here, aborted=aborted)
        assert here.target.log(REMOTE).end == 1
        here.run(copier.release_partitions, [part()])
        here.target.carried_out = lambda _key, _request: None
        next_copier = copier if back else here.open()
        here.run(copy_partitions, next_copier, [here.grant(position=here.stored())])
        require_same(here)
        here.pass_by(2 * SLOW_S)
        assert same(here)
        mark(here)
        require_same(here)


def test_a_marker_that_waits_for_a_request_is_not_written_after_a_release() -> None:
    with transactional_world(partitions=2) as here:
        for number in range(2):
            here.write(b"a", number=number)
        copier = here.begin(here.grant(0), here.grant(1))
        here.until(lambda: here.copied(0) == here.copied(1) == [b"a"])
        here.pass_by(3)
        here.target.fault(WRITE_TXN_MARKERS, Fault(delay_s=SLOW_S))
        mark(here, number=0)
        here.until(lambda: here.target.asked[WRITE_TXN_MARKERS] == 1)
        mark(here, number=1)
        here.pass_by(1.0)
        here.run(copier.release_partitions, [part(1)])
        here.begin(here.grant(1, position=here.stored(1)))
        here.until(lambda: here.target.log(REMOTE, 1).end == 2)
        here.pass_by(2 * SLOW_S)
        assert [here.target.log(REMOTE, number).end for number in range(2)] == [2, 2]
        assert here.held == []


def test_a_request_has_a_bounded_number_of_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker writes them one after the other: a request that lasts longer than its time-out would be repeated."""
    monkeypatch.setattr(marker_writer, "MOST_AT_ONCE", 40)
    partitions = 6
    with transactional_world(partitions=partitions) as here:
        for number in range(partitions):
            for at in range(20):
                here.write(b"%d" % at, number=number)
            here.source.log(TOPIC, number).compact(set(range(2, 17)))
        written: list[int] = []

        def count(key: int, request: Any) -> None:
            if key == WRITE_TXN_MARKERS:
                written.append(
                    sum(len(topic.partition_indexes) for marker in request.markers for topic in marker.topics)
                )

        here.target.carried_out = count
        here.begin(*(here.grant(number) for number in range(partitions)))
        here.until(lambda: all(here.target.log(REMOTE, number).end == 20 for number in range(partitions)))
        assert here.held == []
        assert sum(written) == 15 * partitions
        assert max(written) <= 40


def copy_first_record(here: World, source: SourceProducer) -> tuple[int, int]:
    """A copier is lost after the first of the source's aborted records; returns the producer of the open copy."""
    source.send(b"0")
    source.send(b"1", b"2", b"3")
    source.end(commit=False)
    here.write(b"after")
    here.target.codes(PRODUCE, REMOTE, 0, *[Code.NOT_LEADER_OR_FOLLOWER] * 1_000)
    copier = here.begin()
    here.until(lambda: here.target.log(REMOTE).end == 1)
    here.pass_by(3)
    here.crash(copier)
    here.target.faults.clear()
    (known,) = here.target.transactions.open.values()
    return known.producer_id, known.epoch


@pytest.mark.parametrize("request_key", [PRODUCE, LIST_OFFSETS], ids=["before the append", "before the look"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_late_records_of_an_aborted_transaction_are_there_once(count: int, request_key: int) -> None:
    """They come after the next copier has found its position, and before its first append, which has more records."""
    with transactional_world(producer={"merge_batch_bytes": 0}) as here:
        producer = copy_first_record(here, SourceProducer(here, 8))
        values = [b"1", b"2", b"3"][:count]
        late = encode_batch([(0, record_body(None, value, ())) for value in values], 0)
        stamp(late, *producer, 1, transactional=True)
        arrived: list[int] = []

        def arrive(key: int, request: Any) -> None:
            if key == request_key and not arrived and REMOTE in topics_of(key, request):
                arrived.append(here.target.log(REMOTE).append(bytes(late))[1])

        here.begin(here.grant(position=here.stored()))
        here.target.carried_out = arrive
        require_same(here)
        assert arrived == [1]


def test_an_open_transaction_is_found_although_unused_ids_have_expired() -> None:
    """A coordinator forgets an id that is unused for a week (`transactional.id.expiration.ms`)."""
    with transactional_world() as here:
        one, two = SourceProducer(here, 7), SourceProducer(here, 8)
        one.send(b"0")
        two.send(b"1")
        one.end(commit=False)
        two.end(commit=False)
        copier = here.begin()
        require_same(here)
        assert len(here.target.transactions.open) == 2
        here.target.fault(END_TXN, Fault(lost=True), times=1_000)
        one.send(b"4")
        one.end(commit=False)
        here.until(lambda: bool(here.target.log(REMOTE).open))
        here.pass_by(3)
        here.crash(copier)
        here.target.faults.clear()
        known = here.target.transactions.open
        for unused in [name for name, state in known.items() if not state.parts]:
            del known[unused]
        here.begin(here.grant(position=here.stored()))
        require_same(here)


@pytest.mark.parametrize("kept", [1, 2, 3], ids=["two records", "a record", "the marker"])
def test_an_unclean_election_leaves_no_transaction_open(kept: int) -> None:
    """The coordinator has ended the transaction, and the log has lost its marker: no consumer would pass it."""
    with transactional_world() as here:
        one = SourceProducer(here, 7)
        one.send(b"0")
        one.send(b"1")
        one.send(b"2")
        one.end(commit=False)
        copier = here.begin()
        require_same(here)
        here.pass_by(3)
        here.crash(copier)
        here.target.log(REMOTE).cut(kept)
        assert here.target.log(REMOTE).open
        here.begin(here.grant(position=here.stored()))
        require_same(here)
        one.send(b"4")
        one.end(commit=False)
        here.write(b"6")
        require_same(here)


def test_hundreds_of_aborted_transactions_overlap() -> None:
    """An application with many instances ends the transactions of all of them at once."""
    with transactional_world() as here:
        producers = [SourceProducer(here, 100 + number) for number in range(150)]
        for one in producers:
            one.send(b"%d" % one.id)
        for one in producers:
            one.end(commit=False)
        here.target.fault(END_TXN, Fault(lost=True), times=1_000)
        copier = here.begin()
        here.until(lambda: len(here.target.log(REMOTE).open) == 150, 120)
        here.pass_by(3)
        here.crash(copier)
        here.target.faults.clear()
        here.begin(here.grant(position=here.stored()))
        require_same(here, 120)


def test_an_aborted_transaction_begins_once_its_marker_is_readable() -> None:
    """Otherwise its copy would be open for as long as another transaction of the source, and end by itself."""
    with transactional_world() as here:
        one, two, three = (SourceProducer(here, number) for number in (7, 8, 9))
        here.write(b"before")
        one.send(b"1")
        two.send(b"2")
        one.end(commit=False)
        copier = here.begin()
        here.pass_by(1_000)
        reason = copier.troubles.find_reason(copier.partitions[part()]) or ""
        assert reason.startswith("TW-WAIT-06: source: a transaction that has been open for ")
        assert "keeps the records from offset 1 on" in reason
        assert here.target.log(REMOTE).values() == [b"before"]
        assert here.target.log(REMOTE).open == {}
        three.send(b"4")
        here.write(b"plain")
        two.end(commit=True)
        here.until(lambda: here.target.log(REMOTE).end == 4)
        assert here.target.log(REMOTE).open == {}
        three.end(commit=False)
        require_same(here)


def test_a_long_aborted_transaction_begins_while_transactions_are_open() -> None:
    """An answer of the source ends before its marker, and a transaction is open at any time."""
    with transactional_world(producer={"merge_batch_bytes": 0}) as here:
        one, two, three = (SourceProducer(here, number) for number in (7, 8, 9))
        for number in range(10):
            one.send(b"%d" % number + b"." * 300)
        consumer = replace(here.settings.consumer, max_partition_fetch_bytes=1_000)
        here.settings = replace(here.settings, consumer=consumer)
        two.send(b"open")
        one.end(commit=False)
        here.begin()
        here.pass_by(5)
        assert here.target.log(REMOTE).open == {}
        three.send(b"open, too")
        two.end(commit=True)
        here.until(lambda: here.target.log(REMOTE).end == 12 or bool(here.held))
        assert here.target.log(REMOTE).open == {}
        three.end(commit=True)
        require_same(here)


SLOW = (Fault(delay_s=0.5), Fault(delay_s=4.0))


def test_hand_overs_at_any_moment(chance: random.Random) -> None:
    for seed in chance.sample(range(1_000_000), 40):
        hand_over_again_and_again(seed)


def draw_faults(here: World, chance: random.Random) -> None:
    for _ in range(chance.randrange(4)):
        key = chance.choice([PRODUCE, WRITE_TXN_MARKERS, WRITE_TXN_MARKERS, END_TXN, LIST_OFFSETS])
        topic = REMOTE if key in {PRODUCE, LIST_OFFSETS} else None
        if key == LIST_OFFSETS:
            fault = chance.choice(SLOW)
        else:
            fault = chance.choice([Fault(lost=True), Fault(lost=True, done=True), Fault(delay_s=1.0)])
        here.target.fault(key, fault, topic=topic, times=chance.choice([1, 1, 3]))


def draw_traffic(here: World, chance: random.Random, producers: list[SourceProducer]) -> None:
    for number in range(chance.randrange(8)):
        one = chance.choice(producers)
        drawn = chance.random()
        if drawn < 0.3:
            here.write(*(b"plain %d.%d" % (number, at) for at in range(chance.choice([1, 1, 3]))))
        elif drawn < 0.7:
            one.send(*(b"%d in %d" % (number, at) for at in range(chance.choice([1, 2, 5]))))
        else:
            one.end(commit=chance.random() < 0.5)


def hand_over_again_and_again(seed: int) -> None:
    """Two copiers have the partition by turns; leaders move, answers are late or lost, and a log loses its end."""
    chance = random.Random(seed)
    producer = {"merge_batch_bytes": chance.choice([0, 300, 524_288])}
    with transactional_world(seed, brokers=2, producer=producer) as here:
        producers = [SourceProducer(here, number) for number in (7, 8, 9)]
        copiers: list[Copier | None] = [None, None]
        position: Position | None = None
        drained = False
        for _ in range(chance.randrange(2, 7)):
            draw_traffic(here, chance, producers)
            draw_faults(here, chance)
            turn = chance.randrange(2)
            copier = copiers[turn] or here.open()
            copiers[turn] = copier
            here.run(copy_partitions, copier, [here.grant(position=position, drained=drained)])
            here.pass_by(chance.choice([0.0, 0.02, 0.3, 2.0]) * chance.random())
            draw_traffic(here, chance, producers)
            if chance.random() < 0.3:
                here.target.move(REMOTE, 0, chance.choice([1, 2]))
            here.pass_by(chance.choice([0.0, 0.02, 0.3, 2.0]) * chance.random())
            if chance.random() < 0.7:
                released = here.run(copier.release_partitions, [part()])
                drained = part() not in copier.undrained
                position = released.get(part()) or here.stored()
            else:
                here.crash(copier)
                copiers[turn], position, drained = None, here.stored(), False
                if chance.random() < 0.2:
                    log = here.target.log(REMOTE)
                    log.cut(chance.randrange(log.start, log.end + 1))
        here.target.faults.clear()
        for one in producers:
            if one.open:
                one.end(commit=chance.random() < 0.5)
        here.begin(here.grant(position=position, drained=drained))
        here.until(lambda: same(here) or bool(here.held), 300)
        here.pass_by(10.0)
        assert here.held == [], (seed, here.held)
        assert here.failures == [], seed
        assert same(here), seed
