"""A group that read on on the target after a switchover has moved: it counts as no skip anywhere."""

from __future__ import annotations

import json
from dataclasses import replace

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.unit.ops.switchover.machines import A_TO_B, PLANNED, machine
from tests.unit.ops.switchover.scripted import (
    P0,
    P1,
    Brokers,
    Kill,
    ScriptedJournal,
    ScriptedWorld,
    moves_of,
    returns_of,
)
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.groups.group_moves import GroupMoves, GroupMovesReader, GroupReturnsReader
from twinlog.mirror.groups.move_facts import GroupMove
from twinlog.mirror.topics.journal_keys import StepPhase, SwitchoverState
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.switchover.journal import TOPIC, JournalEntries, JournalEntry, read_all_waves, read_entries
from twinlog.ops.switchover.machine import SwitchoverMachine
from twinlog.ops.switchover.model import SwitchoverDirection, SwitchoverKind, SwitchoverOptions
from twinlog.ops.switchover.rehearsal import rehearse, unavailable_s
from twinlog.ops.switchover.report import report
from twinlog.ops.switchover.report_text import markdown
from twinlog.ops.switchover.stage import stands_before
from twinlog.ops.switchover.steps.group_step import MOVED
from twinlog.settings.client import ClientSettings

SHOP = GroupId("shop")
THERE = TopicPartition(TopicName("a.orders"), 0)


def done() -> Brokers:
    """A finished switchover after which the group has no members left on either cluster."""
    brokers = Brokers(A_TO_B, keeps_names=False, group_state="Empty")
    machine(brokers).run(PLANNED)
    return brokers


def entries_of(brokers: Brokers) -> JournalEntries:
    return read_entries(A_TO_B, brokers.records)


def rehearsed(brokers: Brokers, options: SwitchoverOptions) -> dict[str, tuple[str, ...]]:
    """The calls of a dry run by steps."""
    entries = read_entries(A_TO_B, brokers.records)
    return {one.step: one.calls for one in rehearse(ScriptedWorld(brokers, Kill()), options, entries)[1]}


def test_the_dry_run_after_the_end_has_the_steps_of_the_same_command() -> None:
    brokers = done()
    brokers.group_at = {P0: 35, P1: 20}
    place = TopicPartition(TopicName("a.orders"), 0)
    brokers.committed[place] = 1020
    before = replace(brokers, committed=dict(brokers.committed), records=list(brokers.records))
    (step,) = (found := rehearsed(brokers, PLANNED))
    assert (step, found[step][0]) == ("groups", "commit for group shop on b: a.orders-0 at 1035")
    assert (brokers.committed, brokers.records) == (before.committed, before.records)
    entries = read_entries(A_TO_B, brokers.records)
    world = ScriptedWorld(brokers, Kill())
    preflight, steps = rehearse(world, PLANNED, entries)
    assert (preflight.problems, unavailable_s(steps)) == ((), 0.0)
    state = stands_before(world, entries, PLANNED.kind)
    assert state.endswith(
        "is done; nothing is under way; the same command only commits the offsets of groups again, and a new "
        "switchover needs a way back, or --release, before it"
    )
    machine(brokers).run(PLANNED)
    assert brokers.committed[place] == 1035
    released = SwitchoverMachine(world, ScriptedJournal(brokers, Kill()), "me 1").release_fence()
    assert "only commits" not in stands_before(world, released, PLANNED.kind)
    assert "fence" in rehearsed(brokers, PLANNED), "a new switchover begins"


def test_the_dry_run_of_an_emergency_has_the_fence_that_was_left_out() -> None:
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    brokers = Brokers(A_TO_B, keeps_names=False, source_lost=True)
    machine(brokers).run(emergency)
    assert list(rehearsed(brokers, emergency)) == ["connect", "groups"]
    brokers.source_lost = False
    brokers.copied = dict(brokers.logs)
    before = rehearsed(brokers, emergency)
    assert list(before) == ["fence", "groups", "close", "prove"]
    shown: list[str] = []
    machine(brokers, told=shown).run(emergency)
    assert list(dict.fromkeys(line.partition(":")[0] for line in shown)) == list(before), "the run has the same course"
    assert brokers.fenced
    assert list(rehearsed(brokers, emergency)) == ["groups", "prove"]


def test_the_same_command_again_leaves_a_group_that_read_on_and_counts_nothing() -> None:
    brokers = done()
    begun = dict(brokers.committed)
    for _ in range(3):
        brokers.committed[THERE] += 7
        entries = machine(brokers).run(PLANNED)
        data = report(entries)
        shop = data["groups"]["shop"]
        assert (shop["skipped"], shop["repeated"], data["failed"]) == (0, 0, [])
        assert [one["result"] for one in shop["offsets"]] == [MOVED, "there"]
        assert "moved before, and read on since" in markdown(data)
        assert not any("by hand" in line for line in data["next"])
        call, *_ = rehearsed(brokers, PLANNED)["groups"]
        assert call == "group shop, a.orders-0: moved"
    assert brokers.committed == {**begun, THERE: begun[THERE] + 21}


def test_a_later_run_that_leaves_a_group_of_both_clusters_forgets_no_move() -> None:
    brokers = done()
    brokers.committed[THERE] += 7
    brokers.group_state = "Stable"
    entries = machine(brokers).run(PLANNED)
    assert report(entries)["groups"]["shop"]["offsets"][0]["result"] == "ahead"
    brokers.group_state = "Empty"
    entries = machine(brokers).run(PLANNED)
    assert report(entries)["groups"]["shop"]["offsets"][0]["result"] == MOVED


def test_a_straggler_that_read_on_on_the_source_is_brought_over() -> None:
    brokers = done()
    brokers.group_at = {P0: 35, P1: 20}
    entries = machine(brokers).run(PLANNED)
    assert [one["result"] for one in report(entries)["groups"]["shop"]["offsets"]] == ["committed", "there"]
    assert brokers.committed[THERE] == 35 + brokers.shift
    moves = moves_of(entries)
    assert (moves[SHOP, THERE].source, moves[SHOP, THERE].target) == (35, 35 + brokers.shift)


def test_a_way_back_tells_how_far_the_group_had_read_on_the_cluster_that_it_left() -> None:
    """Seen from the flow b->a, the finished switchover a->b is a way back."""
    entries = entries_of(done())
    moves, returns = moves_of(entries), returns_of(entries)
    assert set(returns) == {(SHOP, P0), (SHOP, P1)}
    assert returns[SHOP, P0] == GroupMove(
        SourceOffset(moves[SHOP, THERE].target), TargetOffset(moves[SHOP, THERE].source)
    )
    assert entries.run is not None
    gone = replace(entries, run=replace(entries.run, state=SwitchoverState.RETURNED))
    assert returns_of(gone) == {}


def without_run(moves: GroupMoves) -> GroupMoves:
    """The moves without the begin of their switchover, which only the whole journal has."""
    return {where: replace(one, began_ms=0) for where, one in moves.items()}


def test_a_journal_is_read_for_the_flow_that_ends_there_and_for_the_flow_that_begins_there() -> None:
    brokers = done()
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "b")
        cluster.create(TOPIC)
        batch = encode_batch([(0, record_body(key, value, ())) for key, value in brokers.records])
        stamp(batch, -1, -1, -1)
        cluster.log(TOPIC).append(bytes(batch))
        admin = ClusterAdmin("b", ClientSettings(cluster.bootstrap), VirtualLoop(loop.world))
        admin.connect()
        there, back = flow("a", "b"), flow("b", "a")
        entries = entries_of(brokers)
        for _ in range(2):
            assert without_run(GroupMovesReader(there, admin).read()) == moves_of(entries)
            assert without_run(GroupReturnsReader(back, admin).read()) == returns_of(entries)
        assert GroupMovesReader(back, admin).read() == GroupReturnsReader(there, admin).read() == {}
        admin.close()


def test_only_a_switchover_after_which_producers_may_write_to_the_target_has_moved_groups() -> None:
    entries = entries_of(done())
    assert entries.run is not None
    assert set(moves_of(entries)) == {(SHOP, THERE), (SHOP, TopicPartition(TopicName("a.orders"), 1))}
    for state, moved in ((SwitchoverState.RUNNING, True), (SwitchoverState.RETURNED, False)):
        assert bool(moves_of(replace(entries, run=replace(entries.run, state=state)))) is moved
    early = {key: one for key, one in entries.steps.items() if key != ("open", StepPhase.DONE)}
    assert not moves_of(replace(entries, steps=early))
    released = {**entries.steps, ("release", StepPhase.DONE): JournalEntry(1, {})}
    assert {one.released for one in moves_of(replace(entries, steps=released)).values()} == {True}
    for result in ("ahead", "in use", "refused", "unknown"):
        groups = json.loads(json.dumps(entries.done("groups")))
        for one in groups["groups"]["shop"]["offsets"]:
            one["result"] = result
        steps = {**entries.steps, ("groups", StepPhase.DONE): JournalEntry(1, groups)}
        assert not moves_of(replace(entries, steps=steps)), "its offset there was left as it was"


def test_each_wave_of_a_direction_counts_and_no_other_direction() -> None:
    ends = SwitchoverDirection(A_TO_B.source, A_TO_B.target, "first")
    brokers = Brokers(ends, keeps_names=False)
    machine(brokers).run(PLANNED)
    found = read_all_waves(A_TO_B.source, A_TO_B.target, [*done().records, *brokers.records])
    assert [one.run and one.run.ends.wave for one in found] == ["", "first"]
    assert read_all_waves(A_TO_B.target, A_TO_B.source, brokers.records) == []
