"""What a query's planner is answered: when tasks are due, and whose copiers each runs."""

from __future__ import annotations

import threading
import time

from tests.unit.worker.leasing import World, assignment, require
from twinlog.lease.lease_server import QueryFlows
from twinlog.lease.leases import Leases
from twinlog.lease.messages import Share


def flow(name: str) -> Leases:
    return Leases(name, lambda _: [], lambda *_: None, lambda *_: None)


def test_a_planner_waits_until_there_is_work() -> None:
    leases = flow("a->b")
    bundle = QueryFlows("q", [leases])
    began = time.monotonic()
    assert bundle.next_batch(0, 0.1) == 0
    assert time.monotonic() - began >= 0.1
    leases.renew_lease(())
    assert bundle.next_batch(0, 0.05) == 0
    timer = threading.Timer(0.1, leases.renew_lease, [assignment([0])])
    timer.start()
    assert bundle.next_batch(7, 5) == 8
    timer.join()
    leases.stop(0)
    assert bundle.next_batch(8, 0.05) == 8


def test_tasks_are_due_until_every_share_is_claimed() -> None:
    world = World()
    bundle = QueryFlows("q", [world.leases])
    lease = world.leases.renew_lease(assignment([0]))
    one = world.copier("one")
    one.claim(lease)
    require(lambda: not world.leases.unclaimed, "it is claimed")
    assert bundle.next_batch(1, 0.05) == 1
    timer = threading.Timer(0.1, one.die)
    timer.start()
    assert bundle.next_batch(1, 5) == 2
    timer.join()
    world.close()


def test_several_flows_share_a_task() -> None:
    one, two = flow("a->b"), flow("b->a")
    bundle = QueryFlows("q", [one, two])
    assert bundle.shares() == []
    one.renew_lease(assignment([0, 1]))
    assert bundle.shares() == [[Share("a->b", 1, 0)]]
    two.renew_lease(assignment([2]))
    two.renew_lease()
    assert bundle.shares() == [[Share("a->b", 1, 0), Share("b->a", 2, 0)]]
    bundle.remove(one)
    assert bundle.shares() == [[Share("b->a", 2, 0)]]
    two.renew_lease(assignment([2], [3]))
    assert bundle.shares() == [[Share("b->a", 3, 0)], [Share("b->a", 3, 1)]]
    two.stop(0)
    assert bundle.shares() == []


def test_a_flow_that_comes_later_has_work_at_once() -> None:
    one, two = flow("a->b"), flow("b->a")
    bundle = QueryFlows("q", [one])
    two.renew_lease(assignment([0]))
    timer = threading.Timer(0.1, bundle.add, [two])
    timer.start()
    assert bundle.next_batch(3, 5) == 4
    timer.join()
