"""Shares that the bridge copies until a task of Spark takes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.worker.leasing import PARTS, World, assignment, require
from twinlog.lease.messages import LeaseEnded, Stop


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def test_a_task_takes_a_share_from_the_bridge_and_its_partitions_are_drained(world: World) -> None:
    lease = world.leases.renew_lease(assignment([0, 1]))
    assert world.leases.left_without_tasks == [0]
    bridge = world.copier("bridge")
    bridge.claim(lease, bridge=True)
    require(lambda: bridge.holds == set(PARTS[:2]), "the bridge copies")
    assert world.leases.bridged
    assert world.leases.left_without_tasks == []
    assert world.leases.unclaimed, "Spark has a reason to start a task"
    task = world.copier("task")
    task.claim(lease, 7)
    require(lambda: task.holds == set(PARTS[:2]), "the task copies")
    assert set(task.drained.values()) == {True}
    require(lambda: bool(bridge.received(Stop)), "the bridge has nothing left")
    require(lambda: not world.leases.bridged, "the bridge copies nothing")
    assert not world.leases.unclaimed


def test_tasks_take_one_share_each_and_the_bridge_keeps_the_rest(world: World) -> None:
    lease = world.leases.renew_lease(assignment([0, 1], [2]))
    bridges = [world.copier(f"bridge {number}") for number in range(2)]
    for copier in bridges:
        copier.claim(lease, bridge=True)
    require(lambda: sum(len(copier.holds) for copier in bridges) == 3, "the bridge copies both shares")
    task = world.copier("task")
    task.claim(lease, 7)
    require(lambda: bool(task.holds), "the task has a share")
    require(lambda: sum(bool(copier.received(Stop)) for copier in bridges) == 1, "one copier of the bridge ends")
    assert world.leases.bridged
    assert world.leases.unclaimed
    assert {*task.holds, *(part for copier in bridges for part in copier.holds)} == set(PARTS[:3])


def test_the_bridge_takes_no_share_from_a_task_nor_from_another_copier_of_the_bridge(world: World) -> None:
    lease = world.leases.renew_lease(assignment([0]))
    task = world.copier("task")
    task.claim(lease, 7)
    require(lambda: task.holds == {PARTS[0]}, "the task copies")
    late = world.copier("late")
    late.claim(lease, bridge=True)
    require(lambda: late.received(LeaseEnded) == [LeaseEnded(lease)], "there is no share for the bridge")
    assert task.holds == {PARTS[0]}


def test_a_flow_with_a_copier_in_a_task_is_none_of_the_bridges(world: World) -> None:
    """Between two leases its copier goes on copying, and a lost copier's share goes to the other tasks."""
    lease = world.leases.renew_lease(assignment([0], [1]))
    one, two = world.copier("one"), world.copier("two")
    one.claim(lease, 1)
    two.claim(lease, 2)
    require(lambda: one.holds | two.holds == set(PARTS[:2]), "both copy")
    world.leases.renew_lease()
    assert world.leases.left_without_tasks == []
    one.die()
    assert world.leases.left_without_tasks == []
    two.die()
    assert world.leases.left_without_tasks == [0, 1]


def test_a_flow_that_stops_is_none_of_the_bridges(world: World) -> None:
    world.leases.renew_lease(assignment([0]))
    world.leases.stop(0)
    assert world.leases.left_without_tasks == []
