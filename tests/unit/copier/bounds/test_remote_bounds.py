"""The bounds of a remote log, where copies keep their offsets: its begin follows the source, its end is watched."""

from __future__ import annotations

from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import DELETE_RECORDS, LIST_OFFSETS, PRODUCE
from tests.unit.copier.copied import REMOTE, TOPIC, World, part, world
from tests.unit.copier.identical.test_identical_transactions import SourceProducer, require_same, transactional_world
from twinlog.copier.partition.source_log import SourcePosition
from twinlog.copier.remote_bounds import ENDS_S, INTERVAL_S, REFUSED_S
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import PartitionResponse
from twinlog.lease.messages import Grant

VALUES = [b"%d" % number for number in range(40)]


def copied_world(here: World, partitions: int = 1) -> None:
    """Each partition has 40 records on both sides, and its log begins at 0."""
    for number in range(partitions):
        here.feed(VALUES, number=number)
    here.begin(*(here.grant(number) for number in range(partitions)))
    here.until(lambda: all(here.target.log(REMOTE, number).end == 40 for number in range(partitions)))


def trim(here: World, offset: int, number: int = 0) -> None:
    here.source.log(TOPIC, number).delete_before(offset)


def starts(here: World, partitions: int = 1) -> list[int]:
    return [here.target.log(REMOTE, number).start for number in range(partitions)]


def test_the_begin_follows_while_nothing_is_written() -> None:
    with world(offsets="identical") as here:
        copied_world(here)
        log = here.source.log(TOPIC)
        for begin in (1, 12, 40):
            trim(here, begin)
            assert here.until(lambda: starts(here) == [log.start]) < 2 * INTERVAL_S
        here.feed(VALUES)
        here.until(lambda: here.target.log(REMOTE).end == 80)
        assert here.held == []
        assert here.target.asked[DELETE_RECORDS] == 3


def test_logs_that_begin_at_the_same_offset_need_no_request() -> None:
    with world(offsets="identical") as here:
        copied_world(here)
        here.pass_by(5 * INTERVAL_S)
        assert here.target.asked[DELETE_RECORDS] == 0


def test_partitions_of_a_broker_share_a_request() -> None:
    with world(offsets="identical", partitions=4) as here:
        copied_world(here, 4)
        for number in range(4):
            trim(here, 10 + number, number)
        here.until(lambda: starts(here, 4) == [10, 11, 12, 13])
        assert here.target.asked[DELETE_RECORDS] == 1


def test_translated_offsets_leave_the_remote_log_alone() -> None:
    with world() as here:
        copied_world(here)
        trim(here, 12)
        here.pass_by(5 * INTERVAL_S)
        assert starts(here) == [0]


def test_only_copies_are_deleted() -> None:
    """The source deletes records that a copier has read, and the target does not have yet."""
    with world(offsets="identical") as here:
        copied_world(here)
        here.target.fault(PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER), times=300, topic=REMOTE)
        here.feed(VALUES)
        here.pass_by(1.0)
        trim(here, 60)
        here.until(lambda: starts(here) == [40])
        assert here.target.log(REMOTE).end == 40
        here.target.faults.clear()
        here.until(lambda: starts(here) == [60])
        assert here.copied()[-20:] == VALUES[20:]
        assert here.held == []


def test_the_next_copier_makes_up_for_it() -> None:
    with world(offsets="identical") as here:
        copied_world(here)
        here.pass_by(3)
        here.crash(here.copiers[0])
        trim(here, 33)
        here.begin(here.grant(position=here.stored()))
        here.until(lambda: starts(here) == [33])
        here.feed(VALUES)
        here.until(lambda: here.target.log(REMOTE).end == 80)
        assert here.held == []


def test_an_aborted_transaction_that_has_lost_its_first_records() -> None:
    with transactional_world() as here:
        one = SourceProducer(here, 7)
        here.write(b"before")
        one.send(b"1")
        one.send(b"2")
        here.write(b"3")
        here.begin()
        one.end(commit=False)
        require_same(here)
        trim(here, 2)
        require_same(here)
        here.write(b"after")
        require_same(here)


def test_a_foreign_record_is_found_while_the_source_is_idle() -> None:
    with world(offsets="identical", partitions=2) as here:
        copied_world(here, 2)
        here.target.write(REMOTE, b"foreign")
        here.until(lambda: bool(here.held), 2 * ENDS_S)
        (held,) = here.held
        assert (held.partition, held.reason, held.source_offset) == (0, "diverged", 40)
        assert "it ends at offset 41, and the copies end before offset 40" in held.text
        here.feed(VALUES, number=1)
        here.until(lambda: here.target.log(REMOTE, 1).end == 80)
        assert here.failures == []


def test_records_of_applications_that_have_moved_are_never_deleted() -> None:
    """An operator empties the old source while the flow still runs."""
    with world(offsets="identical") as here:
        copied_world(here)
        here.target.write(REMOTE, b"of the application")
        trim(here, 40)
        here.until(lambda: bool(here.held), 3 * INTERVAL_S)
        assert here.held[0].reason == "diverged"
        assert starts(here) == [0]


def test_copies_under_way_are_no_foreign_records() -> None:
    with world(offsets="identical") as here:
        copied_world(here)
        here.target.fault(PRODUCE, Fault(delay_s=2.0), times=50, topic=REMOTE)
        for _ in range(40):
            here.feed(VALUES)
            here.pass_by(ENDS_S / 20)
        here.until(lambda: here.target.log(REMOTE).end == 41 * 40)
        assert here.held == []


@pytest.mark.parametrize(
    ("code", "compacted", "why"),
    [
        (Code.TOPIC_AUTHORIZATION_FAILED, False, "lacks DELETE on topic north.shop"),
        (Code.NONE, True, "cleanup.policy of the topic lacks delete"),
    ],
    ids=["right", "policy"],
)
def test_a_refusal_is_reported_and_tried_again(code: Code, compacted: bool, why: str) -> None:
    with world(offsets="identical") as here:
        copied_world(here)
        if compacted:
            here.target.topics.configs[REMOTE]["cleanup.policy"] = "compact"
        here.target.codes(DELETE_RECORDS, REMOTE, code)
        trim(here, 12)
        here.until(lambda: bool(here.events))
        ((kind, text),) = here.events
        assert kind == "log start"
        assert "north.shop-0 keeps the records before offset 12, which shop-0 deleted" in text
        assert why in text
        here.feed(VALUES)
        here.until(lambda: here.target.log(REMOTE).end == 80)
        here.pass_by(REFUSED_S / 2)
        assert here.target.asked[DELETE_RECORDS] == 1
        here.target.topics.configs[REMOTE]["cleanup.policy"] = "delete"
        assert here.until(lambda: starts(here) == [12]) < REFUSED_S
        assert (len(here.events), here.held, here.failures) == (1, [], [])


@pytest.mark.parametrize(
    "fault",
    [
        Fault(lost=True),
        Fault(lost=True, done=True),
        Fault(code=Code.NOT_LEADER_OR_FOLLOWER),
        Fault(code=Code.REQUEST_TIMED_OUT),
    ],
    ids=["lost", "done", "moved", "replica is late"],
)
def test_an_answer_without_success_is_asked_for_again(fault: Fault) -> None:
    with world(offsets="identical") as here:
        copied_world(here)
        here.target.fault(DELETE_RECORDS, fault, times=2)
        trim(here, 12)
        here.until(lambda: starts(here) == [12], 200)
        here.pass_by(3 * INTERVAL_S)
        assert here.target.asked[DELETE_RECORDS] == 3
        assert (here.events, here.held, here.failures) == ([], [], [])
        assert here.copiers[0].partitions[part()].trouble is None


@pytest.mark.parametrize("records", [0, 10, 40])
def test_a_remote_topic_that_was_created_again_keeps_the_records_of_its_applications(records: int) -> None:
    """The source is idle, so no append has told the copier of the new topic."""
    with world(offsets="identical") as here:
        copied_world(here)
        here.target.topics.delete(REMOTE)
        here.target.create(REMOTE)
        if records:
            here.target.write(REMOTE, *[b"of the application"] * records)
        trim(here, 5)
        here.pass_by(4 * INTERVAL_S)
        assert starts(here) == [0]
        assert here.copied() == [b"of the application"] * records
        assert here.target.asked[DELETE_RECORDS] == 0


def test_a_remote_log_that_was_cut_back_is_left_alone() -> None:
    with world(offsets="identical") as here:
        copied_world(here)
        here.target.log(REMOTE).cut(39)
        trim(here, 12)
        here.pass_by(4 * INTERVAL_S)
        assert here.target.asked[DELETE_RECORDS] == 0
        assert starts(here) == [0]


def test_a_replica_of_the_source_that_begins_later_than_its_leader_deletes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A near replica (KIP-392) has applied retention before the leader."""
    record_fetch = SourcePosition.record_fetch

    def from_replica(position: SourcePosition, fetched: PartitionResponse, **how: Any) -> None:
        fetched.log_start = max(fetched.log_start, 30)
        record_fetch(position, fetched, **how)

    monkeypatch.setattr(SourcePosition, "record_fetch", from_replica)
    with world(offsets="identical") as here:
        copied_world(here)
        here.pass_by(3 * INTERVAL_S)
        assert starts(here) == [0]
        trim(here, 12)
        here.until(lambda: starts(here) == [12])
        here.pass_by(3 * INTERVAL_S)
        assert here.target.asked[DELETE_RECORDS] == 1
        trim(here, 33)
        here.until(lambda: starts(here) == [33])


def test_a_topic_with_a_missing_right_does_not_hold_up_the_other_topics() -> None:
    with world(offsets="identical") as here:
        here.source.create("other", 1)
        here.target.create("north.other", 1)
        here.feed(VALUES)
        here.source.write("other", *VALUES)
        other = Grant(part(0, "other"), part(0, "north.other"), None, 1 << 20, None)
        here.begin(here.grant(), other)
        here.until(lambda: here.target.log(REMOTE).end == here.target.log("north.other").end == 40)
        here.target.codes(LIST_OFFSETS, "north.other", *[Code.TOPIC_AUTHORIZATION_FAILED] * 1000)
        trim(here, 12)
        here.until(lambda: starts(here) == [12])
        here.source.log("other").delete_before(7)
        trim(here, 22)
        here.until(lambda: starts(here) == [22])
        assert (here.held, here.failures) == ([], [])


def test_the_begin_follows_after_an_election_while_nothing_is_written() -> None:
    with world(offsets="identical", brokers=2) as here:
        copied_world(here)
        here.target.move(REMOTE, 0, 2)
        trim(here, 12)
        here.until(lambda: starts(here) == [12])
        assert here.held == []
