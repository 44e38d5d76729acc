"""Others have the partitions of executors that are lost, or about to go, at once: without Spark, within the lease."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worker.leasing import PARTS, Copier, World, require
from twinlog.lease.granting import PartitionGranter
from twinlog.lease.messages import CopierEnded, LeaseEnded, Stop
from twinlog.model.types import TopicPartition
from twinlog.spark.warm_up import SETTINGS
from twinlog.worker import flow_tasks as module
from twinlog.worker.flow_tasks import FlowTasks

PATIENCE_S = 60.0


class Scene:
    """A flow whose tasks are attended as its thread does it."""

    def __init__(self, count: int) -> None:
        self.world = World()
        settings = replace(SETTINGS, tasks_max=count)
        self.tasks = FlowTasks(settings, self.world.flow_status, self.world.leases, slots=count, tasks=None)
        self.tasks.plan(frozenset(PARTS))
        self.copiers = [self.world.copier(f"c{number}") for number in range(count)]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._attend, daemon=True)
        self.claim()
        self._thread.start()

    def claim(self) -> None:
        """Spark runs a task for each copier; the number of it is 100 times the lease and that of the copier."""
        lease = self.world.leases.lease
        for number, copier in enumerate(self.copiers):
            if not copier.cut_off.is_set():
                copier.claim(lease, 100 * lease + number)
        require(lambda: self.held == set(PARTS), "everything is copied")

    @property
    def held(self) -> set[TopicPartition]:
        return {part for copier in self.copiers for part in copier.holds}

    def _attend(self) -> None:
        while not self._over.wait(0.01):
            self.tasks.poll_tasks()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self.world.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene(3)
    yield scene
    scene.close()


def ends(copier: Copier) -> list[int]:
    return [message.lease for message in copier.received(LeaseEnded)]


def test_others_go_on_for_a_lost_copier_within_the_lease(scene: Scene) -> None:
    one, two, lost = scene.copiers
    lease = scene.world.leases.lease
    lost.die()
    require(lambda: scene.held == set(PARTS) == one.holds | two.holds, "the others have all of it")
    assert one.holds.isdisjoint(two.holds)
    assert scene.world.leases.lease == lease, "no task had to end for it"
    assert ends(one) == ends(two) == []
    # Nobody takes the flow for stuck, and starts its query again, while Spark does not know that the executor is lost.
    assert not scene.world.leases.unclaimed


def test_a_slot_less_ends_the_lease_only_once_others_have_what_was_lost(scene: Scene) -> None:
    """Spark reports the loss of an executor at the same moment; the tasks of the next lease begin seconds later."""
    one, two, lost = scene.copiers
    lost.die()
    scene.tasks.use_slots(2)
    require(lambda: ends(one) == ends(two) == [1], "the lease ends")
    require(lambda: one.holds | two.holds == set(PARTS), "they have all of it, and no task has claimed the next lease")


def test_a_task_that_spark_runs_again_has_its_part_again(scene: Scene) -> None:
    one, two, lost = scene.copiers
    lost.die()
    require(lambda: one.holds | two.holds == set(PARTS), "the others have all of it")
    again = scene.world.copier("again")
    scene.copiers[2] = again
    again.claim(scene.world.leases.lease, 999)
    require(lambda: bool(again.holds) and scene.held == set(PARTS), "it has some")
    require(lambda: {len(copier.holds) for copier in scene.copiers} == {2}, "as much as the others")


def test_a_task_that_runs_again_at_once_finds_its_part_untouched(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VACANT_S", PATIENCE_S)
    one, two, lost = scene.copiers
    before = [set(copier.holds) for copier in scene.copiers]
    lost.die()
    again = scene.world.copier("again")
    again.claim(scene.world.leases.lease, 999)
    require(lambda: again.holds == before[2], "it goes on")
    assert [one.holds, two.holds] == before[:2]


def test_the_lease_goes_on_while_spark_does_not_know_of_the_loss(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tasks would end but for the lost one, which keeps the next lease from beginning."""
    one, two, lost = scene.copiers
    lost.die()
    require(lambda: one.holds | two.holds == set(PARTS), "the others have all of it")
    lease = scene.world.leases.lease
    scene.tasks._renew_at = time.monotonic()
    attended = scene.tasks._look_at
    require(lambda: scene.tasks._look_at > attended + 2, "the flow was attended meanwhile")
    assert scene.world.leases.lease == lease
    # Once it does know, there is a slot less, and so a lease with a task less.
    scene.tasks.use_slots(2)
    require(lambda: scene.world.leases.lease > lease, "another lease")
    assert len(scene.world.leases.assignment()) == 2


def test_an_executor_that_is_about_to_go_is_drained_before_its_task_ends(scene: Scene) -> None:
    one, two, leaving = scene.copiers
    lease = scene.world.leases.lease
    scene.tasks.exclude_tasks(frozenset({100 * lease + 2}))
    # As its executor counts for nothing any more.
    scene.tasks.use_slots(2)
    require(lambda: bool(ends(leaving)), "its task may end")
    assert leaving.holds == set(), "it had released everything before"
    assert not leaving.received(Stop)
    assert len(scene.world.leases.assignment()) == 2
    # The driver has sent the grants; the copiers read them a moment later.
    require(lambda: one.holds | two.holds == set(PARTS), "and nothing is left without a copier")
    assert one.drained.items() >= dict.fromkeys(one.holds & leaving.drained.keys(), True).items()
    # Its executor has gone with its process.
    leaving.die()
    scene.claim()
    scene.tasks.exclude_tasks(frozenset())
    assert scene.world.leases.lease == lease + 1


def test_tasks_end_only_once_the_other_copiers_are_granted_what_moved(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, leaving = scene.copiers
    lease = scene.world.leases.lease
    wait_for_release = PartitionGranter._wait_for_release
    slow, asked = threading.Event(), threading.Event()

    def wait_long(*args: Any) -> None:
        wait_for_release(*args)
        asked.set()
        slow.wait(60)

    monkeypatch.setattr(PartitionGranter, "_wait_for_release", wait_long)
    scene.tasks.exclude_tasks(frozenset({100 * lease + 2}))
    require(lambda: not leaving.holds and asked.is_set(), "the partitions are released")
    time.sleep(0.1)
    assert scene.world.leases.lease == lease
    slow.set()
    require(lambda: one.holds | two.holds == set(PARTS), "the other copiers copy what moved, before their next task")


def test_copiers_that_end_as_asked_are_not_lost(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """Their query is stopped, as for other settings, and begins again."""
    scene.world.leases.stop_copiers()
    attended = scene.tasks._look_at
    require(lambda: scene.tasks._look_at > attended + 2, "the flow was attended meanwhile")
    assert "is gone" not in caplog.text
    scene.copiers = [scene.world.copier(f"d{number}") for number in range(3)]
    scene.claim()
    assert {len(copier.holds) for copier in scene.copiers} == {2}


def test_where_all_executors_are_about_to_go_copiers_release_and_end() -> None:
    scene = Scene(1)
    try:
        (leaving,) = scene.copiers
        lease = scene.world.leases.lease
        scene.tasks.exclude_tasks(frozenset({100 * lease}))
        require(lambda: scene.world.leases.lease == lease + 1, "a lease for another executor")
        assert leaving.received(Stop)
        assert leaving.holds == set()
        assert not ends(leaving), "it had released, and said so, before"
        other = scene.world.copier("other")
        scene.copiers = [other]
        scene.claim()
        assert all(other.drained.values())
    finally:
        scene.close()


def test_a_copier_that_does_not_let_go_is_not_waited_for_longer_than_others_wait(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DRAIN_S", 0.3)
    leaving = scene.copiers[2]
    leaving.lets_go = False
    lease = scene.world.leases.lease
    scene.tasks.exclude_tasks(frozenset({100 * lease + 2}))
    require(lambda: scene.world.leases.lease == lease + 1, "its task may end all the same")
    assert not leaving.received(CopierEnded)
