"""A fence that comes after another process has undone the switchover: no producer may stay fenced by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.ops.switchover.machines import A_TO_B, PLANNED, machine
from tests.unit.ops.switchover.scripted import P0, P1, Brokers, Kill, ScriptedJournal, ScriptedWorld
from twinlog.errors import ClusterError, FencedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.topics.journal_keys import SwitchoverState
from twinlog.ops.switchover.fencing import FIRST_RATE, RATE, quotas_data, raise_fence, throttles
from twinlog.ops.switchover.journal import JournalLine, SwitchoverRun
from twinlog.ops.switchover.machine import SwitchoverMachine
from twinlog.ops.switchover.model import Data, SwitchoverKind, SwitchoverOptions
from twinlog.ops.switchover.steps.step import SEEN_MS


class LostJournal(ScriptedJournal):
    """The journal of a process; another process has taken it over once it is `lost`."""

    lost = False

    def write(self, lines: Sequence[JournalLine], run: SwitchoverRun | None = None) -> None:
        if self.lost:
            raise FencedError("another process writes to it now")
        super().write(lines, run)


def fence_late(
    brokers: Brokers, meanwhile: Callable[[], object], *, confirms: bool, options: SwitchoverOptions = PLANNED
) -> None:
    """A switchover whose fence reaches the source after another process did what `meanwhile` does."""
    world, journal = ScriptedWorld(brokers, Kill()), LostJournal(brokers, Kill())

    def fence(plan: Data, confirm: Callable[[], None]) -> None:
        meanwhile()
        journal.lost = True
        brokers.fenced = True
        if confirms:
            confirm()

    world.fence_producers = fence  # type: ignore[method-assign]
    with pytest.raises(FencedError):
        SwitchoverMachine(world, journal, "host 1").run(options)


def silent_source(brokers: Brokers, seconds: float) -> ScriptedWorld:
    """A world whose source fails to answer to the fence for a time."""
    world = ScriptedWorld(brokers, Kill())
    fence, begun_ms = world.fence_producers, list[int]()

    def fail(plan: Data, confirm: Callable[[], None]) -> None:
        begun_ms.append(world.now_ms())
        if begun_ms[-1] - begun_ms[0] < seconds * 1000:
            raise ClusterError("cluster a: no broker can be reached")
        fence(plan, confirm)

    world.fence_producers = fail  # type: ignore[method-assign]
    return world


class SeenJournal(LostJournal):
    """A journal that notes when its process showed that it lives."""

    def __init__(self, brokers: Brokers, lost_after: int | None = None) -> None:
        super().__init__(brokers, Kill())
        self.seen_ms: list[int] = []
        self._lost_after = lost_after

    def write(self, lines: Sequence[JournalLine], run: SwitchoverRun | None = None) -> None:
        super().write(lines, run)
        if run is not None and not lines:
            self.seen_ms.append(run.seen_ms)
            self.lost = len(self.seen_ms) == self._lost_after


def test_a_process_that_waits_for_a_silent_cluster_shows_that_it_lives() -> None:
    """Another host takes a process for ended after 20 s without an entry."""
    brokers = Brokers(A_TO_B)
    journal = SeenJournal(brokers)
    SwitchoverMachine(silent_source(brokers, 40), journal, "host 1").run(PLANNED)
    notes = [later - earlier for earlier, later in pairwise(journal.seen_ms)]
    assert len(notes) >= 40_000 / (SEEN_MS + 2_000)
    assert max(notes) < 2 * SEEN_MS


def test_a_process_that_waits_for_a_silent_cluster_sees_that_another_took_over() -> None:
    brokers = Brokers(A_TO_B)
    journal = SeenJournal(brokers, lost_after=4)
    with pytest.raises(FencedError):
        SwitchoverMachine(silent_source(brokers, 50), journal, "host 1").run(PLANNED)
    assert len(journal.seen_ms) == 4


BETWEEN_OR_AFTER = pytest.mark.parametrize("confirms", [True, False], ids=["between its changes", "after its changes"])


@BETWEEN_OR_AFTER
def test_after_an_undo_by_another_process_the_late_fence_is_lifted(confirms: bool) -> None:
    brokers = Brokers(A_TO_B)
    fence_late(brokers, lambda: machine(brokers).abort(), confirms=confirms)
    assert not brokers.fenced
    assert brokers.noted_fence is None
    run = ScriptedJournal(brokers, Kill()).entries.run
    assert run is not None
    assert run.state is SwitchoverState.ABORTED


@BETWEEN_OR_AFTER
def test_a_switchover_that_another_process_continues_keeps_its_fence(confirms: bool) -> None:
    brokers = Brokers(A_TO_B)
    fence_late(brokers, lambda: machine(brokers).run(PLANNED), confirms=confirms)
    assert brokers.fenced


@BETWEEN_OR_AFTER
def test_a_later_switchover_keeps_its_fence(confirms: bool) -> None:
    brokers = Brokers(A_TO_B)

    def begin_another() -> None:
        machine(brokers).abort()
        machine(brokers).run(PLANNED)

    fence_late(brokers, begin_another, confirms=confirms)
    assert brokers.fenced


@BETWEEN_OR_AFTER
@pytest.mark.parametrize("released", [True, False])
def test_the_late_fence_of_a_repeated_emergency_is_lifted_after_a_release_alone(released: bool, confirms: bool) -> None:
    emergency = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    brokers = Brokers(A_TO_B, source_lost=True, group_at={P0: 8, P1: 20})
    machine(brokers).run(emergency)
    brokers.source_lost = False

    def take_over() -> None:
        if released:
            machine(brokers).release_fence()
        else:
            machine(brokers).run(emergency)

    fence_late(brokers, take_over, confirms=confirms, options=emergency)
    assert brokers.fenced is not released


class CountedCalls:
    """A cluster that notes its calls, and the rates of quotas."""

    def __init__(self) -> None:
        self.noted: list[Any] = []
        self.alias, self.client = "a", None
        self.clock = SimpleNamespace(sleep=lambda _seconds: self.noted.append("sleep"))

    def call(self, step: Callable[..., Any], *args: Any) -> None:
        self.noted.append((step.__name__, sorted({one.rate for one in args[1]})[0]))


def test_the_lowest_quota_is_set_by_the_owner_of_the_switchover_only() -> None:
    wanted, restore = throttles([], set(), {"copier"})
    plan = {"set": quotas_data(wanted), "restore": quotas_data(restore)}
    first, second = ("alter_producer_quotas", FIRST_RATE), ("alter_producer_quotas", RATE)
    cluster = CountedCalls()
    raise_fence(cast(ClusterAdmin, cluster), plan, lambda: cluster.noted.append("confirm"))
    assert cluster.noted == [first, "sleep", "confirm", second]

    def refuse() -> None:
        raise FencedError("another process writes to it now")

    cluster = CountedCalls()
    with pytest.raises(FencedError):
        raise_fence(cast(ClusterAdmin, cluster), plan, refuse)
    assert cluster.noted == [first, "sleep"]
