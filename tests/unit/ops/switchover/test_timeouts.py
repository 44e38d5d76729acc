"""Each wait of a switchover ends after its timeout, with everything undone or a way to continue."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from tests.unit.ops.switchover.machines import A_TO_B, PLANNED, machine, require_moved
from tests.unit.ops.switchover.scripted import Brokers, Kill, KilledError, ScriptedJournal, ScriptedWorld
from twinlog.errors import TwinlogError
from twinlog.mirror.topics.journal_keys import SwitchoverState
from twinlog.model.types import TopicPartition
from twinlog.ops.switchover.machine import SwitchoverMachine
from twinlog.ops.switchover.model import SwitchoverKind, SwitchoverOptions, TooLongError


def test_producers_that_stay_fenced_for_too_long_are_let_go() -> None:
    brokers = Brokers(A_TO_B, stops_when_fenced=True)
    with pytest.raises(TooLongError, match=r"step drain was not done within 60 s of fencing producers: .+"):
        machine(brokers).run(replace(PLANNED, at_most_s=60))
    assert not brokers.fenced
    run = ScriptedJournal(brokers, Kill()).entries.run
    assert run is not None
    assert run.state is SwitchoverState.ABORTED


def test_a_flow_that_copies_nothing_is_waited_for_until_the_timeout() -> None:
    brokers = Brokers(A_TO_B, copies_nothing=True)
    begun_ms = brokers.now_ms
    why = r"step catch-up took longer than 20 s, and producers stayed unfenced: \d+ records left; nothing is copied"
    with pytest.raises(TooLongError, match=why):
        machine(brokers).run(replace(PLANNED, near=0, at_most_s=20))
    assert brokers.now_ms - begun_ms < 40_000
    assert not brokers.fenced
    run = ScriptedJournal(brokers, Kill()).entries.run
    assert run is not None
    assert run.state is SwitchoverState.ABORTED
    # The same command begins again.
    brokers.copies_nothing = False
    machine(brokers).run(PLANNED)
    require_moved(brokers)


def test_a_chosen_timeout_counts_for_a_switchover_under_way() -> None:
    brokers = Brokers(A_TO_B, copies_nothing=True)
    with pytest.raises(KilledError):
        machine(brokers, Kill(40)).run(replace(PLANNED, near=0))
    begun_ms = brokers.now_ms
    with pytest.raises(TooLongError, match="longer than 20 s"):
        machine(brokers).run(replace(PLANNED, near=5, at_most_s=20, chosen=frozenset({"at_most_s"})))
    assert brokers.now_ms - begun_ms < 40_000
    run = ScriptedJournal(brokers, Kill()).entries.run
    assert run is not None
    assert (run.options.near, run.options.at_most_s) == (0, 20)


def test_copies_that_never_stand_still_end_an_emergency_at_the_timeout() -> None:
    brokers = Brokers(A_TO_B, source_lost=True)
    world, journal = ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill())
    ends = world.target_ends

    def grown(parts: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        brokers.shift += 1
        return ends(parts)

    world.target_ends = grown  # type: ignore[method-assign]
    with pytest.raises(TwinlogError, match=r"the copies of orders on b have grown for 20 s; stop flow a->b and all"):
        SwitchoverMachine(world, journal, "host 1").run(SwitchoverOptions(SwitchoverKind.EMERGENCY, at_most_s=20))
    assert journal.entries.done("fence") is not None
    assert journal.entries.done("settle") is None
    # It continues there.
    entries = machine(brokers).run(SwitchoverOptions(SwitchoverKind.EMERGENCY))
    assert entries.run is not None
    assert entries.run.state is SwitchoverState.DONE


def test_the_time_that_producers_wait_counts_over_an_interruption() -> None:
    brokers = Brokers(A_TO_B, stops_when_fenced=True)
    at_most = replace(PLANNED, at_most_s=60)
    with pytest.raises(KilledError):
        machine(brokers, Kill(60)).run(at_most)
    assert brokers.fenced
    brokers.now_ms += 50_000
    resumed_ms = brokers.now_ms
    with pytest.raises(TooLongError):
        machine(brokers).run(at_most)
    assert brokers.now_ms - resumed_ms < 20_000
    # One that was away for longer than that, and finds everything copied, comes to its end.
    brokers = Brokers(A_TO_B)
    with pytest.raises(KilledError):
        machine(brokers, Kill(24)).run(at_most)
    assert brokers.fenced
    brokers.now_ms += 500_000
    machine(brokers).run(at_most)
    require_moved(brokers)
