"""Trouble of a dead letter: its topic is away, deleted or unwilling, or its partition is released meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import LIST_OFFSETS, PRODUCE
from tests.copier_reports import copy_partitions
from tests.unit.copier.changing import VALUES, at, by, seen
from tests.unit.copier.copied import REMOTE, TOPIC, World, part, world
from twinlog.kafka.protocol.error_codes import Code
from twinlog.settings.transform import FailedRecordSettings

DEAD = FailedRecordSettings(tolerance="all", dead_letter_topic="dead")
POLICY: dict[str, Any] = {"refused_record_policy": "dead-letter", "failed_records": DEAD}


def refuse_for_ever(here: World, topic: str, code: int) -> None:
    here.target.fault(PRODUCE, Fault(code=code), times=10**6, topic=topic)


def test_an_aborted_transaction_does_not_leave_the_partition_silent() -> None:
    """The dead-letter topic has no leader for longer than a transaction may wait."""
    with world(partitions=2, brokers=2, exactly_once="enabled", **POLICY) as here:
        here.target.create("dead")
        here.target.move("dead", 0, 2)
        here.begin(here.grant(0), here.grant(1))
        here.pass_by(1)
        here.target.codes(PRODUCE, REMOTE, Code.INVALID_RECORD)
        here.target.move("dead", 0, None)
        here.write(b"refused")
        here.write(b"x", number=1)
        here.pass_by(14)
        here.target.move("dead", 0, 2)
        here.write(b"b", b"c")
        here.until(lambda: at(here) == 3)
        assert here.copied(0, committed=True)[-2:] == [b"b", b"c"]


def test_other_partitions_are_committed_while_a_dead_letter_waits_for_its_topic() -> None:
    with world(partitions=2, brokers=2, exactly_once="enabled", **POLICY) as here:
        here.target.create("dead")
        here.begin(here.grant(0), here.grant(1))
        here.pass_by(1)
        here.target.move("dead", 0, None)
        here.target.codes(PRODUCE, REMOTE, Code.INVALID_RECORD)
        here.write(b"refused")
        here.until(lambda: here.target.faults_left == 0)
        for count in range(1, 31):
            here.write(b"x", number=1)
            here.pass_by(2)
            assert at(here, 1) == count
        here.write(b"b")
        here.pass_by(2)
        assert here.copied(0) == []
        assert [text for kind, text in here.events if kind == "transaction"] == []
        here.target.move("dead", 0, 2)
        here.until(lambda: at(here) == 2)
        assert (here.copied(0, committed=True), here.target.log("dead").values()) == ([b"b"], [b"refused"])


def test_a_routed_dead_letter_that_waits_holds_up_other_partitions_less_and_less() -> None:
    with world(transform=by("but_the_first"), partitions=2, exactly_once="enabled", **POLICY) as here:
        here.target.create("dead")
        here.target.create("everything", 2)
        here.begin(here.grant(0), here.grant(1))
        here.pass_by(1)
        here.target.move("dead", 0, None)
        here.target.codes(PRODUCE, "everything", *[Code.INVALID_RECORD] * 1000, partition=1)
        here.write(b"refused", number=1)
        here.pass_by(300)
        aborted = [text for kind, text in here.events if kind == "transaction"]
        assert 5 <= len(aborted) <= 9
        assert aborted[0].endswith("the target did not take what was routed of shop-1")
        here.write(b"x")
        here.until(lambda: at(here) == 1, 20)
        here.target.faults.clear()
        here.until(lambda: seen(here, "everything", 1) == [b"refused"], 90)
        assert here.failures == []


def test_a_time_that_the_dead_letter_topic_refuses_as_well_is_a_header() -> None:
    with world(**POLICY) as here:
        here.target.create("dead")
        here.begin()
        here.pass_by(1)
        here.target.codes(PRODUCE, REMOTE, Code.INVALID_TIMESTAMP)
        here.target.codes(PRODUCE, "dead", Code.INVALID_TIMESTAMP)
        here.write(b"refused")
        here.until(lambda: at(here) == 1)
        (record,) = here.target.log("dead").records()
        at_first = dict(record.headers)["__connect.errors.timestamp"]
        assert record.value == b"refused"
        assert int(at_first or b"") != record.timestamp
        assert here.held == []


def test_a_dead_letter_topic_that_refuses_for_good_holds_the_partition() -> None:
    with world(**POLICY) as here:
        here.target.create("dead")
        refuse_for_ever(here, "dead", Code.INVALID_RECORD)
        here.begin()
        here.pass_by(1)
        here.target.codes(PRODUCE, REMOTE, Code.INVALID_RECORD)
        here.write(b"refused")
        here.until(lambda: bool(here.held))
        assert "the dead-letter topic dead does not take it either" in here.held[0].text
        assert here.failures == []


def test_a_dead_letter_topic_that_is_deleted_is_made_again() -> None:
    with world(**POLICY) as here:
        here.begin()
        here.pass_by(1)
        for count, value in enumerate((b"first", b"second"), start=1):
            here.target.codes(PRODUCE, REMOTE, Code.INVALID_RECORD)
            here.write(value)
            here.pass_by(60)
            assert at(here) == count
            assert seen(here, "dead") == [value]
            here.target.topics.delete("dead")


def test_a_refused_dead_letter_of_a_routed_record_leaves_others_of_its_queue_their_way() -> None:
    with world(transform=by("gathering"), partitions=2, **POLICY) as here:
        here.target.create("everything")
        here.target.create("dead")
        here.target.fault(PRODUCE, Fault(code=Code.TOPIC_AUTHORIZATION_FAILED), times=1, topic="dead")
        here.begin(here.grant(0), here.grant(1))
        here.pass_by(1)
        here.target.codes(PRODUCE, "everything", Code.INVALID_RECORD)
        here.write(b"refused")
        here.until(lambda: bool(here.held))
        here.write(b"4", b"5", number=1)
        here.until(lambda: at(here, 1) == 2)
        assert seen(here, "everything") == [b"4", b"5"]


def _in_a_gap_check(here: World) -> None:
    here.feed(VALUES[:6])
    here.until(lambda: at(here) == 6)
    here.run(here.copiers[0].release_partitions, [part(0)])
    here.feed(VALUES[6:])
    here.source.log(TOPIC).delete_before(12)
    here.run(copy_partitions, here.copiers[0], [here.grant(0, here.stored(), drained=True)])
    here.source.fault(LIST_OFFSETS, Fault(delay_s=0.2), times=10)
    here.until(lambda: here.copiers[0].partitions[part(0)].paused)


def _in_a_dead_letter(here: World) -> None:
    here.target.codes(PRODUCE, REMOTE, Code.INVALID_RECORD)
    here.target.fault(PRODUCE, Fault(code=Code.MESSAGE_TOO_LARGE, delay_s=4), times=1, topic="dead")
    here.write(b"refused")
    here.pass_by(0.5)


def _in_an_append(here: World) -> None:
    here.target.fault(PRODUCE, Fault(code=Code.MESSAGE_TOO_LARGE, delay_s=0.5), times=1, topic=REMOTE)
    here.write(b"refused")
    here.until(lambda: here.target.faults_left == 0)


@pytest.mark.parametrize("trouble", [_in_a_gap_check, _in_a_dead_letter, _in_an_append])
def test_trouble_of_a_partition_that_has_left_holds_and_fails_nothing(trouble: Callable[[World], None]) -> None:
    with world(partitions=2, **POLICY) as here:
        here.target.create("dead")
        copier = here.begin(here.grant(0), here.grant(1))
        here.pass_by(1)
        trouble(here)
        here.pass_by(0.05)
        here.run(copier.release_partitions, [part(0)])
        here.pass_by(10)
        assert here.failures == []
        assert here.held == []
        assert copier.add_grants([here.grant(0, here.stored(), drained=True)])
