"""A switchover whose process is killed at every call it makes, one after the other, ends as if it never was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.unit.ops.switchover.machines import (
    A_TO_B,
    BOTH_NAMINGS,
    PLANNED,
    killed_everywhere,
    machine,
    require_moved,
    stopped_in_watch,
)
from tests.unit.ops.switchover.scripted import P1, Brokers, Kill, KilledError, ScriptedJournal, ScriptedWorld
from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.mirror.topics.journal_keys import StepPhase, SwitchoverState
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.switchover.journal import JournalLine, SwitchoverRun
from twinlog.ops.switchover.machine import SwitchoverMachine
from twinlog.ops.switchover.model import (
    FenceMethod,
    MovedTopic,
    NotReadyError,
    SourceEnd,
    SwitchoverKind,
    SwitchoverOptions,
    TooLongError,
    UnderWayError,
)
from twinlog.ops.switchover.report import report
from twinlog.ops.switchover.stage import stands, unchanged
from twinlog.ops.switchover.steps.steps import ORDER
from twinlog.ops.switchover.steps.waiting import STILL_S

P2 = TopicPartition(TopicName("orders"), 2)


@BOTH_NAMINGS
@pytest.mark.parametrize(("late_writes", "reports_fence"), [(0, False), (2, False), (6, False), (0, True)])
def test_a_switchover_killed_anywhere_goes_on_and_ends_the_same(
    keeps_names: bool, late_writes: int, reports_fence: bool
) -> None:
    for brokers in killed_everywhere(
        lambda: Brokers(A_TO_B, keeps_names, late_writes=late_writes, open_txn=3, reports_fence=reports_fence),
        lambda brokers, kill: machine(brokers, kill).run(PLANNED),
    ):
        require_moved(brokers)


def test_undone_at_any_point_producers_write_again_and_the_next_one_works() -> None:
    clean = Kill()
    machine(Brokers(A_TO_B), clean).run(PLANNED)
    for at in range(2, clean.calls):
        brokers = Brokers(A_TO_B)
        with pytest.raises(KilledError):
            machine(brokers, Kill(at)).run(PLANNED)
        entries = ScriptedJournal(brokers, Kill()).entries
        if entries.run is None:
            continue
        if entries.done("open") is not None:
            with pytest.raises(
                UnderWayError, match="producers may write to b already; run the same command to its end"
            ):
                machine(brokers).abort()
            continue
        abort = Kill()
        undone = machine(brokers, abort).abort()
        assert undone.run is not None
        assert undone.run.state is SwitchoverState.ABORTED
        assert not brokers.fenced
        assert brokers.open_copies == []
        assert brokers.noted_fence is None
        machine(brokers).run(PLANNED)
        require_moved(brokers)


def test_an_undoing_that_is_killed_is_ended_before_anything_else() -> None:
    for at in range(1, 5):
        brokers = Brokers(A_TO_B, stops_when_fenced=True)
        with pytest.raises(KilledError):
            machine(brokers, Kill(40)).run(PLANNED)
        assert brokers.fenced
        kill = Kill(at, after=True)
        try:
            machine(brokers, kill).abort()
        except KilledError:
            state = ScriptedJournal(brokers, Kill()).entries.run
            assert state is not None
            if state.state is SwitchoverState.ABORTING:
                with pytest.raises(UnderWayError, match="is being undone; run it with --abort"):
                    machine(brokers).run(PLANNED)
            if state.state is not SwitchoverState.ABORTED:
                machine(brokers).abort()
        assert not brokers.fenced


def test_a_topic_that_the_check_did_not_see_is_named_by_the_same_command() -> None:
    brokers = Brokers(A_TO_B)
    assert report(machine(brokers).run(PLANNED))["failed"] == []
    brokers.unmoved = ("clicks",)
    found = report(machine(brokers).run(PLANNED))
    (line,) = found["failed"]
    assert line.startswith("clicks was not moved, as the check did not see it: its producers write to a unfenced")
    assert line in found["next"]
    brokers.unmoved = ()
    assert report(machine(brokers).run(PLANNED))["failed"] == []
    # A lost source shows no topic.
    brokers.source_lost, brokers.unmoved = True, ("clicks",)
    assert report(machine(brokers).run(SwitchoverOptions(SwitchoverKind.EMERGENCY)))["failed"] == []


def test_what_writes_after_the_cut_takes_it_back() -> None:
    told: list[str] = []
    # Some of them arrive while groups are moved.
    found = []
    for looks in range(4, 15):
        brokers = Brokers(A_TO_B, late_writes=looks)
        entries = machine(brokers, told=told).run(PLANNED)
        if brokers.late_writes:
            # It ended before.
            continue
        assert brokers.copied == brokers.logs
        found.append((entries.done("watch") or {})["late"])
        last = entries
        if not found[-1]:
            require_moved(brokers)
    assert "prove: producers wrote to orders after the cut: goes back to settle" in told
    # Others when producers had been let go on.
    assert {} in found
    assert {"orders": {"1": [20, 21]}} in found
    assert any(
        line.startswith("watch: TW-SWITCH-02: somebody wrote to orders on a after the cut: stop that") for line in told
    )
    next_steps = report(last)["next"]
    assert any(
        "find who writes to orders on a past the fence" in line and "partition 1: 20 to 20" in line
        for line in next_steps
    )


@pytest.mark.parametrize("reports_fence", [False, True])
def test_the_source_stands_still_for_less_time_where_brokers_report_that_the_fence_holds(reports_fence: bool) -> None:
    brokers = Brokers(A_TO_B, reports_fence=reports_fence)
    entries = machine(brokers).run(PLANNED)
    assert ((entries.done("settle") or {})["still_ms"] < STILL_S[FenceMethod.ACL] * 1000) is reports_fence
    # Before it ends it has stood for as long either way.
    settled, end = (entries.at_ms(step, StepPhase.DONE) for step in ("settle", "watch"))
    assert settled is not None
    assert end is not None
    still_ms = (entries.done("settle") or {})["still_ms"]
    assert end - settled + still_ms >= STILL_S[FenceMethod.ACL] * 1000
    require_moved(brokers)


def test_somebody_who_writes_on_past_the_fence_is_no_success() -> None:
    brokers = Brokers(A_TO_B)
    world, journal = ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill())

    def show(step: str, words: str) -> None:
        if step == "watch":
            brokers.logs[P1] += 1

    with pytest.raises(TwinlogError, match="somebody writes to orders on a in spite of the fence"):
        SwitchoverMachine(world, journal, "host 1", show).run(replace(PLANNED, at_most_s=60))
    machine(brokers).run(PLANNED)
    assert brokers.copied == brokers.logs


def test_it_says_what_it_waits_for() -> None:
    told: list[str] = []
    machine(Brokers(A_TO_B, open_txn=8), told=told).run(replace(PLANNED, near=5))
    assert any(line.startswith("catch-up: ") and "records left" in line for line in told)
    assert "settle: TW-SWITCH-06: waits for transactions to end: a transaction" in told


def test_problems_change_nothing() -> None:
    brokers = Brokers(A_TO_B, problems=("no leader",))
    with pytest.raises(NotReadyError, match="no leader"):
        machine(brokers).run(PLANNED)
    assert not brokers.fenced
    assert ScriptedJournal(brokers, Kill()).entries.begun("fence") is None


def test_a_refused_pre_flight_leaves_no_switchover_under_way() -> None:
    brokers = Brokers(A_TO_B, problems=("no leader",))
    with pytest.raises(NotReadyError):
        machine(brokers).run(PLANNED)
    entries = ScriptedJournal(brokers, Kill()).entries
    assert stands(entries) == "the last switchover a->b was refused before its begin; nothing is under way"
    assert unchanged(entries)
    assert entries.refusals == ["no leader"]
    brokers.problems = ("no disk",)
    with pytest.raises(NotReadyError):
        machine(brokers).run(PLANNED)
    assert ScriptedJournal(brokers, Kill()).entries.refusals == ["no disk"], "the newest obstacles"
    with pytest.raises(UnderWayError, match="nothing is under way"):
        machine(brokers).abort()
    brokers.problems = ()
    machine(brokers).run(PLANNED)
    require_moved(brokers)


def test_a_refused_pre_flight_keeps_the_journal_of_the_switchover_before() -> None:
    brokers = Brokers(A_TO_B)
    machine(brokers).run(PLANNED)
    before = machine(brokers).release_fence()
    assert before.refused_since is None
    for problems in (("no disk",), ("no leader", "no copy")):
        brokers.problems = problems
        with pytest.raises(NotReadyError):
            machine(brokers).run(PLANNED)
        told, known = report(ScriptedJournal(brokers, Kill()).entries), report(before)
        *steps, line = told["next"]
        assert {**told, "next": steps} == known
        assert line.startswith("the last try to switch over a->b (")
        why = "; ".join(problems)
        assert line.endswith(f") was refused, and changed nothing: {why}; mend that, and run the same command again")
    brokers.problems = ()
    assert machine(brokers).run(PLANNED).refused_since is None, "a switchover that begins follows the refusal"


def test_obstacles_of_a_later_step_leave_the_switchover_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(A_TO_B)

    def refuse(_world: ScriptedWorld, *_: object) -> None:
        raise NotReadyError(("a right is missing",))

    with monkeypatch.context() as context:
        context.setattr(ScriptedWorld, "get_ready", refuse)
        with pytest.raises(NotReadyError):
            machine(brokers).run(PLANNED)
    entries = ScriptedJournal(brokers, Kill()).entries
    assert not unchanged(entries)
    assert stands(entries) == ("a->b is running, last step topics; the same command continues there, --abort undoes it")
    machine(brokers).run(PLANNED)
    require_moved(brokers)


def test_one_kind_does_not_go_on_as_another() -> None:
    brokers = Brokers(A_TO_B, stops_when_fenced=True)
    with pytest.raises(KilledError):
        machine(brokers, Kill(30)).run(PLANNED)
    with pytest.raises(UnderWayError, match=r"of another kind \(planned\) has begun"):
        machine(brokers).run(SwitchoverOptions(SwitchoverKind.BACK))


def test_before_the_check_is_passed_other_options_count() -> None:
    brokers = Brokers(A_TO_B, problems=("use --fence quota",))
    with pytest.raises(NotReadyError):
        machine(brokers).run(PLANNED)
    brokers.problems = ()
    entries = machine(brokers).run(replace(PLANNED, fence=FenceMethod.QUOTA))
    assert (entries.done("check") or {})["fence"] == "quota"


def test_what_was_released_is_at_its_end() -> None:
    brokers = Brokers(A_TO_B)
    first = machine(brokers).run(PLANNED)
    assert machine(brokers).release_fence().done("release") is not None
    assert not brokers.fenced
    entries = machine(brokers).run(PLANNED)
    assert first.run is not None
    assert entries.run is not None
    assert entries.run.name != first.run.name
    require_moved(brokers)


def test_a_fence_whose_journal_is_lost_can_be_lifted() -> None:
    brokers = Brokers(A_TO_B, stops_when_fenced=True)
    with pytest.raises(KilledError):
        machine(brokers, Kill(40)).run(PLANNED)
    brokers.records.clear()
    with pytest.raises(
        UnderWayError,
        match="nothing is under way, but a is still fenced by an earlier switchover: --release lifts that fence",
    ):
        machine(brokers).abort()
    assert brokers.fenced
    machine(brokers).release_fence()
    assert not brokers.fenced
    assert brokers.noted_fence is None
    with pytest.raises(UnderWayError, match=r"nothing is under way$"):
        machine(brokers).abort()


def test_a_journal_of_other_topics_or_clusters_is_not_gone_on_with() -> None:
    brokers = Brokers(A_TO_B, stops_when_fenced=True)
    with pytest.raises(KilledError):
        machine(brokers, Kill(40)).run(PLANNED)
    brokers.file = "payments"
    with pytest.raises(UnderWayError, match=r"has topics orders, and this file payments; .* or --wave"):
        machine(brokers).run(PLANNED)
    # It may be undone all the same.
    machine(brokers).abort()
    assert not brokers.fenced
    brokers.stops_when_fenced = False
    machine(brokers).run(PLANNED)
    brokers.file = "orders"
    with pytest.raises(UnderWayError, match="has topics payments, and this file orders"):
        machine(brokers).run(PLANNED)


def test_partitions_that_come_before_the_fence_are_moved_too() -> None:
    brokers, told = Brokers(A_TO_B), list[str]()
    world, journal = ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill())

    def show(step: str, words: str) -> None:
        told.append(f"{step}: {words}")
        if step == "catch-up" and brokers.partitions == 2:
            brokers.partitions = 3
            brokers.logs[P2], brokers.copied[P2] = 7, 0

    entries = SwitchoverMachine(world, journal, "host 1", show).run(PLANNED)
    assert "topics: orders: topics or partitions came to the source: goes back to check" in told
    assert (entries.done("settle") or {})["cut"]["orders"]["2"] == 7


def test_records_in_partitions_that_came_after_the_fence_are_no_success() -> None:
    brokers = Brokers(A_TO_B)
    world, journal = ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill())
    moving = world.list_moving_topics

    def grown() -> tuple[MovedTopic, ...]:
        return tuple(replace(one, partitions=3) for one in moving()) if brokers.fenced else moving()

    world.list_moving_topics = grown  # type: ignore[method-assign]
    ends = world.source_ends
    world.source_ends = lambda topics: {  # type: ignore[method-assign]
        **ends(topics),
        **({P2: SourceEnd(1, 1)} if any(one.partitions == 3 for one in topics) else {}),
    }
    with pytest.raises(TwinlogError, match="orders: came to a after the check"):
        SwitchoverMachine(world, journal, "host 1").run(PLANNED)


def test_copies_that_have_no_end_are_no_proof() -> None:
    brokers = Brokers(A_TO_B)
    world, journal = ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill())
    ends = world.target_ends
    world.target_ends = lambda parts: {where: end for where, end in ends(parts).items() if where != P1}  # type: ignore[method-assign]
    with pytest.raises(ClusterError, match="cluster b: the end of orders-1 is unknown"):
        SwitchoverMachine(world, journal, "host 1").run(PLANNED)


def test_a_process_that_only_waits_hears_that_another_one_took_over() -> None:
    brokers = Brokers(A_TO_B, stops_when_fenced=True)
    journal = ScriptedJournal(brokers, Kill())
    seen: list[int] = []
    write = journal.write

    def noted(lines: Sequence[JournalLine], run: SwitchoverRun | None = None) -> None:
        if run is not None:
            seen.append(run.seen_ms)
        write(lines, run)

    journal.write = noted  # type: ignore[method-assign]
    with pytest.raises(TooLongError):
        SwitchoverMachine(ScriptedWorld(brokers, Kill()), journal, "host 1").run(replace(PLANNED, at_most_s=60))
    assert len(seen) > 5
    assert max(after - before for before, after in pairwise(seen)) < 20_000


def test_nothing_is_undone_twice_or_after_the_end() -> None:
    brokers = Brokers(A_TO_B)
    with pytest.raises(UnderWayError, match="nothing is under way"):
        machine(brokers).abort()
    machine(brokers).run(PLANNED)
    with pytest.raises(UnderWayError, match="it is done: go back by twinlog switchback FILE --from b --to a"):
        machine(brokers).abort()
    assert brokers.fenced


def test_every_step_is_written_down_before_and_after() -> None:
    brokers = Brokers(A_TO_B)
    entries = machine(brokers).run(PLANNED)
    for step in ORDER[SwitchoverKind.PLANNED]:
        begun, done = (entries.at_ms(step, phase) for phase in StepPhase)
        assert begun is not None
        assert done is not None
        assert begun <= done


def test_a_target_that_lost_copies_is_no_proof() -> None:
    brokers = Brokers(A_TO_B)
    world, journal = ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill())
    ends = world.target_ends
    world.target_ends = lambda parts: {where: end - 5 for where, end in ends(parts).items()}  # type: ignore[method-assign]
    with pytest.raises(TwinlogError, match="cluster b lost records that were copied: orders-0, orders-1"):
        SwitchoverMachine(world, journal, "host 1").run(PLANNED)
    # Whoever calls next may end or undo it.
    assert brokers.fenced


def test_producers_are_told_to_go_on_once_nothing_can_move_them_back() -> None:
    brokers = Brokers(A_TO_B)
    stopped_in_watch(brokers)
    assert ScriptedJournal(brokers, Kill()).entries.done("open") is not None


def test_how_far_it_is_says_what_can_be_done_next() -> None:
    brokers = Brokers(A_TO_B)
    stopped_in_watch(brokers)
    entries = ScriptedJournal(brokers, Kill()).entries
    assert "producers may write to b, so an undo is impossible; the same command completes it" in stands(entries)
    assert not any("--abort" in line for line in report(entries)["next"])
    assert "point producers to b" in report(entries)["next"]
    brokers = Brokers(A_TO_B, stops_when_fenced=True)
    with pytest.raises(KilledError):
        machine(brokers, Kill(40)).run(PLANNED)
    assert stands(ScriptedJournal(brokers, Kill()).entries).endswith(
        "the same command continues there, --abort undoes it"
    )
    brokers.source_lost = True
    with pytest.raises(RefusedError):
        machine(brokers).abort()
    assert brokers.fenced
    entries = ScriptedJournal(brokers, Kill()).entries
    assert stands(entries).endswith("producers are fenced; --abort continues to undo it")
    assert report(entries)["next"] == [
        "run it with --abort: that undoes the rest, until then producers to a may be fenced"
    ]
