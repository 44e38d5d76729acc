"""Records of another program that arrive while no copier has their partition: the next copier finds a difference."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from harness.virtual.log import VirtualLog
from harness.virtual.requests import DESCRIBE_PRODUCERS, LIST_TRANSACTIONS, PRODUCE
from harness.virtual.transactions import Transaction
from tests.copier_reports import copy_partitions
from tests.unit.copier.copied import REMOTE, World, part
from tests.unit.copier.proof.test_faults import FOUND_S, all_proven, frozen, proving, thawed
from twinlog.copier.copier import Copier
from twinlog.copier.proof.second_read import SecondRead
from twinlog.copier.start import start_position
from twinlog.kafka.admin.partition_states import producer_states
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.lease.messages import Grant
from twinlog.model.types import TargetOffset, TopicPartition

STRANGER = 4711
"""The producer id of an application that writes to the remote topic."""


def write_in_transaction(log: VirtualLog, *values: bytes, commit: bool) -> None:
    data = encode_batch([(0, record_body(None, value)) for value in values], 0)
    stamp(data, STRANGER, 0, 0, transactional=True)
    assert log.append(bytes(data))[0] == Code.NONE
    log.mark(STRANGER, 0, commit=commit)


def stopped(here: World) -> int:
    """A copier has proven nine records, and is gone; returns the end of the remote log."""
    copier = here.begin()
    here.feed([b"%d" % number for number in range(9)])
    here.until(lambda: len(here.copied(committed=True)) == 9 and not proof_is_behind(copier))
    here.pass_by(3)
    here.crash(copier)
    here.pass_by(1)
    return here.target.log(REMOTE).end


def proof_is_behind(copier: Copier) -> bool:
    proof = copier.partitions[part()].copied.proof
    assert proof is not None
    return proof.behind


def intruded(here: World, how: str) -> None:
    """Write two records to the remote topic, as an application does."""
    if how == "plain":
        here.target.write(REMOTE, b"foreign", b"too")
    else:
        write_in_transaction(here.target.log(REMOTE), b"foreign", b"too", commit=how == "committed")


def again(here: World, *, drained: bool) -> Grant:
    return here.grant(position=here.stored(), drained=drained)


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
@pytest.mark.parametrize("how", ["plain", "committed"])
@pytest.mark.parametrize("drained", [False, True], ids=["after a crash", "between two leases"])
def test_it_holds_the_partition_until_it_is_accepted(exactly_once: str, how: str, drained: bool) -> None:
    with proving(difference_policy="hold", exactly_once=exactly_once) as (here, _):
        first = stopped(here)
        intruded(here, how)
        here.feed([b"later"])
        copier = here.begin(again(here, drained=drained))
        here.until(lambda: bool(here.held), FOUND_S)
        (held,) = here.held
        assert (held.reason, held.message_id) == ("difference", "TW-PROOF-01")
        assert f"at offset {first} it has a record of another program" in held.text
        assert "after the copies before source offset 9" in held.text
        assert copier.tally.differences == {"foreign": 1}
        assert b"later" not in here.copied()

        # The driver grants it again, also under another policy: it counts once.
        position = copier._held.held[part()].grant.position
        assert position is not None
        assert position.difference == first
        here.held.clear()
        here.run(copier.release_partitions, [part()])
        here.run(copy_partitions, copier, [here.grant(position=position)])
        here.until(lambda: bool(here.held), FOUND_S)
        assert copier.tally.differences == {"foreign": 1}


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
@pytest.mark.parametrize("how", ["plain", "committed"])
def test_it_is_reported_and_counted(exactly_once: str, how: str) -> None:
    with proving(exactly_once=exactly_once) as (here, _):
        first = stopped(here)
        intruded(here, how)
        here.feed([b"later"])
        copier = here.begin(again(here, drained=False))
        here.until(lambda: here.copied(committed=True)[-1] == b"later")
        here.pass_by(FOUND_S)
        assert copier.tally.differences == {"foreign": 1}
        (text,) = [text for kind, text in here.events if kind == "difference"]
        assert text.startswith(f"{part()}: {part(topic=REMOTE)} differs: at offset {first} ")
        proof = copier.partitions[part()].copied.proof
        assert proof is not None
        now = proof.proven
        assert (now.differences, now.difference_kind) == (1, "foreign")
        assert (now.difference_source, now.difference_target) == (9, first)
        assert here.held == []


def begin_transaction(log: VirtualLog, value: bytes = b"foreign") -> None:
    data = encode_batch([(0, record_body(None, value))], 0)
    stamp(data, STRANGER, 0, 0, transactional=True)
    assert log.append(bytes(data))[0] == Code.NONE


def before_the_first_answer(here: World, copier: Copier) -> None:
    """The copier has its start position, and the prover has read nothing."""
    here.until(lambda: part() in copier.partitions)
    frozen(here, copier)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("policy", ["hold", "report"])
@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_transaction_that_is_open_at_the_begin_is_found_once_it_is_committed(
    policy: str, when: str, commit: bool
) -> None:
    with proving(difference_policy=policy) as (here, _):
        first = stopped(here)
        log = here.target.log(REMOTE)
        begin_transaction(log)
        here.feed([b"later"])
        copier = here.begin(again(here, drained=False))
        if when == "at once":
            before_the_first_answer(here, copier)
        else:
            here.until(lambda: b"later" in here.copied())
            here.pass_by(FOUND_S)
            assert copier.tally.differences == {}
        log.mark(STRANGER, 0, commit=commit)
        thawed(here)
        here.pass_by(2 * FOUND_S)
        assert copier.tally.differences == ({"foreign": 1} if commit else {})
        assert [(one.reason, one.message_id) for one in here.held] == (
            [("difference", "TW-PROOF-01")] if commit and policy == "hold" else []
        )
        if commit and policy == "hold":
            assert f"at offset {first} it has a record of another program" in here.held[0].text
            assert "after the copies before source offset 9" in here.held[0].text
        else:
            # The proof continues.
            here.feed([b"more"])
            here.until(lambda: here.copied(committed=True)[-1] == b"more" and not proof_is_behind(copier))
            proof = copier.partitions[part()].copied.proof
            assert proof is not None
            assert proof.proven.first_target == proof.begin


def act_after_the_first_list(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Act once the copier has the list of open transactions for the first time."""
    acts = [act]

    async def list_producers(client: ClusterClient, partitions: Collection[TopicPartition]) -> Any:
        found = await producer_states(client, partitions)
        if acts:
            acts.pop()()
        return found

    monkeypatch.setattr(start_position, "producer_states", list_producers)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(
    "when", ["while no copier runs", "while the copier begins", "before the first answer", "later"]
)
def test_a_transaction_that_began_before_the_stored_position_is_found(
    monkeypatch: pytest.MonkeyPatch, when: str, commit: bool
) -> None:
    with proving(difference_policy="hold") as (here, _):
        here.target.hidden.clear()
        copier = here.begin()
        here.feed([b"%d" % number for number in range(9)])
        here.until(lambda: len(here.copied(committed=True)) == 9)
        log = here.target.log(REMOTE)
        first = log.end
        begin_transaction(log)
        here.feed([b"%d" % number for number in range(9, 20)])
        here.until(lambda: len(here.copied()) == 21)
        here.pass_by(3)
        here.run(copier.release_partitions, [part()])
        here.crash(copier)
        stored = here.stored()
        assert stored is not None
        assert stored.next_target == 21
        if when == "while no copier runs":
            # The copier only sees that the transaction ends.
            first = log.end
            log.mark(STRANGER, 0, commit=commit)
        if when == "while the copier begins":
            act_after_the_first_list(monkeypatch, lambda: log.mark(STRANGER, 0, commit=commit))
        copier = here.begin(here.grant(position=stored, drained=True))
        if when == "before the first answer":
            before_the_first_answer(here, copier)
            log.mark(STRANGER, 0, commit=commit)
            thawed(here)
        here.feed([b"later"])
        here.until(lambda: bool(here.held) or b"later" in here.copied())
        if when == "later":
            here.pass_by(FOUND_S)
            assert here.held == []
            log.mark(STRANGER, 0, commit=commit)
        here.pass_by(2 * FOUND_S)
        assert copier.tally.differences == ({"foreign": 1} if commit else {})
        assert len(here.held) == commit
        if commit:
            assert f"at offset {first} it has a record of another program" in here.held[0].text


def test_the_marker_of_a_transaction_whose_records_may_be_deleted_is_no_difference() -> None:
    with proving(difference_policy="hold") as (here, _):
        end = stopped(here)
        log = here.target.log(REMOTE)
        here.target.write(REMOTE, b"deleted")
        log.mark(STRANGER, 0, commit=True)
        log.delete_before(end + 1)
        copier = here.begin(again(here, drained=False))
        here.feed([b"later"])
        here.until(lambda: here.copied()[-1:] == [b"later"])
        here.pass_by(FOUND_S)
        assert copier.tally.differences == {}


def test_a_transaction_that_begins_while_the_copier_begins_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with proving(difference_policy="hold") as (here, _):
        here.target.hidden.clear()
        log = here.target.log(REMOTE)
        act_after_the_first_list(monkeypatch, lambda: begin_transaction(log))
        copier = here.begin()
        here.feed([b"later"])
        here.until(lambda: here.copied() == [b"foreign", b"later"])
        log.mark(STRANGER, 0, commit=True)
        here.pass_by(2 * FOUND_S)
        assert copier.tally.differences == {"foreign": 1}
        assert "at offset 0 it has a record of another program" in here.held[0].text


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("owner", ["no id", "app-0", "own", "own aborted"])
@pytest.mark.parametrize("drained", [False, True], ids=["after a crash", "between two leases"])
def test_an_open_transaction_is_told_from_those_of_copiers_that_use_transactions(
    drained: bool, owner: str, commit: bool
) -> None:
    """The marker of an earlier copier may be late: its transactional id tells whose transaction it is."""
    with proving(difference_policy="hold", exactly_once="enabled") as (here, _):
        here.target.hidden.clear()
        first = stopped(here)
        log = here.target.log(REMOTE)
        begin_transaction(log)
        name = {
            "own": here.settings.transactional_id(17),
            "own aborted": f"{here.settings.transactional_id(0)[:-1]}a-b",
        }
        if owner != "no id":
            here.target.transactions.open[name.get(owner, owner)] = Transaction(STRANGER, 0)
        here.feed([b"later"])
        copier = here.begin(again(here, drained=drained))
        here.until(lambda: b"later" in here.copied())
        here.pass_by(FOUND_S)
        assert copier.tally.differences == {}
        log.mark(STRANGER, 0, commit=commit)
        here.pass_by(2 * FOUND_S)
        foreign = commit and owner in ("no id", "app-0")
        assert copier.tally.differences == ({"foreign": 1} if foreign else {})
        assert [one.reason for one in here.held] == ["difference"] * foreign
        if foreign:
            assert f"at offset {first} it has a record of another program" in here.held[0].text


@pytest.mark.parametrize("hidden", [{DESCRIBE_PRODUCERS, LIST_TRANSACTIONS}, {LIST_TRANSACTIONS}])
def test_old_brokers_tell_no_owners(hidden: set[int]) -> None:
    with proving(difference_policy="hold", exactly_once="enabled") as (here, _):
        here.target.hidden |= hidden
        stopped(here)
        begin_transaction(here.target.log(REMOTE))
        here.feed([b"later"])
        copier = here.begin(again(here, drained=False))
        here.until(lambda: b"later" in here.copied())
        here.target.log(REMOTE).mark(STRANGER, 0, commit=True)
        here.pass_by(2 * FOUND_S)
        assert copier.tally.differences == {}


def test_the_look_ends_once_the_target_has_deleted_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read_batches = SecondRead.read_batches

    async def count(logs: SecondRead, remote: TopicPartition, start: TargetOffset, end: TargetOffset) -> Any:
        reads.append(start)
        return await read_batches(logs, remote, start, end)

    monkeypatch.setattr(SecondRead, "read_batches", count)
    with proving(difference_policy="hold") as (here, _):
        first = stopped(here)
        log = here.target.log(REMOTE)
        begin_transaction(log)
        copier = here.begin(again(here, drained=False))
        here.until(lambda: part() in copier.partitions)
        here.pass_by(FOUND_S)
        log.delete_before(first + 1)
        here.pass_by(2 * FOUND_S)
        assert set(reads) == {first}
        reads.clear()
        here.pass_by(60)
        assert reads == []
        log.mark(STRANGER, 0, commit=True)
        here.feed([b"later"])
        here.until(lambda: here.copied(committed=True)[-1:] == [b"later"] and not proof_is_behind(copier))
        assert copier.tally.differences == {}


def test_a_policy_may_stop_the_flow() -> None:
    with proving(difference_policy="stop") as (here, _):
        stopped(here)
        intruded(here, "plain")
        here.begin(again(here, drained=False))
        here.until(lambda: bool(here.failures), FOUND_S)
        assert here.failures[0][0] == part()


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_aborted_records_are_no_difference(exactly_once: str) -> None:
    with proving(difference_policy="hold", exactly_once=exactly_once) as (here, _):
        stopped(here)
        intruded(here, "aborted")
        here.feed([b"later"])
        copier = here.begin(again(here, drained=False))
        here.until(lambda: here.copied(committed=True)[-1] == b"later")
        here.pass_by(FOUND_S)
        assert copier.tally.differences == {}
        assert here.held == []


def test_copies_that_arrived_after_the_stored_position_are_no_difference() -> None:
    """The source has deleted their originals, so that only their producer tells that they are copies."""
    with proving(difference_policy="hold") as (here, _):
        copier = here.begin()
        here.feed([b"%d" % number for number in range(9)])
        here.until(lambda: all_proven(here, copier) and len(here.copied()) == 9)
        here.pass_by(3)
        position = here.stored()
        here.feed([b"%d" % number for number in range(9, 30)])
        here.until(lambda: len(here.copied()) == 30)
        here.crash(copier)
        here.source.log("shop").delete_before(20)
        here.feed([b"later"])
        copier = here.begin(here.grant(position=position))
        here.until(lambda: here.copied()[-1] == b"later")
        assert copier.tally.differences == {}
        assert here.held == []


def test_an_unproven_topic_is_copied_on() -> None:
    with proving(proof=False) as (here, _):
        copier = here.begin()
        here.feed([b"a"])
        here.until(lambda: here.copied() == [b"a"])
        here.pass_by(3)
        here.crash(copier)
        intruded(here, "committed")
        here.feed([b"later"])
        copier = here.begin(again(here, drained=False))
        here.until(lambda: here.copied()[-1] == b"later")
        assert [kind for kind, _ in here.events] == ["foreign"]
        assert copier.tally.differences == {}


@pytest.mark.parametrize("policy", ["report", "hold"])
@pytest.mark.parametrize("behind", [False, True])
def test_it_counts_once_when_the_copier_itself_finds_it(behind: bool, policy: str) -> None:
    """The target forgets the producer, so that the copier reads the records after its last acknowledged one."""
    with proving(difference_policy=policy) as (here, _):
        copier = here.begin()
        here.feed([b"%d" % number for number in range(9)])
        here.until(lambda: all_proven(here, copier) and len(here.copied()) == 9)
        here.pass_by(3)
        if behind:
            frozen(here, copier)
        here.target.write(REMOTE, b"foreign")
        here.target.codes(PRODUCE, REMOTE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
        here.feed([b"later"])
        if policy == "report":
            here.until(lambda: here.copied()[-1] == b"later")
        else:
            here.until(lambda: bool(here.held))
        thawed(here)
        here.pass_by(FOUND_S)
        assert copier.tally.differences == {"foreign": 1}
        assert len([text for kind, text in here.events if kind == "difference"]) == (policy == "report")
        assert [held.reason for held in here.held] == ([] if policy == "report" else ["difference"])
        if policy == "hold":
            stored = here.stored()
            assert stored is not None
            assert stored.difference == 9
