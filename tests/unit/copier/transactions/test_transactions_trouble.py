"""What becomes of transactions when their coordinator, their partitions or their id are lost: nothing, or all of it.

Real copiers, between two clusters of this process that answer with real bytes, in virtual time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import ADD_PARTITIONS, END_TXN, INIT_PRODUCER_ID, PRODUCE
from tests.unit.copier.copied import REMOTE, World, part, world
from twinlog.errors import FencedError
from twinlog.kafka.protocol.error_codes import Code

VALUES = [b"%d" % number for number in range(24)]


@pytest.fixture
def here() -> Iterator[World]:
    with world(partitions=2, brokers=2, exactly_once="enabled") as made:
        yield made


def committed(here: World, number: int = 0) -> list[bytes | None]:
    return here.copied(number, committed=True)


def test_positions_are_committed_with_their_records(here: World) -> None:
    here.begin()
    here.feed(VALUES)
    here.until(lambda: committed(here) == VALUES)
    stored = here.stored()
    assert stored is not None
    assert stored.next_source == len(VALUES)
    log = here.target.log(here.settings.positions_topic)
    assert any(batch.is_transactional and not batch.is_control for batch, _ in log.batches)


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        pytest.param(END_TXN, Fault(lost=True), id="the commit does not arrive"),
        pytest.param(END_TXN, Fault(lost=True, done=True), id="the commit is not answered"),
        pytest.param(END_TXN, Fault(code=Code.NOT_COORDINATOR), id="the coordinator moves"),
        pytest.param(END_TXN, Fault(code=Code.CONCURRENT_TRANSACTIONS), id="the one before does not end"),
        pytest.param(ADD_PARTITIONS, Fault(lost=True, done=True), id="taking part is not answered"),
        pytest.param(ADD_PARTITIONS, Fault(code=Code.UNKNOWN_TOPIC_OR_PARTITION), id="a partition cannot take part"),
        pytest.param(ADD_PARTITIONS, Fault(code=Code.COORDINATOR_LOAD_IN_PROGRESS), id="the coordinator loads"),
        pytest.param(INIT_PRODUCER_ID, Fault(lost=True, done=True), id="becoming a writer is not answered"),
        pytest.param(PRODUCE, Fault(code=Code.INVALID_TXN_STATE), id="an append outside of a transaction"),
        pytest.param(PRODUCE, Fault(lost=True, done=True), id="an append is not answered"),
        pytest.param(PRODUCE, Fault(code=Code.OUT_OF_ORDER_SEQUENCE_NUMBER), id="the broker lost track"),
    ],
)
def test_all_of_it_is_there_once(here: World, key: int, fault: Fault) -> None:
    here.target.fault(key, fault, times=2)
    here.begin(here.grant(0), here.grant(1))
    here.feed(VALUES[:12], number=0)
    here.feed(VALUES, number=1)
    here.until(lambda: committed(here) == VALUES[:12] and committed(here, 1) == VALUES, 900)
    here.feed(VALUES[12:], number=0)
    here.until(lambda: committed(here) == VALUES, 900)
    here.pass_by(60)
    assert here.target.faults_left == 0
    assert (committed(here), committed(here, 1)) == (VALUES, VALUES)
    assert here.failures == []


def test_whose_id_was_taken_over_ends(here: World) -> None:
    here.begin()
    here.feed(VALUES[:6])
    here.until(lambda: committed(here) == VALUES[:6])
    (known,) = here.target.transactions.open.values()
    known.epoch += 1
    here.feed(VALUES[6:])
    here.until(lambda: bool(here.failures))
    assert isinstance(here.failures[0][1], FencedError)
    here.pass_by(60)
    assert committed(here) == VALUES[:6]


def test_what_a_crash_left_open_is_aborted_and_copied_again(here: World) -> None:
    copier = here.begin()
    here.feed(VALUES[:6])
    here.until(lambda: committed(here) == VALUES[:6])
    here.target.fault(END_TXN, Fault(lost=True), times=1000)
    here.feed(VALUES[6:])
    here.until(lambda: len(here.copied()) == len(VALUES))
    here.crash(copier)
    assert committed(here) == VALUES[:6]
    for rule in here.target.faults._rules:
        rule.times = 0
    here.begin(here.grant(position=here.stored()))
    here.until(lambda: committed(here) == VALUES)
    assert len(here.copied()) > len(VALUES)
    assert here.failures == []


def test_what_cannot_be_committed_in_time_is_left_undrained(here: World) -> None:
    copier = here.begin()
    here.feed(VALUES[:6])
    here.until(lambda: committed(here) == VALUES[:6])
    here.target.fault(END_TXN, Fault(delay_s=25.0), times=100)
    here.feed(VALUES[6:])
    here.until(lambda: len(here.copied()) > 6)
    (position,) = here.run(copier.release_partitions, [part()]).values()
    assert position.next_source == 6
    assert copier.undrained == {part()}
    assert ("transaction", "the last transaction was not committed in time; it will be aborted") in here.events


def test_a_leader_that_is_lost_in_a_transaction_costs_no_record(here: World) -> None:
    """Until there is another one the transaction neither commits nor aborts, as its marker could not be written."""
    copier = here.begin(here.grant(0), here.grant(1))
    here.feed(VALUES[:6], number=0)
    here.until(lambda: committed(here) == VALUES[:6])
    here.target.move(REMOTE, 1, None)
    here.feed(VALUES, number=1)
    here.feed(VALUES[6:], number=0)

    def trouble() -> str:
        """Why the other partition is not copied."""
        return copier.troubles.find_reason(copier.partitions[part(0)]) or ""

    here.until(lambda: "the open transaction waits for north.shop-1" in trouble())
    here.pass_by(60)
    seconds = re.search(r"without a leader for (\d+) s: north.shop-1$", trouble())
    assert seconds is not None
    assert 50 <= int(seconds[1]) <= 62
    assert committed(here, 1) == []
    here.target.move(REMOTE, 1, 2)
    here.until(lambda: committed(here) == committed(here, 1) == VALUES, 120)
    here.until(lambda: trouble() == "")
    assert here.failures == []


def test_a_partition_with_too_few_replicas_is_named_and_holds_up_the_others_less_and_less(here: World) -> None:
    copier = here.begin(here.grant(0), here.grant(1))
    here.feed(VALUES[:6])
    here.until(lambda: committed(here) == VALUES[:6])
    here.target.codes(PRODUCE, REMOTE, *[Code.NOT_ENOUGH_REPLICAS] * 10_000, partition=1)
    here.write(b"late", number=1)

    def trouble() -> str:
        assert copier.transactions is not None
        return copier.transactions.trouble or ""

    here.until(lambda: trouble().endswith("waits for north.shop-1; with too few replicas in sync: north.shop-1"))
    here.pass_by(300)
    aborted = [text for kind, text in here.events if kind == "transaction"]
    assert 5 <= len(aborted) <= 9
    here.feed(VALUES[6:])
    here.until(lambda: committed(here) == VALUES, 20)
    here.target.faults.clear()
    here.until(lambda: committed(here, 1) == [b"late"], 90)
    here.until(lambda: trouble() == "")
    assert here.failures == []


def test_who_keeps_a_commit_from_its_end_is_named() -> None:
    """All is acknowledged and the commit decided, but one partition has no leader that could write the marker."""
    settings = {"transaction_boundary": "interval", "transaction_interval_ms": 5_000}
    with world(partitions=2, brokers=2, exactly_once="enabled", **settings) as here:
        copier = here.begin(here.grant(0), here.grant(1))
        for number in (0, 1):
            here.feed(VALUES[:6], number=number)
        here.until(lambda: here.copied() == here.copied(1) == VALUES[:6])
        here.target.move(REMOTE, 1, None)
        here.until(lambda: committed(here) == VALUES[:6])
        here.feed(VALUES[6:])
        named = "of north-mm2-MirrorSourceConnector-0 does not end; without a leader for"
        here.until(lambda: named in (copier.troubles.find_reason(copier.partitions[part()]) or ""))
        here.pass_by(60)
        assert (committed(here), committed(here, 1)) == (VALUES[:6], [])
        here.target.move(REMOTE, 1, 2)
        here.until(lambda: committed(here) == VALUES and committed(here, 1) == VALUES[:6], 120)
        assert here.failures == []


def test_an_answer_after_the_end_of_the_transactions_fails_nothing(here: World) -> None:
    """The release of a partition ends the transactions during a recovery, which waits for an append in flight."""
    copier = here.begin(here.grant(0), here.grant(1))
    here.feed(VALUES[:6])
    here.until(lambda: committed(here) == VALUES[:6])
    here.target.fault(PRODUCE, Fault(delay_s=8.0), topic=REMOTE)
    here.write(b"slow", number=1)
    here.until(lambda: here.target.faults_left == 0)
    here.target.codes(PRODUCE, REMOTE, Code.INVALID_TXN_STATE)
    here.write(b"refused")
    here.until(lambda: here.target.faults_left == 0)
    here.run(copier.release_partitions, [part(0)])
    assert ("transaction", "the last transaction was not committed in time; it will be aborted") in here.events
    here.pass_by(20)
    assert here.failures == []
    assert (committed(here), committed(here, 1)) == (VALUES[:6], [])
