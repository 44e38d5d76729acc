"""Held and paused partitions: a switchover would wait for them in vain, so they are named before it begins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.ops.switchover.machines import A_TO_B, PLANNED, machine
from tests.unit.ops.switchover.reported import reported_target
from tests.unit.ops.switchover.scripted import Brokers
from tests.unit.ops.switchover.test_preflight import GOOD, ORDERS, P0, notes, problems
from tests.unit.ui.fakes import HELD
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.model.held import HeldPartition
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.ops.switchover.model import CopiedPosition, SourceEnd, SwitchoverKind
from twinlog.ops.switchover.steps.waiting import QUICK_FOR_S
from twinlog.ops.switchover.stopped_partitions import (
    MOST_NAMED,
    PassedRange,
    StoppedPartitions,
    StoppedPartitionsReader,
    passed_ranges,
)
from twinlog.worker.control.journal import ControlJournal
from twinlog.worker.control.model import (
    CommandOutcome,
    CommandState,
    PartitionMove,
    PartitionSelector,
    TopicCommand,
    TopicVerb,
)
from twinlog.worker.status.report import DriverReport

SEVEN = SourceOffset(7)
AT_SEVEN = replace(HELD, partition=0, source_offset=SEVEN, resume_at=SourceOffset(9))
"""The partition of `GOOD`, which ends at 10 and is copied up to 7."""


def held(*partitions: HeldPartition, **fields: object) -> StoppedPartitions:
    return StoppedPartitions(partitions, flow="s:w", **fields)


def test_a_held_partition_with_records_to_copy_is_an_obstacle_with_its_id_and_its_way_out() -> None:
    (problem,) = problems(replace(GOOD, stopped=held(AT_SEVEN)))
    assert problem == (
        "TW-GAP-01: orders-0 is held at source offset 7: records were deleted before their copy; accept the gap"
    )
    (problem,) = problems(replace(GOOD, stopped=held(replace(AT_SEVEN, way_out=""))))
    skip = "twinlog topics skip-to FILE orders-0 --flow s:w --to-offset OFFSET"
    assert problem.endswith(f"mend the cause, or leave its records out by `{skip}`")


def test_a_held_partition_without_records_to_copy_delays_nothing() -> None:
    # Everything is copied.
    at_end = replace(AT_SEVEN, source_offset=SourceOffset(10), resume_at=SourceOffset(-1))
    done = replace(GOOD, copied={P0: CopiedPosition(10, 10)}, stopped=held(at_end))
    # A later process has copied more since the report, and reports nothing.
    before = replace(AT_SEVEN, source_offset=SourceOffset(4), resume_at=SourceOffset(-1))
    passed = replace(GOOD, stopped=held(before))
    # It is no partition of the moved topics.
    elsewhere = replace(GOOD, stopped=held(replace(AT_SEVEN, topic="logs")))
    for facts in (done, passed, elsewhere):
        assert problems(facts) == []


def test_a_log_that_was_cut_back_has_records_to_copy_before_its_position() -> None:
    cut_back = replace(AT_SEVEN, source_offset=SourceOffset(20), resume_at=SourceOffset(5))
    facts = replace(GOOD, copied={P0: CopiedPosition(20, 20)}, stopped=held(cut_back))
    assert len(problems(facts)) == 1
    # Nothing came since.
    assert problems(replace(facts, ends={P0: SourceEnd(5, 5)})) == []


def test_a_paused_partition_with_records_to_copy_is_an_obstacle() -> None:
    paused = held(paused=frozenset({P0}))
    assert problems(replace(GOOD, stopped=paused)) == [
        "orders-0 is paused with 3 records to copy; have it copied by `twinlog topics resume FILE orders-0 --flow s:w`"
    ]
    assert problems(replace(GOOD, copied={P0: CopiedPosition(10, 10)}, stopped=paused)) == []


def test_many_paused_partitions_are_named_in_part() -> None:
    parts = [TopicPartition(ORDERS, number) for number in range(MOST_NAMED + 2)]
    found = StoppedPartitions(paused=frozenset(parts)).obstacles(dict.fromkeys(parts, 1), {}, {})
    assert len(found) == MOST_NAMED + 1
    assert found[-1].startswith("2 more partitions paused with records to copy")


def test_held_partitions_that_the_report_leaves_out_are_counted() -> None:
    (problem,) = problems(replace(GOOD, stopped=held(more_held=3)))
    assert problem.startswith("TW-HELD-01: 3 more partitions held")
    assert problems(replace(GOOD, copied={P0: CopiedPosition(10, 10)}, stopped=held(more_held=3))) == []


def test_before_a_way_back_the_fence_of_the_switchover_holds_the_flow_back() -> None:
    back = replace(GOOD, kind=SwitchoverKind.BACK)
    refused = replace(AT_SEVEN, reason="missing right", message_id="TW-RIGHT-01")
    assert problems(replace(back, stopped=held(refused, more_held=3))) == []
    assert len(problems(replace(back, stopped=held(AT_SEVEN)))) == 1
    assert len(problems(replace(GOOD, stopped=held(refused)))) == 1


def test_without_a_report_held_partitions_are_noted_as_unknown() -> None:
    unknown = replace(GOOD, stopped=StoppedPartitions(reported=False))
    assert problems(unknown) == []
    words = "held partitions of flow east->west are unknown"
    assert [words in note for note in notes(unknown)].count(True) == 1
    assert not any(words in note for note in notes(GOOD))


def outcome(verb: TopicVerb, before: int, after: int, passed: int = 0, **fields: Any) -> CommandOutcome:
    move = PartitionMove(P0, SourceOffset(before), SourceOffset(after), changes=True, passed=passed)
    command = TopicCommand(f"{verb} {before}", verb, (PartitionSelector("orders"),))
    return replace(CommandOutcome(command, CommandState.APPLIED, moves=(move,)), **fields)


def test_offsets_that_a_command_passed_over_are_a_note() -> None:
    gap = outcome(TopicVerb.ACCEPT_GAP, 1000, 1500, 500)
    passed = tuple(passed_ranges([gap], {P0}))
    found = notes(replace(GOOD, stopped=held(passed=passed)))
    assert "orders-0: accept-gap passed over source offsets 1000 to 1499, without a copy" in found


WAITING = DriverReport("s->w", "host-1", 60_000, 0, "running", lag=20, oldest_ms=57_000)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (
            WAITING,
            (
                "20 records at the last report of the flow (1970-01-01T00:01:00Z), and all later records; records that "
                "were written before 1970-01-01T00:00:57Z are copied"
            ),
        ),
        (
            replace(WAITING, lag=0, oldest_ms=None, lag_age_s=5.0),
            (
                "0 records at the last report of the flow (1970-01-01T00:01:00Z), and all later records; records that "
                "were written before 1970-01-01T00:00:55Z are copied"
            ),
        ),
        (
            replace(WAITING, paused=1, paused_lag=295),
            (
                "315 records at the last report of the flow (1970-01-01T00:01:00Z), and all later records; records "
                "outside paused partitions that were written before 1970-01-01T00:00:57Z are copied"
            ),
        ),
        (
            replace(WAITING, paused=2),
            (
                "20 records at the last report of the flow (1970-01-01T00:01:00Z), and all later records; of 2 paused "
                "partitions the number is unknown; records outside paused partitions that were written before "
                "1970-01-01T00:00:57Z are copied"
            ),
        ),
        (
            replace(WAITING, unknown=2),
            (
                "20 records at the last report of the flow (1970-01-01T00:01:00Z), and all later records; of 2 "
                "partitions the number is unknown"
            ),
        ),
        (
            replace(WAITING, lag=-1, unknown=3),
            "an unknown number of records at the last report of the flow (1970-01-01T00:01:00Z), and all later records",
        ),
        (None, "unknown, as the flow lacks a report: MirrorMaker 2 writes none"),
    ],
)
@pytest.mark.parametrize("error", ["cluster east: silent", None])
def test_an_emergency_notes_the_records_that_it_leaves_behind(
    report: DriverReport | None, words: str, error: str | None
) -> None:
    passed = tuple(passed_ranges([outcome(TopicVerb.ACCEPT_GAP, 1000, 1500, 500)], {P0}))
    elsewhere = replace(AT_SEVEN, topic="logs")
    stopped = held(AT_SEVEN, elsewhere, passed=passed, paused=frozenset({P0}), report=report)
    facts = replace(GOOD, kind=SwitchoverKind.EMERGENCY, source_error=error, stopped=stopped)
    assert notes(facts)[1:] == [
        f"records of east without a copy: {words}",
        "orders-0 was held at source offset 7 (gap): its later records are on east alone",
        "paused, so their later records are on east alone: orders-0",
        "orders-0: accept-gap passed over source offsets 1000 to 1499, without a copy",
    ]


def test_offsets_that_were_copied_later_are_no_note() -> None:
    skip = outcome(TopicVerb.SKIP_TO, 10, 20, 10)
    assert len(passed_ranges([skip, outcome(TopicVerb.RESTART_FROM, 40, 20)], {P0})) == 1
    assert passed_ranges([skip, outcome(TopicVerb.RESTART_FROM, 40, 10)], {P0}) == []
    assert passed_ranges([replace(skip, result=CommandState.REFUSED)], {P0}) == []
    assert passed_ranges([skip], set()) == []
    # The log was cut back: later records have these offsets.
    assert passed_ranges([outcome(TopicVerb.ACCEPT_GAP, 20, 10)], {P0}) == []


def test_the_steps_show_the_partition_that_they_wait_for() -> None:
    told: list[str] = []
    brokers = Brokers(A_TO_B, stopped=("TW-GAP-01: orders-0 is held at source offset 30", "orders-1 is paused"))
    machine(brokers, told=told).run(replace(PLANNED, near=5))
    shown = [line for line in told if "is held" in line]
    assert shown
    begin = "catch-up: TW-GAP-01: orders-0 is held at source offset 30 (and 1 more); "
    assert all(line.startswith(begin) for line in shown)
    # While producers wait, the first looks are quick, and leave the report alone.
    told.clear()
    brokers = Brokers(A_TO_B, stopped=("orders-0 is paused",), copies_after_ms=int(3 * QUICK_FOR_S * 1000))
    machine(brokers, told=told).run(PLANNED)
    drains = [line for line in told if line.startswith("drain: ") and "left" in line]
    assert "is paused" not in drains[0]
    assert drains[-1].startswith("drain: TW-SWITCH-18: orders-0 is paused; ")


def test_the_report_and_the_pauses_are_read_from_the_target() -> None:
    orders = [TopicPartition(TopicName("orders"), number) for number in range(3)]
    settings = flow("s", "w", "default")
    with reported_target() as target:
        reader = StoppedPartitionsReader(settings, target.admin)
        assert reader.read_stopped(orders) == StoppedPartitions(reported=False, flow="s:w")

        at_ms = int(target.loop.clock.wall() * 1000)
        report = DriverReport("s->w", "host-1", at_ms, at_ms, "running", held=4, held_partitions=(AT_SEVEN,))
        target.report(report)
        pause = TopicCommand("id-1", TopicVerb.PAUSE, (PartitionSelector("orders", (2,)),), by="x")
        journal = ControlJournal(settings, target.admin)
        journal.write_command(pause)
        gap = outcome(TopicVerb.ACCEPT_GAP, 2, 5, 3)
        asked = journal.write_command(gap.command)
        journal.end(journal.record_moves(asked, gap.moves or ()), CommandState.APPLIED, "host-1")
        passed = (PassedRange(P0, TopicVerb.ACCEPT_GAP, SourceOffset(2), SourceOffset(5)),)
        assert reader.read_stopped(orders) == StoppedPartitions(
            (AT_SEVEN,), 3, frozenset({orders[2]}), flow="s:w", passed=passed, report=report
        )
