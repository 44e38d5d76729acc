"""A source that is lost before a switchover, on its way or after it, and the way back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.ops.switchover.machines import (
    A_TO_B,
    B_TO_A,
    BOTH_NAMINGS,
    PLANNED,
    killed_everywhere,
    machine,
    stopped_in_watch,
)
from tests.unit.ops.switchover.scripted import (
    FENCE_PLAN,
    P0,
    P1,
    Brokers,
    Kill,
    KilledError,
    ScriptedJournal,
    ScriptedWorld,
)
from twinlog.errors import RefusedError
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.mirror.topics.journal_keys import SwitchoverState
from twinlog.model.types import TopicPartition
from twinlog.ops.switchover.journal import JournalEntries, ended_by
from twinlog.ops.switchover.machine import SwitchoverMachine
from twinlog.ops.switchover.model import (
    SwitchoverKind,
    SwitchoverOptions,
    TooLongError,
)
from twinlog.ops.switchover.rehearsal import rehearse, unavailable_s
from twinlog.ops.switchover.report import report


def way_back(there: Brokers, earlier: JournalEntries, **what: Any) -> Brokers:
    """The clusters after a switchover, with some records more where producers went."""
    brokers = Brokers(B_TO_A, there.keeps_names, earlier=earlier, **what)
    if there.keeps_names:
        brokers.logs = {P0: 1090, P1: 1040}
        brokers.copied |= {where: offset for (_, where), offset in there.seeded.items()}
    return brokers


def test_a_lost_source_is_left_where_it_was_copied_to() -> None:
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    for brokers in killed_everywhere(
        lambda: Brokers(A_TO_B, source_lost=True), lambda brokers, kill: machine(brokers, kill).run(emergency)
    ):
        entries = ScriptedJournal(brokers, Kill()).entries
        assert (entries.done("settle") or {})["cut"] == {"orders": {"0": 10, "1": 20}}
        assert (entries.done("prove") or {})["positions"] == {"orders": {"0": 1010, "1": 1020}}
        assert brokers.seeded == {}


def test_the_rehearsal_of_an_emergency_counts_the_wait_for_a_silent_source() -> None:
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    waits = {}
    for lost in (False, True):
        brokers = Brokers(A_TO_B, source_lost=lost, copied={P0: 50, P1: 20})
        _, steps = rehearse(ScriptedWorld(brokers, Kill()), emergency, JournalEntries())
        waits[lost] = unavailable_s(steps) or 0.0
        assert [one.step for one in steps].count("connect") == lost
    assert waits[True] == pytest.approx(waits[False] + COMMAND_CONNECT_S)


def test_the_steps_of_an_emergency_claim_no_record_and_no_end_of_the_lost_source() -> None:
    emergency, told = SwitchoverOptions(SwitchoverKind.EMERGENCY), list[str]()
    _, rehearsed = rehearse(ScriptedWorld(Brokers(A_TO_B, source_lost=True), Kill()), emergency, JournalEntries())
    lost = report(machine(Brokers(A_TO_B, source_lost=True), told=told).run(emergency))
    planned = report(machine(Brokers(A_TO_B)).run(PLANNED))
    words = {
        "settle": ("wait until the copies keep their ends", "wait until the source stands still"),
        "prove": ("note the ends of the copies on the target", "show that all records are on the target"),
    }
    for step, (of_lost, of_planned) in words.items():
        assert [one["does"] for one in lost["steps"] if one["step"] == step] == [of_lost]
        assert [one["does"] for one in planned["steps"] if one["step"] == step] == [of_planned]
        assert [one.words for one in rehearsed if one.step == step] == [of_lost]
        assert f"{step}: {of_lost}" in told
        assert f"{step}: {of_planned}" not in told


@BOTH_NAMINGS
@pytest.mark.parametrize("lost", [False, True], ids=["planned", "emergency"])
def test_the_way_back_begins_at_the_cut(keeps_names: bool, lost: bool) -> None:
    there = Brokers(A_TO_B, keeps_names, source_lost=lost)
    earlier = machine(there).run(SwitchoverOptions(SwitchoverKind.EMERGENCY) if lost else PLANNED)
    for brokers in killed_everywhere(
        lambda: way_back(there, earlier, left_fence=None if lost else FENCE_PLAN),
        lambda brokers, kill: machine(brokers, kill).run(SwitchoverOptions(SwitchoverKind.BACK, near=100)),
    ):
        assert brokers.fenced
        assert lost or "target" in brokers.lifts
        assert brokers.closed_copies
        assert brokers.left_fence is None
        assert brokers.noted_fence == FENCE_PLAN
        assert brokers.copied == brokers.logs
        seeds = {side for side, _ in brokers.seeded}
        if keeps_names and lost:
            # The source was not there to be told where the way back begins.
            assert brokers.seeded["target", P0] == 1010
            assert seeds == {"source", "target"}
        else:
            assert seeds == ({"source"} if keeps_names else set())


def test_a_way_back_that_was_undone_does_not_begin_at_the_cut_again() -> None:
    there = Brokers(A_TO_B, source_lost=True)
    earlier = machine(there).run(SwitchoverOptions(SwitchoverKind.EMERGENCY))
    brokers = way_back(there, earlier, stops_when_fenced=True)
    back = SwitchoverOptions(SwitchoverKind.BACK, near=60, at_most_s=60)
    with pytest.raises(TooLongError):
        machine(brokers).run(back)
    copied = dict(brokers.copied)
    assert copied[P0] > 1010
    brokers.stops_when_fenced = False
    # The scripted world asserts that no position goes back.
    machine(brokers).run(back)
    assert brokers.seeded["target", P0] == 1010
    assert brokers.copied == brokers.logs


def test_what_a_lost_cluster_had_left_is_seen_where_nothing_was_copied_since_an_earlier_way_back() -> None:
    there = Brokers(A_TO_B, source_lost=True)
    earlier = machine(there).run(SwitchoverOptions(SwitchoverKind.EMERGENCY))
    brokers = way_back(there, earlier)
    brokers.copied = {P0: 1010, P1: 1020}
    entries = machine(brokers).run(SwitchoverOptions(SwitchoverKind.BACK, near=60))
    assert (entries.done("rejoin") or {})["tail"]["orders"].keys() == {"0", "1"}


@pytest.mark.parametrize("undoing", [False, True])
def test_a_source_that_is_lost_on_the_way_makes_an_emergency_of_it(undoing: bool) -> None:
    brokers = Brokers(A_TO_B, stops_when_fenced=True)
    with pytest.raises(KilledError):
        machine(brokers, Kill(40)).run(PLANNED)
    plan = ScriptedJournal(brokers, Kill()).entries.begun("fence")
    assert brokers.fenced
    assert plan
    brokers.source_lost = True
    if undoing:
        with pytest.raises(RefusedError):
            machine(brokers).abort()
    entries = machine(brokers).run(SwitchoverOptions(SwitchoverKind.EMERGENCY))
    assert entries.run is not None
    assert (entries.run.state, entries.run.options.kind) == (SwitchoverState.DONE, SwitchoverKind.EMERGENCY)
    # How to lift the fence went along.
    assert entries.begun("fence") == plan


def test_an_emergency_after_the_end_brings_groups_alone_unless_there_was_a_way_back() -> None:
    brokers = Brokers(A_TO_B)
    planned = machine(brokers).run(PLANNED).run
    brokers.source_lost = True
    assert planned is not None
    again = machine(brokers).run(SwitchoverOptions(SwitchoverKind.EMERGENCY)).run
    assert again is not None
    assert again.name == planned.name
    # The journal that tells of the way back is lost with the source; but more was copied since.
    brokers.copied[P0] += 5
    another = machine(brokers).run(SwitchoverOptions(SwitchoverKind.EMERGENCY)).run
    assert another is not None
    assert (another.state, another.options.kind) == (SwitchoverState.DONE, SwitchoverKind.EMERGENCY)
    assert another.name != planned.name


def test_a_new_emergency_asks_a_cluster_that_was_silent_before() -> None:
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    brokers = Brokers(A_TO_B, keeps_names=False, source_lost=True)
    machine(brokers).run(emergency)
    brokers.copied[P0] += 30
    brokers.logs[P0] = brokers.copied[P0]
    # It is lost again, and answers from the begin of the fence on.
    world, journal = ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill())

    def show(step: str, words: str) -> None:
        if step == "check":
            brokers.source_lost = False

    entries = SwitchoverMachine(world, journal, "host 1", show).run(emergency)
    assert brokers.fenced
    assert entries.done("fence") == {}


def test_a_target_that_lost_copies_is_the_only_one_there_is_where_the_source_is_lost() -> None:
    brokers = Brokers(A_TO_B, source_lost=True)
    world, journal = ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill())
    ends = world.target_ends
    world.target_ends = lambda parts: {where: end - 5 for where, end in ends(parts).items()}  # type: ignore[method-assign]
    entries = SwitchoverMachine(world, journal, "host 1").run(SwitchoverOptions(SwitchoverKind.EMERGENCY))
    # The flow back passes over nothing that is written after the end.
    assert (entries.done("prove") or {})["positions"] == {"orders": {"0": 1005, "1": 1015}}
    (line,) = [line for line in report(entries)["next"] if "lost records that were copied" in line]
    assert "at the end of orders-0, orders-1: they are on a alone" in line


@pytest.mark.parametrize("late", [0, 2])
def test_a_source_that_is_lost_when_producers_may_write_to_the_target_is_waited_for_no_more(late: int) -> None:
    brokers = Brokers(A_TO_B)
    stopped_in_watch(brokers)
    brokers.source_lost = True
    brokers.copied[P1] += late
    world = ScriptedWorld(brokers, Kill())
    ends = world.target_ends

    def written(parts: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        # Names stay, so producers write after the copies: these never stand still.
        brokers.shift += 1
        assert brokers.shift < 1100
        return ends(parts)

    world.target_ends = written  # type: ignore[method-assign]
    for _ in range(2):
        # What was late is no way back for the second one either.
        entries = SwitchoverMachine(world, ScriptedJournal(brokers, Kill()), "host 1").run(
            SwitchoverOptions(SwitchoverKind.EMERGENCY)
        )
        assert entries.run is not None
        assert (entries.run.state, entries.run.options.kind) == (SwitchoverState.DONE, SwitchoverKind.PLANNED)
        assert entries.done("watch") == {"late": {"orders": {"1": [20, 22]}} if late else {}, "lost": True}
        assert brokers.committed[P0] == 1030
    (line,) = [line for line in report(entries)["next"] if line.startswith("a was lost before it had stood still")]
    assert "are only there" in line
    assert not brokers.closed
    brokers.source_lost = False
    again = SwitchoverMachine(world, ScriptedJournal(brokers, Kill()), "host 1").run(PLANNED)
    assert (brokers.closed, again.done("close")) == (True, {})


def test_a_later_switchover_back_ends_the_switchover_before_whatever_its_journal_says() -> None:
    back = machine(Brokers(A_TO_B, keeps_names=False)).run(PLANNED)
    brokers = Brokers(B_TO_A, keeps_names=False, earlier=back)
    done = machine(brokers).run(PLANNED)
    later = machine(Brokers(A_TO_B, keeps_names=False, source_lost=True, now_ms=brokers.now_ms + 1)).run(
        SwitchoverOptions(SwitchoverKind.EMERGENCY)
    )
    ended = ended_by(done, later)
    data = report(ended)
    assert data["state"] == "returned"
    assert data["next"] == [
        "producers moved a->b since, which ended this switchover; that move has the next steps",
    ]
    for still in (JournalEntries(), back, JournalEntries(later.run), replace(later, run=None)):
        assert ended_by(done, still) == done


def test_what_was_late_is_no_way_back_to_an_emergency_after_the_end() -> None:
    brokers = Brokers(A_TO_B)
    world, journal = ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill())

    def show(step: str, words: str) -> None:
        if step == "watch" and not brokers.late_writes and brokers.logs[P1] == 20:
            brokers.logs[P1] += 3

    entries = SwitchoverMachine(world, journal, "host 1", show).run(PLANNED)
    assert (entries.done("watch") or {})["late"] == {"orders": {"1": [20, 23]}}
    brokers.source_lost = True
    again = machine(brokers).run(SwitchoverOptions(SwitchoverKind.EMERGENCY)).run
    assert entries.run is not None
    assert again is not None
    assert again.name == entries.run.name
    assert any("a way back brings them to a a second time" in line for line in report(entries)["next"])
