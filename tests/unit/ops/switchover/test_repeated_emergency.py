"""The repeat of an emergency whose source is back: its fence, the groups, and the count of what stayed there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.unit.ops.switchover.machines import (
    A_TO_B,
    BOTH_NAMINGS,
    killed_everywhere,
    machine,
)
from tests.unit.ops.switchover.scripted import (
    FENCE_PLAN,
    P0,
    P1,
    Brokers,
    Kill,
    ScriptedJournal,
    ScriptedWorld,
)
from twinlog.console.data_format import DataFormat
from twinlog.console.exit_codes import FINE, FOUND
from twinlog.errors import ClusterError
from twinlog.mirror.topics.journal_keys import StepPhase, SwitchoverState
from twinlog.model.acls import AclOperation, AclPermissionType, PatternType, TopicAcl, acls_data
from twinlog.model.quotas import EVERY_USER, Quota
from twinlog.model.types import TopicPartition
from twinlog.ops.switchover.clusters import LiveClusters
from twinlog.ops.switchover.fencing import RATE, quotas_data, with_left
from twinlog.ops.switchover.journal import JournalEntry
from twinlog.ops.switchover.machine import SwitchoverMachine
from twinlog.ops.switchover.model import (
    Data,
    FenceMethod,
    MovedTopic,
    NoteKind,
    PreflightNote,
    SourceEnd,
    SwitchoverKind,
    SwitchoverOptions,
)
from twinlog.ops.switchover.rehearsal import rehearse
from twinlog.ops.switchover.report import proved_flows, report
from twinlog.ops.switchover.session import print_failed_parts, print_rehearsal


@pytest.mark.parametrize("late", [0, 5])
def test_an_emergency_after_the_end_fences_the_source_that_is_back_and_repeats_no_other_step(late: int) -> None:
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    silent = PreflightNote("no word from a", NoteKind.SILENT)
    before = Brokers(A_TO_B, keeps_names=False, source_lost=True, notes=(silent, "a note"))
    first = machine(before).run(emergency)
    assert "left" in (first.begun("fence") or {})
    assert first.done("close") == {"left": "cluster a is silent"}
    assert not before.closed
    times = {step: first.at_ms(step, StepPhase.DONE) for step in ("settle", "topics", "prove", "open")}

    def back() -> Brokers:
        brokers = Brokers(A_TO_B, keeps_names=False, records=list(before.records), now_ms=before.now_ms + 60_000)
        brokers.committed |= before.committed
        # The flow has copied the records that were left on the source.
        brokers.copied = {P0: 30 + late, P1: 20}
        return brokers

    for brokers in killed_everywhere(back, lambda brokers, kill: machine(brokers, kill).run(emergency), calls=5):
        entries = ScriptedJournal(brokers, Kill()).entries
        assert first.run is not None
        assert entries.run is not None
        assert (entries.run.name, entries.run.state) == (first.run.name, SwitchoverState.DONE)
        assert brokers.fenced
        assert (entries.begun("fence"), entries.done("fence")) == (FENCE_PLAN, {})
        assert {step: entries.at_ms(step, StepPhase.DONE) for step in times} == times
        data = report(entries)
        assert not any("stay unfenced" in line for line in data["next"])
        assert data["notes"][:2] == ["a note", "cluster a was silent, answered later, and was fenced then"]
        assert any("producers stay fenced on a" in line for line in data["next"])
        assert [one["seconds"] < 30 for one in data["steps"] if one["step"] == "fence"] == [True]
        # Only the journal on the source tells of a switchover before, which is no more its groups' last move.
        assert brokers.closed
        assert entries.done("close") == {}
        # The source tells the offsets of its groups.
        assert {one["result"] for one in data["groups"]["shop"]["offsets"]} == {"there"}
        assert data["groups"]["shop"]["skipped"] == data["groups"]["shop"]["repeated"] == 0


@BOTH_NAMINGS
def test_an_emergency_after_the_end_counts_what_stayed_on_the_source_that_is_back(keeps_names: bool) -> None:
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    unknown = "records of a without a copy: an unknown number of records, and all later records"
    held = "orders-0 was held at source offset 10 (oversized): its later records are on a alone"
    passed = "orders-0: accept-gap passed over source offsets 3 to 5, without a copy"
    similar = "logs-0 is in no flow: its later records are on a alone"
    brokers = Brokers(
        *(A_TO_B, keeps_names),
        source_lost=True,
        producing=False,
        copies_nothing=True,
        notes=(PreflightNote(unknown, NoteKind.UNCOPIED), PreflightNote(held, NoteKind.LEFT), passed, similar),
    )
    brokers.group_at = {P0: 8, P1: 20}
    first = machine(brokers).run(emergency)
    assert [row["end"] for row in report(first)["partitions"]] == [None, None]
    assert unknown in report(first)["notes"]
    brokers.source_lost = False
    entries = machine(brokers).run(emergency)
    data = report(entries)
    assert [(row["end"], row["copied"], row["to_end"]) for row in data["partitions"]] == [
        (50, 10, 1010),
        (20, 20, 1020),
    ]
    (count,) = [note for note in data["notes"] if note.startswith("records of a without a copy: ")]
    assert count.startswith("records of a without a copy: 40 records at ")
    assert {held, passed} < set(data["notes"])
    (line,) = [line for line in data["next"] if line.startswith("records without a copy are on a alone")]
    then = "they stay there" if keeps_names else "run flow a->b again"
    assert line.startswith(f"records without a copy are on a alone (orders-0: 10 to 49): {then}")
    (moved,) = proved_flows(entries)
    assert [one["source_end"] for one in moved["partitions"]] == [10, 20], "a statement has only copied ranges"
    if keeps_names:
        return
    # The flow runs again.
    brokers.copied[P0] = 50
    data = report(machine(brokers).run(emergency))
    assert [(row["end"], row["copied"], row["to_end"]) for row in data["partitions"]] == [
        (50, 50, 1050),
        (20, 20, 1020),
    ]
    assert any(note.startswith("records of a without a copy: 0 records at ") for note in data["notes"])
    assert held not in data["notes"]
    assert {passed, similar} < set(data["notes"]), "only notes of replaced kinds are gone, whatever their text"
    assert not any("are on a alone" in line for line in data["next"])


def test_a_failed_fence_on_a_source_that_is_back_is_a_failed_part_and_its_records_are_counted() -> None:
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    silent = PreflightNote("cluster a is silent, and producers there stay unfenced", NoteKind.SILENT)
    brokers = Brokers(A_TO_B, source_lost=True, producing=False, copies_nothing=True, notes=(silent,))
    brokers.group_at = {P0: 8, P1: 20}
    brokers.unfit_fences = {FenceMethod.ACL: "orders lacks an ACL; use --fence quota"}
    first = machine(brokers).run(emergency)
    assert not report(first)["failed"], "of a silent source, the fence has time"
    assert print_failed_parts(first) == FINE
    assert any("stay unfenced: keep them away when it is back" in line for line in report(first)["next"])
    brokers.source_lost = False
    entries = machine(brokers).run(emergency)
    data = report(entries)
    (failed,) = data["failed"]
    assert failed.startswith("producers on a are unfenced, though a answers: keep them away (orders lacks an ACL; ")
    assert print_failed_parts(entries) == FOUND
    assert [line for line in data["next"] if "unfenced" in line] == [failed]
    assert [note for note in data["notes"] if "silent" in note] == [
        "cluster a was silent, answered later, and its producers stay unfenced"
    ]
    assert [(row["end"], row["copied"]) for row in data["partitions"]] == [(50, 10), (20, 20)]
    (count,) = [note for note in data["notes"] if note.startswith("records of a without a copy: 40 records at ")]
    assert count.endswith(", and all later records")


@pytest.mark.parametrize("begun", [False, True], ids=["planned", "begun"])
def test_a_repeated_emergency_fences_by_the_method_of_its_own_command(begun: bool) -> None:
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    silent = PreflightNote("cluster a is silent, and producers there stay unfenced", NoteKind.SILENT)
    first = Brokers(A_TO_B, source_lost=True, producing=False, copies_nothing=True, notes=(silent,))
    first.group_at = {P0: 8, P1: 20}
    machine(first).run(emergency)
    first.source_lost = False
    first.unfit_fences = {} if begun else {FenceMethod.ACL: "orders lacks an ACL; use --fence quota"}
    world = ScriptedWorld(first, Kill())

    def refuse(plan: Data, confirm: Callable[[], None]) -> None:
        raise ClusterError("cluster a refuses the ACL")

    world.fence_producers = refuse  # type: ignore[method-assign]
    SwitchoverMachine(world, ScriptedJournal(first, Kill()), "host 1").run(emergency)
    assert not first.fenced
    quota = SwitchoverOptions(SwitchoverKind.EMERGENCY, FenceMethod.QUOTA)
    entries = ScriptedJournal(first, Kill()).read()
    preflight, steps = rehearse(ScriptedWorld(first, Kill()), quota, entries)
    assert preflight.fence is FenceMethod.QUOTA
    assert steps[0].step == "fence"
    lifts = [call for call in steps[0].calls if call.startswith("restore on a: ")]
    assert bool(lifts) is begun, "a begun fence of the other method is lifted before"

    def again() -> Brokers:
        return replace(first, records=list(first.records), committed=dict(first.committed), lifts=[])

    for brokers in killed_everywhere(again, lambda brokers, kill: machine(brokers, kill).run(quota), calls=5):
        assert brokers.fenced
        assert brokers.fence_method is FenceMethod.QUOTA
        data = report(ScriptedJournal(brokers, Kill()).entries)
        assert data["fence"] == FenceMethod.QUOTA
        assert not data["failed"]
        assert "cluster a was silent, answered later, and was fenced then" in data["notes"]
        assert ("source" in brokers.lifts) is begun, "a begun fence of the other method is lifted before"
        (count,) = [note for note in data["notes"] if note.startswith("records of a without a copy: 40 records at ")]
        assert "all later" not in count
    told = list[str]()
    machine(brokers, told=told).run(emergency)
    assert not any("no effect" in line for line in told)
    machine(brokers, told=told).run(SwitchoverOptions(SwitchoverKind.EMERGENCY, FenceMethod.ACL))
    assert "fence: --fence acl has no effect: the fence here is quota already" in told


def half_fenced(fence: FenceMethod | None = None, **more: Any) -> Brokers:
    """Clusters after an emergency whose fence the source, which is back, has refused in part."""
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY, fence)
    silent = PreflightNote("cluster a is silent, and producers there stay unfenced", NoteKind.SILENT)
    brokers = Brokers(A_TO_B, source_lost=True, producing=False, copies_nothing=True, notes=(silent,), **more)
    brokers.group_at = {P0: 8, P1: 20}
    machine(brokers).run(emergency)
    brokers.source_lost = False
    world = ScriptedWorld(brokers, Kill())

    def refuse(plan: Data, confirm: Callable[[], None]) -> None:
        raise ClusterError("cluster a refuses the ACL")

    world.fence_producers = refuse  # type: ignore[method-assign]
    SwitchoverMachine(world, ScriptedJournal(brokers, Kill()), "host 1").run(emergency)
    return brokers


def test_a_half_raised_fence_that_the_login_may_not_lift_leaves_groups_and_count_to_the_repeat() -> None:
    brokers = half_fenced(lift_refused="the login lacks ALTER on cluster a")
    brokers.group_at = {P0: 9, P1: 20}
    quota = SwitchoverOptions(SwitchoverKind.EMERGENCY, FenceMethod.QUOTA)
    told: list[str] = []
    entries = machine(brokers, told=told).run(quota)
    assert [line.partition(":")[0] for line in told] == ["fence", "groups", "prove"]
    assert {one["offset"] for one in entries.done("groups")["groups"]["shop"]["offsets"]} == {9, 20}  # type: ignore[index]
    data = report(entries)
    (failed,) = data["failed"]
    assert "keep them away (the login lacks ALTER on cluster a)" in failed
    assert print_failed_parts(entries) == FOUND
    assert any(note.startswith("records of a without a copy: 40 records at ") for note in data["notes"])
    # The next repeat knows what there is to lift, and by which method the fence was begun.
    assert entries.begun("fence") == FENCE_PLAN
    assert data["fence"] == FenceMethod.ACL
    brokers.lift_refused = ""
    data = report(machine(brokers).run(quota))
    assert (brokers.lifts, brokers.fenced, data["fence"]) == (["source"], True, FenceMethod.QUOTA)
    assert not data["failed"]


def test_the_rehearsal_of_a_repeated_emergency_continues_after_an_obstacle_of_its_fence_as_the_run_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    brokers = Brokers(A_TO_B, source_lost=True, producing=False, copies_nothing=True, group_at={P0: 8, P1: 20})
    machine(brokers).run(emergency)
    brokers.source_lost = False
    brokers.unfit_fences = {FenceMethod.ACL: "orders lacks an ACL; use --fence quota"}
    world, journal = ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill())
    _, steps = rehearse(world, emergency, journal.read())
    assert [(one.step, one.obstacle) for one in steps] == [
        ("fence", "producers on a are unfenced: orders lacks an ACL; use --fence quota"),
        ("groups", ""),
        ("close", ""),
        ("prove", ""),
    ]
    told: list[str] = []
    vars(world)["journal"] = journal
    assert print_rehearsal(cast(LiveClusters, world), emergency, DataFormat.TABLE) == FOUND
    printed = capsys.readouterr()
    assert "producers on a are unfenced: orders lacks an ACL" in printed.err
    assert "nothing was changed" in printed.out
    assert print_rehearsal(cast(LiveClusters, world), emergency, DataFormat.JSON) == FOUND
    assert '"obstacle": "TW-SWITCH-20: producers' in capsys.readouterr().out
    machine(brokers, told=told).run(emergency)
    assert list(dict.fromkeys(line.partition(":")[0] for line in told)) == [one.step for one in steps]


def test_a_rehearsal_completes_a_begun_fence_by_its_own_plan() -> None:
    brokers = half_fenced()
    # Of a begun quota, the plan of a second fence would be refused.
    brokers.unfit_fences = {FenceMethod.ACL: "fenced already"}
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    _, steps = rehearse(ScriptedWorld(brokers, Kill()), emergency, ScriptedJournal(brokers, Kill()).read())
    assert [(one.step, one.calls, one.obstacle) for one in steps if one.step == "fence"] == [("fence", (), "")]
    machine(brokers).run(emergency)
    assert brokers.fenced


def test_the_rehearsal_of_a_fence_by_acls_sets_no_quota_of_the_half_raised_fence_before() -> None:
    brokers = half_fenced(FenceMethod.QUOTA)
    half = {"set": quotas_data([Quota(EVERY_USER, RATE)]), "restore": quotas_data([Quota(EVERY_USER, None)])}
    entries = ScriptedJournal(brokers, Kill()).read()
    begun = JournalEntry(brokers.now_ms, half)
    entries = replace(entries, steps={**entries.steps, ("fence", StepPhase.BEGUN): begun})
    everybody = TopicAcl(P0.topic, "User:*", "*", AclOperation.WRITE, AclPermissionType.DENY, PatternType.LITERAL)
    denial = acls_data([everybody])
    world = ScriptedWorld(brokers, Kill())
    # The source has the note of the half-raised fence until a run has lifted it.
    world.plan_fence = lambda fence, topics: with_left({"add": denial, "remove": denial}, half)  # type: ignore[method-assign]
    _, steps = rehearse(world, SwitchoverOptions(SwitchoverKind.EMERGENCY, FenceMethod.ACL), entries)
    (calls,) = [one.calls for one in steps if one.step == "fence"]
    assert [call.partition(":")[0] for call in calls] == ["restore on a", "create ACL on a"]


def test_a_source_that_falls_silent_during_its_count_ends_no_emergency() -> None:
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    brokers = Brokers(A_TO_B, source_lost=True, group_at={P0: 8, P1: 20})
    machine(brokers).run(emergency)
    brokers.source_lost = False
    world, told = ScriptedWorld(brokers, Kill()), list[str]()

    def silent(topics: Collection[MovedTopic]) -> dict[TopicPartition, SourceEnd]:
        raise ClusterError("cluster a: no broker answers")

    world.source_ends = silent  # type: ignore[method-assign]
    journal = ScriptedJournal(brokers, Kill())
    entries = SwitchoverMachine(world, journal, "host 1", lambda _step, words: told.append(words)).run(emergency)
    assert brokers.fenced
    assert [row["end"] for row in report(entries)["partitions"]] == [None, None]
    assert "the records on a stay uncounted: cluster a: no broker answers" in told


def test_a_source_that_falls_silent_again_leaves_the_groups_of_a_repeat_in_the_journal() -> None:
    """They have their offsets on the target by then."""
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    brokers = Brokers(A_TO_B, source_lost=True, group_at={P0: 8, P1: 20})
    machine(brokers).run(emergency)
    brokers.source_lost, brokers.group_at = False, {P0: 9, P1: 20}
    world = ScriptedWorld(brokers, Kill())

    def silent(*_: Any) -> Any:
        raise ClusterError("cluster a: no broker answers")

    world.groups = world.find_unmoved_topics = world.source_ends = silent  # type: ignore[method-assign]
    world.groups_by_checkpoints = ScriptedWorld(brokers, Kill()).groups_by_checkpoints  # type: ignore[method-assign]
    entries = SwitchoverMachine(world, ScriptedJournal(brokers, Kill()), "host 1").run(emergency)
    groups = (entries.done("groups") or {})["groups"]
    assert {one["offset"] for one in groups["shop"]["offsets"]} == {9, 20}
