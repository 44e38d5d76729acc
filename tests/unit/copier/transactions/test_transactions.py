"""Transactions of a copier whose target refuses, is silent, forgets and fences: every record is committed once.

Real copiers, between two clusters of this process that answer with real bytes, in virtual time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import ADD_PARTITIONS, END_TXN, INIT_PRODUCER_ID, LIST_OFFSETS, PRODUCE
from tests.copier_reports import copy_partitions
from tests.unit.copier.copied import REMOTE, World, part, world
from twinlog.copier.copier import Copier
from twinlog.errors import FencedError, RefusedError
from twinlog.kafka.protocol.error_codes import Code

VALUES = [b"%d" % number for number in range(24)]
OURS = "north-mm2-MirrorSourceConnector-0"
ABORTED = f"{OURS}: aborted, its records are copied again: "

UNHEARD = Fault(lost=True)
UNANSWERED = Fault(lost=True, done=True)


@pytest.fixture
def here() -> Iterator[World]:
    """Two partitions, each batch of which is appended by itself."""
    with world(partitions=2, exactly_once="enabled", producer={"merge_batch_bytes": 0}) as made:
        yield made


def begin(here: World, partitions: int = 2) -> Copier:
    """Copy partitions that have all values."""
    for number in range(partitions):
        here.feed(VALUES, number=number)
    return here.begin(*map(here.grant, range(partitions)))


def committed(here: World, number: int = 0) -> list[bytes | None]:
    return here.copied(number, committed=True)


def done(here: World, partitions: int = 2) -> bool:
    return all(committed(here, number) == VALUES for number in range(partitions))


def assert_copied_once(here: World, partitions: int = 2) -> None:
    """All of it is there, now and later, and the committed positions are after it."""
    here.until(lambda: done(here, partitions), 600)
    here.pass_by(5)
    assert done(here, partitions)
    for number in range(partitions):
        stored = here.stored(number)
        assert stored is not None
        assert stored.next_source == len(VALUES)
        assert stored.next_target == here.target.log(REMOTE, number).end
    assert here.failures == []
    assert here.target.faults_left == 0


def texts(here: World) -> list[str]:
    return [text for kind, text in here.events if kind == "transaction"]


def heard(here: World) -> list[tuple[float, int, Any]]:
    """What the target will have carried out: when, which request, and that itself."""
    found: list[tuple[float, int, Any]] = []
    here.target.carried_out = lambda key, request: found.append((here.clock.now, key, request))
    return found


def aborts(requests: list[tuple[float, int, Any]]) -> int:
    return sum(key == END_TXN and not request.committed for _, key, request in requests)


def test_records_and_their_positions_are_committed_together(here: World) -> None:
    requests = heard(here)
    here.target.fault(PRODUCE, Fault(delay_s=1.0), topic=REMOTE)
    begin(here)
    assert_copied_once(here)
    known = {REMOTE: "records", here.settings.positions_topic: "positions"}
    course: list[tuple[str, float]] = []
    for at, key, request in requests:
        if key == INIT_PRODUCER_ID:
            course.append(("init", at))
        elif key == ADD_PARTITIONS:
            course += [("add " + known[topic.name], at) for topic in request.v3_and_below_topics]
        elif key == PRODUCE:
            course += [("append " + known[topic.name], at) for topic in request.topic_data if topic.name in known]
        elif key == END_TXN:
            course.append(("commit" if request.committed else "abort", at))
    first = course[: [what for what, _ in course].index("commit") + 1]
    steps = list(dict.fromkeys(what for what, _ in first))
    assert steps == ["init", "add records", "append records", "add positions", "append positions", "commit"]
    # The positions wait for the acknowledgement of records, and take part before the commit.
    times = dict(first)
    assert times["add positions"] >= dict(reversed(first))["append records"] + 1.0
    assert texts(here) == []


@pytest.mark.parametrize(
    "code",
    [
        Code.TRANSACTION_ABORTABLE,
        Code.INVALID_TXN_STATE,
        Code.INVALID_PRODUCER_ID_MAPPING,
        Code.INVALID_PRODUCER_EPOCH,
        Code.PRODUCER_FENCED,
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        Code.UNKNOWN_PRODUCER_ID,
        Code.DUPLICATE_SEQUENCE_NUMBER,
    ],
)
def test_a_lost_transaction_is_aborted_and_its_records_are_copied_again(here: World, code: int) -> None:
    here.target.codes(PRODUCE, REMOTE, 0, code)
    copier = begin(here)
    here.until(lambda: here.target.asked[ADD_PARTITIONS] > 0)
    requests = heard(here)
    assert_copied_once(here)
    (event,) = texts(here)
    assert event.startswith(f"{ABORTED}north.shop-0: target: ")
    assert aborts(requests) == 1
    # Both took part, so of both it is asked whether anything was lost, before the transaction ends.
    before = requests[: [key for _, key, _ in requests].index(END_TXN)]
    asked = [request for _, key, request in before if key == LIST_OFFSETS]
    assert [{one.partition_index for one in request.topics[0].partitions} for request in asked] == [{0, 1}]
    assert copier.transactions is not None
    assert copier.transactions.trouble is None


@pytest.mark.parametrize("fault", [UNHEARD, UNANSWERED, Fault(code=6), Fault(code=7)], ids=str)
def test_what_passes_is_sent_again_within_the_transaction(here: World, fault: Fault) -> None:
    for one, times in ((fault, 2), (Fault(), 1), (fault, 1)):
        here.target.fault(PRODUCE, one, topic=REMOTE, times=times)
    requests = heard(here)
    begin(here)
    assert_copied_once(here)
    assert (texts(here), aborts(requests)) == ([], 0)


def test_a_batch_that_is_too_large_is_cut_within_the_transaction(here: World) -> None:
    here.target.codes(PRODUCE, REMOTE, Code.MESSAGE_TOO_LARGE)
    requests = heard(here)
    begin(here)
    assert_copied_once(here)
    assert (texts(here), aborts(requests)) == ([], 0)


def test_a_transaction_that_the_coordinator_forgot_is_copied_again(here: World) -> None:
    here.target.fault(END_TXN, Fault(code=Code.INVALID_TXN_STATE))
    begin(here)
    assert_copied_once(here)
    assert texts(here) == [f"{ABORTED}the coordinator no longer knows the transaction"]


@pytest.mark.parametrize("key", [INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN])
def test_a_coordinator_that_does_not_answer_is_asked_until_it_does(here: World, key: int) -> None:
    copier = here.open()
    transactions = copier.transactions
    assert transactions is not None
    if key == INIT_PRODUCER_ID:
        # Not the first, which the driver asks for.
        here.target.codes(PRODUCE, REMOTE, Code.TRANSACTION_ABORTABLE)
    here.target.fault(key, UNHEARD, times=5)
    here.run(copy_partitions, copier, [here.grant(0), here.grant(1)])
    for number in range(2):
        here.feed(VALUES, number=number)
    here.until(lambda: "cluster south: " in (transactions.trouble or ""))
    assert_copied_once(here)
    assert transactions.trouble is None


def test_who_was_fenced_stops(here: World) -> None:
    here.target.fault(ADD_PARTITIONS, Fault(code=Code.PRODUCER_FENCED))
    copier = begin(here)
    assert copier.transactions is not None
    here.until(lambda: bool(here.failures))
    assert copier.transactions.ended
    ((_, error),) = here.failures
    assert isinstance(error, FencedError)
    assert "group.id must differ where several installations write to south" in str(error)
    assert ("fenced", str(error)) in here.events
    here.pass_by(60)
    assert committed(here) == []
    # Nor does it commit anything for who leaves.
    here.run(copier.release_partitions, [part()])
    assert copier.undrained == {part()}
    assert committed(here) == []


def test_a_transaction_that_the_target_ended_by_itself_is_no_fence() -> None:
    """A producer is fenced as well by the coordinator that ends a transaction which was open for too long."""
    producer = {"merge_batch_bytes": 0, "transaction_timeout_ms": 3_000}
    with world(exactly_once="enabled", producer=producer) as here:
        # Not answered, so that it takes nearly as long as the transaction may.
        here.target.fault(PRODUCE, Fault(lost=True, delay_s=3.5), topic=REMOTE)
        here.target.fault(END_TXN, Fault(code=Code.PRODUCER_FENCED))
        begin(here, 1)
        assert_copied_once(here, 1)
        (event,) = texts(here)
        assert "the target ended a transaction that was open for 4 s; its records are copied again" in event


def test_a_partition_without_a_leader_holds_up_nobody(here: World) -> None:
    copier = here.begin(here.grant(0), here.grant(1))
    here.target.move(REMOTE, 0, None)
    here.run(copier.target.refresh, [REMOTE])
    for number in range(2):
        here.feed(VALUES, number=number)
    here.until(lambda: committed(here, 1) == VALUES, 1.0)
    here.pass_by(10)
    assert here.copied() == []
    here.target.move(REMOTE, 0, 1)
    assert_copied_once(here)
    assert texts(here) == []


def test_a_partition_that_the_coordinator_does_not_take_holds_up_nobody(here: World) -> None:
    here.target.codes(ADD_PARTITIONS, REMOTE, *[Code.UNKNOWN_TOPIC_OR_PARTITION] * 3)
    begin(here)
    here.until(lambda: committed(here, 1) == VALUES, 1.0)
    assert here.copied() == []
    assert_copied_once(here)
    assert texts(here) == []


def test_a_missing_permission_ends_the_flow(here: World) -> None:
    here.target.codes(ADD_PARTITIONS, REMOTE, Code.TOPIC_AUTHORIZATION_FAILED)
    copier = begin(here)
    assert copier.transactions is not None
    here.until(lambda: bool(here.failures))
    assert copier.transactions.ended
    ((_, error),) = here.failures
    assert isinstance(error, RefusedError)
    assert "lacks WRITE on topic north.shop, needed for copying to it" in str(error)
    here.pass_by(60)
    assert here.copied() == []


def test_appends_that_do_not_land_are_given_up(here: World) -> None:
    """Their partition sits out, and the others go on."""
    here.target.codes(PRODUCE, REMOTE, 0, *[Code.NOT_LEADER_OR_FOLLOWER] * 30)
    begin(here)
    here.until(lambda: bool(texts(here)))
    assert texts(here)[0].endswith("the target did not take what was appended to north.shop-0")
    here.until(lambda: committed(here, 1) == VALUES, 10.0)
    assert here.target.faults_left > 0
    assert_copied_once(here)


@pytest.mark.parametrize("fault", [UNHEARD, UNANSWERED, Fault(code=Code.NOT_LEADER_OR_FOLLOWER)], ids=str)
def test_positions_are_sent_again(here: World, fault: Fault) -> None:
    here.target.fault(PRODUCE, fault, topic=here.settings.positions_topic, times=3)
    begin(here)
    assert_copied_once(here)
    assert texts(here) == []


def test_positions_that_the_target_does_not_take_in_time_abort_the_transaction(here: World) -> None:
    topic = here.settings.positions_topic
    here.target.codes(PRODUCE, topic, *[Code.NOT_LEADER_OR_FOLLOWER] * 30)
    begin(here)
    assert_copied_once(here)
    assert texts(here)[0] == f"{ABORTED}the target does not acknowledge positions in {topic}"


@pytest.mark.parametrize("code", [Code.INVALID_PRODUCER_EPOCH, Code.TRANSACTION_ABORTABLE])
def test_positions_of_a_lost_transaction_abort_it(here: World, code: int) -> None:
    here.target.codes(PRODUCE, here.settings.positions_topic, code)
    begin(here)
    assert_copied_once(here)
    assert len(texts(here)) == 1


@pytest.mark.parametrize("key", [ADD_PARTITIONS, PRODUCE])
def test_positions_that_may_not_be_stored_end_the_flow(here: World, key: int) -> None:
    topic = here.settings.positions_topic
    here.target.codes(key, topic, Code.TOPIC_AUTHORIZATION_FAILED)
    copier = begin(here)
    assert copier.transactions is not None
    here.until(lambda: bool(here.failures))
    assert copier.transactions.ended
    ((_, error),) = here.failures
    assert f"lacks WRITE on topic {topic}, needed for storing positions" in str(error)
    here.pass_by(60)
    # Without its position nothing is committed.
    assert committed(here) == []


def test_the_positions_topic_may_have_no_leader_for_a_while(here: World) -> None:
    here.target.codes(ADD_PARTITIONS, here.settings.positions_topic, *[Code.UNKNOWN_TOPIC_OR_PARTITION] * 2)
    begin(here)
    assert_copied_once(here)
    assert texts(here) == []


def test_what_leaves_is_committed_first(here: World) -> None:
    copier = begin(here)
    here.until(lambda: bool(here.copied()))
    (position,) = here.run(copier.release_partitions, [part()]).values()
    assert copier.undrained == set()
    assert position.next_source > 0
    assert committed(here) == VALUES[: position.next_source]
    stored = here.stored()
    assert stored is not None
    assert stored.next_source == position.next_source


PASSING = (UNHEARD, UNANSWERED, Fault(), Fault(), Fault())
FAULTS = (
    *(Code.NOT_LEADER_OR_FOLLOWER, Code.REQUEST_TIMED_OUT, Code.CONCURRENT_TRANSACTIONS),
    *(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID, Code.TRANSACTION_ABORTABLE),
    *(Code.INVALID_TXN_STATE, Code.INVALID_PRODUCER_EPOCH),
)


@pytest.mark.parametrize("course", range(12))
def test_whatever_happens_every_record_is_committed_once(course: int, chance: random.Random) -> None:
    def codes(most: int, share: float, known: tuple[int, ...] = FAULTS) -> list[int]:
        return [chance.choice(known) if chance.random() < share else 0 for _ in range(chance.randrange(most))]

    with world(partitions=3, exactly_once="enabled", producer={"merge_batch_bytes": 0}) as here:
        target, positions = here.target, here.settings.positions_topic
        large = chance.randrange(3)
        for number in range(3):
            too_large = [Code.MESSAGE_TOO_LARGE] * (number == large)
            target.codes(PRODUCE, REMOTE, *too_large, *codes(25, 0.5), partition=number)
        target.codes(PRODUCE, positions, *codes(15, 0.4))
        away = (Code.NOT_LEADER_OR_FOLLOWER,)
        target.codes(ADD_PARTITIONS, REMOTE, *codes(8, 0.4, away), partition=chance.randrange(3))
        copier = here.open()
        for key, most in ((PRODUCE, 15), (INIT_PRODUCER_ID, 5), (ADD_PARTITIONS, 15), (END_TXN, 15)):
            if key == END_TXN:
                # First of all: a commit whose answer is lost is not forgotten.
                target.fault(key, Fault(code=Code.INVALID_TXN_STATE), times=chance.randrange(2))
            for _ in range(chance.randrange(most)):
                target.fault(key, chance.choice(PASSING))
        here.run(copy_partitions, copier, [here.grant(number) for number in range(3)])
        for number in range(3):
            here.feed(VALUES, number=number)
        # What goes wrong is not used up when all is copied: it goes wrong again for what comes.
        here.until(lambda: done(here, 3), 600)
        target.faults.clear()
        assert_copied_once(here, 3)


@pytest.mark.parametrize("left", [0, 1])
def test_what_the_target_deleted_of_an_aborted_transaction_counts_for_nothing(here: World, left: int) -> None:
    """The copier crashed, and the target's retention was over before the flow began again; its marker may be left."""
    log = here.target.log(REMOTE)
    copier = here.begin()
    here.feed(VALUES[:12])
    here.until(lambda: committed(here) == VALUES[:12])
    here.until(lambda: (found := here.stored()) is not None and found.next_target == log.end)
    here.target.fault(END_TXN, UNHEARD, times=1000)
    here.feed(VALUES[12:18])
    here.until(lambda: len(log.values()) == 18)
    here.crash(copier)
    here.target.faults.clear()
    stored = here.stored()
    # Another copier has it aborted.
    here.crash(here.open())
    log.delete_before(log.end - left)
    here.feed(VALUES[18:])
    here.begin(here.grant(position=stored))
    here.until(lambda: (found := here.stored()) is not None and found.next_source == len(VALUES))
    assert committed(here) == VALUES[12:]
    assert here.failures == []


def test_a_transaction_that_a_release_did_not_wait_for_is_never_committed(here: World) -> None:
    """The position of what was released would be missing in it."""
    begin(here)
    assert_copied_once(here)
    (copier,) = here.copiers
    here.target.fault(PRODUCE, Fault(delay_s=5.0), topic=REMOTE)
    here.write(b"late")
    here.until(lambda: here.copied()[-1:] == [b"late"])
    here.run(copier.release_partitions, [part()])
    assert copier.undrained == {part()}
    here.write(b"more", number=1)
    here.pass_by(60)
    assert committed(here) == VALUES
    here.begin(here.grant(position=here.stored()))
    here.until(lambda: committed(here) == [*VALUES, b"late"])
