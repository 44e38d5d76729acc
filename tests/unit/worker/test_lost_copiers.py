"""What becomes of partitions whose copier is dead, silent, or does not let go."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.unit.worker.leasing import PARTS, World, assignment, require
from twinlog.lease import granting
from twinlog.lease import leases as module
from twinlog.lease.messages import (
    CopierHeartbeat,
)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def test_a_dead_copiers_share_is_free(world: World) -> None:
    lease = world.leases.renew_lease(assignment([0, 1]))
    one = world.copier("one")
    one.claim(lease)
    require(lambda: len(one.holds) == 2, "one copies")
    one.die()
    assert world.leases.unclaimed
    two = world.copier("two")
    two.claim(lease)
    require(lambda: two.holds == set(PARTS[:2]), "two goes on")
    assert not two.drained[PARTS[0]]


def test_the_claim_of_a_dead_copier_takes_no_share(world: World) -> None:
    lease = world.leases.renew_lease(assignment([0]))
    for _ in range(20):
        one = world.copier("one")
        one.claim(lease)
        one.die()
    require(lambda: world.leases.unclaimed, "the share is free")
    two = world.copier("two")
    two.claim(lease)
    require(lambda: two.holds == {PARTS[0]}, "two has it")


def test_a_silent_copier_loses_its_partitions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEAD_S", 0.3)
    lease = world.leases.renew_lease(assignment([0]))
    one = world.copier("one", lets_go=False)
    one.claim(lease)
    require(lambda: one.holds == {PARTS[0]}, "one copies")
    require(one.cut_off.is_set, "one is cut off")
    two = world.copier("two")
    two.claim(lease)
    require(lambda: two.holds == {PARTS[0]}, "two has it")


def test_who_does_not_let_go_is_cut_off_and_may_not_append_any_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(granting, "RELEASE_S", 0.2)
    monkeypatch.setattr(granting, "VALID_S", 1.0)
    monkeypatch.setattr(module, "VALID_S", 1.0)
    one, two = world.copier("one", lets_go=False), world.copier("two")
    lease = world.leases.renew_lease(assignment([0]))
    one.claim(lease)
    require(lambda: one.holds == {PARTS[0]}, "one copies")
    one.send(CopierHeartbeat(2.0))
    last_beat = time.monotonic()
    lease = world.leases.renew_lease()
    two.claim(lease)
    require(one.cut_off.is_set, "one is cut off")
    require(lambda: two.holds == {PARTS[0]}, "two has it")
    assert time.monotonic() - last_beat >= 1.0
    assert not two.drained[PARTS[0]]


def test_stop_does_not_wait_for_ever(world: World) -> None:
    world.copier("one", lets_go=False)
    assert not world.leases.stop(0.2)
