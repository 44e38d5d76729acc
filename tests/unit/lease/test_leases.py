"""Who may copy what: never two copiers the same partition, and never nobody for long."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from tests.unit.worker.leasing import PARTS, Copier, World, assignment, require
from twinlog.lease.messages import (
    CopierHeartbeatResponse,
    CopierLogLine,
    Event,
    Failed,
    Grant,
    Grants,
    LeaseEnded,
    Release,
    ReportMessage,
    SetLogLevel,
    Stop,
    TaskEnded,
)
from twinlog.lease.progress import PartitionCounters, PartitionProgress, Report
from twinlog.mirror.offsets.positions import Position
from twinlog.model.reach import ClusterReachability
from twinlog.model.types import TopicPartition


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def test_a_claim_is_answered_with_a_share(world: World) -> None:
    lease = world.leases.renew_lease(assignment([0, 1], [2]))
    assert world.leases.unclaimed
    one, two = world.copier("one"), world.copier("two")
    one.claim(lease)
    require(lambda: one.holds == set(PARTS[:2]), "one has the first share")
    two.claim(lease)
    require(lambda: two.holds == {PARTS[2]}, "two has the second")
    require(lambda: not world.leases.unclaimed, "all is claimed")
    (message,) = one.received(Grants)
    assert [grant.position for grant in message.grants] == [Position(7, 5)] * 2
    assert len(world.leases._ledger.sessions) == 2


def test_a_partition_is_held_from_its_plan_on_until_it_is_released(world: World) -> None:
    lease = world.leases.renew_lease(assignment([0, 1]))
    assert world.leases.holds_any({PARTS[0], PARTS[5]})
    assert not world.leases.holds_any({PARTS[5]})
    one = world.copier("one", lets_go=False)
    one.claim(lease)
    require(lambda: one.holds == set(PARTS[:2]), "it has both")
    world.leases.plan(assignment([1]))
    require(lambda: bool(one.received(Release)), "it is asked for the first")
    assert world.leases.holds_any({PARTS[0]})
    one.release((PARTS[0],))
    require(lambda: not world.leases.holds_any({PARTS[0]}), "it has released that")
    assert world.leases.holds_any({PARTS[1]})
    world.leases.plan(assignment([]))
    one.die()
    assert not world.leases.holds_any(set(PARTS))


def test_a_report_comes_on_the_line_and_its_copier_is_gone_with_it(world: World) -> None:
    one = world.copier("one")
    part = PartitionProgress("t", 0, 5, 5, 7, PartitionCounters(records=5, bytes=50))
    report = Report(
        "a->b", "one", 1, 0, 1.0, 0.1, partitions=(part,), target=ClusterReachability(out_s=3.0, why="refused")
    )
    one.send(ReportMessage(report))
    require(lambda: world.flow_status.summary().records == 5, "the report is there")
    (holder,) = world.flow_status.holders()
    assert (holder.gone_at, holder.target) == (None, report.target)
    one.die()
    require(lambda: holder.gone_at is not None, "it is known that nobody copies")
    assert world.flow_status.summary().lag == 2


def test_who_comes_too_late_gets_nothing(world: World) -> None:
    first = world.leases.renew_lease(assignment([0]))
    lease = world.leases.renew_lease()
    one, two = world.copier("one"), world.copier("two")
    one.claim(first)
    require(lambda: one.received(LeaseEnded) == [LeaseEnded(first)], "the old lease is over")
    one.claim(lease)
    require(lambda: one.holds == {PARTS[0]}, "one has it")
    two.claim(lease)
    require(lambda: two.received(LeaseEnded) == [LeaseEnded(lease)], "there is no share left")
    assert two.received(Grants) == []


def test_a_copier_keeps_its_partitions_over_leases(world: World) -> None:
    one, two = world.copier("one"), world.copier("two")
    lease = world.leases.renew_lease(assignment([0, 1], [2, 3]))
    one.claim(lease)
    require(lambda: len(one.holds) == 2, "one copies")
    two.claim(lease)
    require(lambda: len(two.holds) == 2, "two copies")
    for _ in range(5):
        lease = world.leases.renew_lease()
        two.claim(lease)
        one.claim(lease)
        require(lambda: not world.leases.unclaimed, "both have claimed")
    assert len(one.received(Grants)) == len(two.received(Grants)) == 1
    assert one.received(Release) == two.received(Release) == []


def test_partitions_move_only_after_they_were_let_go(world: World) -> None:
    one, two = world.copier("one", lets_go=False), world.copier("two")
    lease = world.leases.renew_lease(assignment([0, 1, 2]))
    one.claim(lease)
    require(lambda: len(one.holds) == 3, "one copies all")
    lease = world.leases.renew_lease(assignment([0], [1, 2]))
    one.claim(lease)
    require(lambda: world.leases._ledger.shares._by != {}, "one has claimed")
    assert one.received(Release) == [], "one keeps the larger share, and the rest until somebody comes for it"
    two.claim(lease)
    require(lambda: len(one.received(Release)) == 1, "one is asked for the rest")
    assert two.received(Grants) == []
    one.release([PARTS[0]])
    require(lambda: two.holds == {PARTS[0]}, "two has it")
    assert one.holds == set(PARTS[1:3])
    assert len(one.received(Release)) == 1


def test_partitions_that_are_planned_no_more_are_let_go(world: World) -> None:
    one = world.copier("one")
    one.claim(world.leases.renew_lease(assignment([0, 1])))
    require(lambda: len(one.holds) == 2, "one copies")
    world.leases.renew_lease(assignment([1]))
    require(lambda: one.holds == {PARTS[1]}, "one releases the other")


def test_partitions_move_within_a_lease(world: World) -> None:
    lease = world.leases.plan(assignment([0, 1, 2], [3]))
    one, two = world.copier("one"), world.copier("two")
    one.claim(lease)
    require(lambda: len(one.holds) == 3, "one copies")
    two.claim(lease)
    require(lambda: len(two.holds) == 1, "two copies")
    assert world.leases.plan(assignment([0, 1], [2, 3, 4])) == lease
    require(lambda: two.holds == set(PARTS[2:5]), "two has one of the first, and a new one")
    assert one.holds == set(PARTS[:2])
    assert world.leases.plan(assignment([0, 1, 5], [3, 4])) == lease
    require(lambda: one.holds == {*PARTS[:2], PARTS[5]}, "one has a new one")
    require(lambda: two.holds == set(PARTS[3:5]), "what is planned no more is released")
    assert one.received(LeaseEnded) == two.received(LeaseEnded) == []
    assert [len(message.partitions) for message in one.received(Release) + two.received(Release)] == [1, 1]
    assert world.leases.plan(assignment([0], [1], [3])) == lease + 1
    require(
        lambda: len(one.received(LeaseEnded)) == len(two.received(LeaseEnded)) == 1,
        "another number of tasks is another lease",
    )


def test_an_unaffected_copier_gets_no_message(world: World) -> None:
    lease = world.leases.plan(assignment([0, 1], [2]))
    one, two = world.copier("one"), world.copier("two")
    one.claim(lease)
    require(lambda: len(one.holds) == 2, "one copies")
    two.claim(lease)
    require(lambda: len(two.holds) == 1, "two copies")
    world.leases.plan(assignment([0, 1], [2, 3]))
    require(lambda: len(two.holds) == 2, "two copies one more")
    assert {type(message) for message in one.heard} == {CopierHeartbeatResponse, Grants}
    assert len(one.received(Grants)) == 1
    assert world.looked_up[-1] == [PARTS[3]]


def test_a_plan_that_is_overtaken_takes_nothing_away(world: World) -> None:
    """A partition is to move, and is to stay again before anybody released it."""
    one, two = world.copier("one", lets_go=False), world.copier("two")
    lease = world.leases.plan(assignment([0, 1], [2]))
    one.claim(lease)
    require(lambda: len(one.holds) == 2, "one copies")
    two.claim(lease)
    require(lambda: len(two.holds) == 1, "two copies")
    world.leases.plan(assignment([0], [1, 2]))
    require(lambda: len(one.received(Release)) == 1, "one is asked to release")
    world.leases.plan(assignment([0, 1], [2, 3]))
    one.release([PARTS[1]])
    require(lambda: one.holds == set(PARTS[:2]), "one has it anew")
    require(lambda: two.holds == set(PARTS[2:4]), "two never had it")


def test_a_release_overtakes_a_grant_that_is_still_looked_up(world: World) -> None:
    """The target is slow to return positions; meanwhile a later lease gives the partitions to another copier."""
    one, two = world.copier("one"), world.copier("two")
    lease = world.leases.renew_lease(assignment([0, 1]))
    world.lookup.clear()
    one.claim(lease)
    require(lambda: len(world.looked_up) == 1, "positions are looked up")
    lease = world.leases.renew_lease()
    two.claim(lease)
    require(lambda: len(world.looked_up) == 2, "one has released what it never had")
    world.lookup.set()
    require(lambda: two.holds == set(PARTS[:2]), "two has them")
    require(lambda: len(one.received(Grants)) == 1, "the first lookup ends")
    assert one.received(Grants) == [Grants(1, ())]
    assert one.holds == set()


def test_a_grant_that_is_looked_up_goes_on_into_the_next_lease(world: World) -> None:
    one = world.copier("one")
    lease = world.leases.renew_lease(assignment([0, 1]))
    world.lookup.clear()
    one.claim(lease)
    require(lambda: len(world.looked_up) == 1, "positions are looked up")
    lease = world.leases.renew_lease()
    one.claim(lease)
    require(lambda: not world.leases.unclaimed, "it is claimed again")
    world.lookup.set()
    require(lambda: one.holds == set(PARTS[:2]), "one has them")
    assert len(one.received(Grants)) == 1


def test_a_partition_comes_back_while_it_is_let_go(world: World) -> None:
    one, two = world.copier("one", lets_go=False), world.copier("two")
    lease = world.leases.renew_lease(assignment([0]))
    one.claim(lease)
    require(lambda: one.holds == {PARTS[0]}, "one copies")
    lease = world.leases.renew_lease()
    two.claim(lease)
    require(lambda: len(one.received(Release)) == 1, "one is asked to release")
    lease = world.leases.renew_lease()
    one.claim(lease)
    require(lambda: not world.leases.unclaimed, "it is one's again")
    one.release([PARTS[0]])
    require(lambda: one.holds == {PARTS[0]}, "one has it anew")
    assert len(one.received(Grants)) == 2
    assert two.holds == set()


def test_the_next_grant_shows_whether_all_appends_were_acknowledged(world: World) -> None:
    one = world.copier("one")
    lease = world.leases.renew_lease(assignment([0, 1, 2]))
    one.claim(lease)
    require(lambda: len(one.holds) == 3, "one copies")
    assert not any(one.drained.values())
    one.undrained = {PARTS[1]}
    two = world.copier("two")
    lease = world.leases.renew_lease(assignment([0, 1], [2]))
    two.claim(lease)
    require(lambda: len(two.holds) == 2, "two copies")
    assert two.drained == {PARTS[0]: True, PARTS[1]: False}


def test_failures_and_events_are_passed_on(world: World) -> None:
    one = world.copier("one")
    one.send(Event("gap", "a hole"))
    one.send(Failed(None, "GapError", "stop"))
    require(lambda: world.failures == [("GapError", "stop")], "the failure is reported")
    assert world.events == [("gap", "a hole")]


def test_a_level_of_the_log_reaches_all_copiers_and_their_lines_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    one = world.copier("one")
    world.leases.set_log_level(logging.DEBUG, 900.0)
    later = world.copier("later")
    require(lambda: bool(one.received(SetLogLevel)), "the connected copier has the level")
    assert one.received(SetLogLevel) == [SetLogLevel(logging.DEBUG, 900.0)]
    require(lambda: bool(later.received(SetLogLevel)), "the later copier has the level")
    (level,) = later.received(SetLogLevel)
    assert (level.level, 800.0 < level.for_s <= 900.0) == (logging.DEBUG, True)
    with caplog.at_level(logging.DEBUG, "twinlog.lease.leases"):
        later.send(CopierLogLine(logging.DEBUG, "orders-0 begins"))
        require(lambda: "a->b: copier later: orders-0 begins" in caplog.messages, "the line is in the log")
    world.leases.set_log_level(0, 0.0)
    require(lambda: len(one.received(SetLogLevel)) == 2, "the level ends")
    assert one.received(SetLogLevel)[-1] == SetLogLevel(0, 0.0)
    assert world.copier("last").received(SetLogLevel) == []


def test_the_places_of_copiers_are_known(world: World) -> None:
    lease = world.leases.renew_lease(assignment([0, 1], [2]))
    task, bridge = world.copier("my-host-17-ab12"), world.copier("bridge-my-host-18-cd34")
    task.claim(lease, 7)
    require(lambda: len(task.holds) == 2, "the task has its share")
    bridge.claim(lease, bridge=True)
    require(lambda: len(bridge.holds) == 1, "the bridge has the rest")
    places = world.leases.places()
    assert [(one.name, one.host, one.bridge, one.partitions) for one in places] == [
        ("bridge-my-host-18-cd34", "my-host", True, 1),
        ("my-host-17-ab12", "my-host", False, 2),
    ]
    assert places[1].task == 7


def test_a_lookup_that_fails_fails_the_flow(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(parts: Sequence[TopicPartition]) -> list[Grant]:
        raise PermissionError("no READ")

    monkeypatch.setattr(world.leases._granting, "_grants", refuse)
    one = world.copier("one")
    one.claim(world.leases.renew_lease(assignment([0])))
    require(lambda: world.failures == [("PermissionError", "TW-FAULT-01: no READ")], "the failure is reported")


def test_stop_waits_for_all_copiers(world: World) -> None:
    one, two = world.copier("one"), world.copier("two")
    lease = world.leases.renew_lease(assignment([0], [1]))
    one.claim(lease)
    two.claim(lease)
    require(lambda: bool(one.holds) and bool(two.holds), "both copy")
    assert world.leases.stop(5)
    assert one.holds == two.holds == set()
    assert world.leases.current() == (lease, 0)
    assert not world.leases.unclaimed
    three = world.copier("three", lets_go=False)
    three.claim(lease)
    require(lambda: bool(three.received(Stop)), "who comes now is sent away")
    assert three.received(Grants) == []


def test_a_copier_whose_task_ends_early_claims_again(world: World) -> None:
    lease = world.leases.renew_lease(assignment([0], [1]))
    one, two = world.copier("one"), world.copier("two")
    one.claim(lease)
    two.claim(lease)
    require(lambda: bool(one.holds) and bool(two.holds), "both copy")
    one.send(TaskEnded(lease - 1))
    one.claim(lease)
    one.send(TaskEnded(lease))
    require(lambda: world.leases.unclaimed, "its share is free")
    one.claim(lease)
    require(lambda: not world.leases.unclaimed, "it is claimed again")
    assert len(one.received(Grants)) == 1
    assert not one.received(Release)
    assert not one.received(LeaseEnded)


def test_no_partition_is_ever_held_by_two(world: World, chance: random.Random) -> None:
    """Copiers come, claim and die while the plan changes; their own view is compared at each change."""
    lock = threading.Lock()
    held: dict[str, set[TopicPartition]] = {}
    twice: list[str] = []

    def changed(copier: Copier, holds: set[TopicPartition]) -> None:
        with lock:
            held[copier.name] = set(holds)
            everything = [part for parts in held.values() for part in parts]
            if len(everything) != len(set(everything)):
                twice.append(f"{copier.name}: {held}")

    alive: list[Copier] = []
    lease = 0
    for step in range(300):
        if len(alive) < 2 or (len(alive) < 4 and chance.random() < 0.1):
            copier = world.copier(f"c{step}")
            copier.changed = changed
            alive.append(copier)
        action = chance.random()
        if action < 0.15 and len(alive) > 2:
            gone = alive.pop(chance.randrange(len(alive)))
            with lock:
                held.pop(gone.name, None)
            gone.changed = lambda copier, holds: None
            gone.die()
        elif action < 0.4:
            parts = chance.sample(range(len(PARTS)), chance.randint(1, len(PARTS)))
            cut = chance.randint(0, len(parts))
            shares = [share for share in (parts[:cut], parts[cut:]) if share]
            begin = chance.choice((world.leases.renew_lease, world.leases.plan))
            lease = begin(assignment(*shares))
        elif lease:
            chance.choice(alive).claim(lease if chance.random() < 0.8 else lease - 1)
        if chance.random() < 0.3:
            time.sleep(0.002)
    lease = world.leases.renew_lease(assignment([0, 1, 2], [3, 4, 5]))
    for copier in alive:
        copier.claim(lease)
    require(lambda: {part for copier in alive for part in copier.holds} == set(PARTS), "all are copied")
    assert twice == []
