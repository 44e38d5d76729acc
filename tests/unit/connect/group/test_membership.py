"""Workers of a Connect group that stand still, crash and come back, with a coordinator that moves.

Real memberships in a group of a cluster of this process, in virtual time; each worker has an event loop of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.groups import Member, VirtualGroup
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from twinlog.connect.group.earlier_workers import UNHEARD_S
from twinlog.connect.group.group import WorkerGroup
from twinlog.connect.group.member import WorkerState
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.settings.client import ClientSettings
from twinlog.settings.worker import GroupSettings, StorageTopic
from twinlog.worker.connectors.model import ConnectorName
from twinlog.worker.placement.processes import ConnectorWeight

SETTINGS = GroupSettings("workers", *(StorageTopic(name, 1, 1) for name in ("configs", "offsets", "states")))
SESSION_S = SETTINGS.session_timeout_ms / 1000
SOON_S = 4.0
"""Within this a rebalance is over, if nobody is silent."""


class One:
    """A worker that runs what it is given, and ends what it is not at once."""

    def __init__(self, world: World, name: str, settings: GroupSettings = SETTINGS) -> None:
        self.loop = VirtualLoop(world.loop.world)
        self.owned: frozenset[ConnectorName] = frozenset()
        self.crashes: list[Exception] = []
        self.group = WorkerGroup(
            ClusterAdmin("worker", ClientSettings(world.cluster.bootstrap), self.loop),
            settings,
            lambda: dict.fromkeys(world.connectors, ConnectorWeight()),
            lambda: self.owned,
            self._changed,
            self.crashes.append,
        )
        self.group.myself = WorkerState(f"http://{name}:8083/", f"{name}:8083")
        self.group.start()

    def _changed(self) -> None:
        assignment = self.group.assignment
        before, self.owned = self.owned, frozenset() if assignment is None else assignment.connectors
        if assignment is not None and before - self.owned:
            self.group.rejoin()

    @property
    def may_write(self) -> bool:
        return self.group.leads_for_s() > 0

    def freeze(self) -> None:
        self.loop.world.frozen.add(self.loop)

    def wake(self) -> None:
        self.loop.world.frozen.discard(self.loop)


class World:
    """The workers' cluster with their group."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.cluster = VirtualCluster(loop, "worker", brokers=2)
        self.connectors = [ConnectorName(name) for name in "abcd"]
        self.workers: list[One] = []
        self.unheard_s = 0.0
        """For how long connectors may seem to run twice."""
        self.twice_since = 0.0

    def begin(self, name: str, settings: GroupSettings = SETTINGS) -> One:
        one = One(self, name, settings)
        self.workers.append(one)
        return one

    @property
    def state(self) -> VirtualGroup:
        return self.cluster.groups.groups[SETTINGS.group_id]

    def spread(self) -> bool:
        """Whether each connector runs on one worker, and nothing else is to come."""
        running = sorted(name for one in self.workers for name in one.owned if one.may_write)
        return running == self.connectors and self.state.state == "Stable"

    def until(self, true: Callable[[], bool], within_s: float = 60.0) -> float:
        begun = self.loop.clock.monotonic()

        async def wait() -> None:
            while not true():
                passed = self.loop.clock.monotonic() - begun
                assert passed < within_s, [(one.owned, one.group.reason) for one in self.workers]
                await self.loop.sleep(0.02)
                running = [name for one in self.workers for name in one.owned if one.may_write]
                if len(running) == len(set(running)):
                    self.twice_since = self.loop.clock.monotonic()
                twice_s = self.loop.clock.monotonic() - self.twice_since
                assert twice_s <= self.unheard_s, "two copies of a connector"

        self.loop.run(wait)
        return float(self.loop.clock.monotonic() - begun)

    def pass_by(self, seconds: float) -> None:
        over = self.loop.clock.monotonic() + seconds
        self.until(lambda: self.loop.clock.monotonic() >= over, seconds + 1)


@contextmanager
def world(workers: int = 2) -> Iterator[World]:
    with virtual_loop(1) as loop:
        here = World(loop)
        for number in range(workers):
            here.begin(f"w{number + 1}")
        here.until(lambda: here.spread() and len(here.state.members) == workers)
        here.pass_by(SOON_S)
        assert here.spread()
        yield here
        for one in here.workers:
            one.wake()
            one.group.stop()
            assert one.crashes == []


def test_connectors_spread_and_go_on_elsewhere_when_their_worker_leaves() -> None:
    with world() as here:
        one, two = here.workers
        assert (len(one.owned), len(two.owned)) == (2, 2)
        one.group.stop()
        assert one.group.assignment is None
        assert here.until(lambda: len(two.owned) == 4) < SOON_S


def test_a_connector_that_comes_while_a_worker_begins_to_lead_is_assigned() -> None:
    """It is missing in the assignments, which are on their way to the coordinator."""
    with world(1) as here:
        (one,) = here.workers
        here.cluster.fault(SYNC_GROUP, Fault(delay_s=1.0), times=1)
        one.group.rejoin()
        here.until(lambda: here.cluster.faults_left == 0)
        here.connectors.append(ConnectorName("e"))
        here.until(here.spread, SOON_S)


@pytest.mark.parametrize("code", [Code.COORDINATOR_LOAD_IN_PROGRESS, Code.ILLEGAL_GENERATION])
def test_a_leader_is_confirmed_though_a_heartbeat_fails(code: int) -> None:
    """A heartbeat may overtake the answer to a join, which shows the next generation."""
    with world(1) as here:
        (one,) = here.workers
        here.cluster.fault(HEARTBEAT, Fault(code=code), times=1)
        assert one.group.confirm_membership(one.group.term)
        assert here.cluster.faults_left == 0


def test_a_leader_that_was_removed_is_not_confirmed() -> None:
    with world(1) as here:
        (one,) = here.workers
        here.unheard_s = UNHEARD_S
        here.cluster.groups.forget(SETTINGS.group_id, here.state.leader)
        assert not one.group.confirm_membership(one.group.term)
        here.until(here.spread)


def test_a_worker_with_other_topics_is_told_so_and_given_nothing() -> None:
    with world() as here:
        odd = here.begin("odd", replace(SETTINGS, status_storage=StorageTopic("others", 1, 1)))
        here.until(lambda: odd.group.reason is not None)
        assert odd.group.reason is not None
        leader = WorkerState.decode(here.state.members[here.state.leader].metadata[here.state.protocol])
        assert f"the worker at {leader.url}, which leads it, has its state in" in odd.group.reason
        here.pass_by(SOON_S)
        here.until(here.spread)
        assert not odd.owned
        assert not odd.group.joined


def test_workers_of_kafka_keep_a_worker_out_until_they_leave() -> None:
    with virtual_loop(1) as loop:
        here = World(loop)
        theirs = Member("connect-1", 1e9, 60.0, {"sessioned": b"", "compatible": b""}, loop.clock.monotonic())
        here.cluster.groups.groups[SETTINGS.group_id] = VirtualGroup(
            "Stable", "connect", 3, "theirs", "sessioned", {"theirs": theirs}, {"theirs": b""}
        )
        ours = here.begin("w1")
        here.until(lambda: ours.group.taken)
        assert not ours.group.joined
        here.pass_by(SESSION_S)
        assert ours.group.taken
        assert "its members are of another kind" in str(ours.group.reason)
        del here.cluster.groups.groups[SETTINGS.group_id]
        here.until(lambda: ours.group.joined and here.spread(), SOON_S)
        assert not ours.group.taken
        ours.group.stop()
        assert ours.crashes == []


def test_what_ran_on_a_worker_that_was_killed_runs_elsewhere_once_its_session_ends() -> None:
    with world() as here:
        one, two = here.workers
        one.freeze()
        passed = here.until(lambda: len(two.owned) == 4)
        assert SESSION_S - 1 <= passed <= SESSION_S + SOON_S
        one.wake()
        here.until(lambda: len(one.owned) == 2 and here.spread())


def test_a_coordinator_that_moves_amid_a_rebalance_has_the_group_as_it_was() -> None:
    """The broker that was asked to join never answers; the next one knows the group as it was stable last."""
    with world() as here:
        one, two = here.workers
        generation = here.state.generation
        two.freeze()
        here.loop.call_threadsafe(one.group.rejoin)
        here.until(lambda: here.state.state == "PreparingRebalance")
        here.cluster.groups.move(2)
        assert (here.state.state, here.state.generation) == ("Stable", generation)
        two.wake()
        here.until(lambda: here.state.state == "Stable" and here.state.generation > generation, SESSION_S)
        here.until(here.spread, SOON_S)
        here.pass_by(SETTINGS.rebalance_timeout_ms / 1000 + SESSION_S)
        assert here.spread()


@pytest.mark.parametrize("key", [JOIN_GROUP, SYNC_GROUP])
def test_a_member_that_was_removed_while_it_waits_joins_as_another(key: int) -> None:
    with world() as here:
        _, two = here.workers
        here.unheard_s = UNHEARD_S
        here.cluster.fault(key, Fault(delay_s=1000.0), times=1)
        two.group.rejoin()
        here.until(lambda: here.cluster.faults_left == 0)
        here.pass_by(1)
        (other,) = set(here.state.members) - {here.state.leader}
        here.cluster.groups.forget(SETTINGS.group_id, other)
        here.until(lambda: here.spread() and len(here.state.members) == 2, 2 * SETTINGS.rebalance_timeout_ms / 1000)
        assert other not in here.state.members


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION])
def test_a_worker_that_the_group_does_not_know_any_more_begins_anew(code: int) -> None:
    with world(1) as here:
        (one,) = here.workers
        term = one.group.term
        here.cluster.fault(HEARTBEAT, Fault(code=code))
        here.until(lambda: one.group.term > term)
        assert not one.owned
        here.until(here.spread, 2 * SETTINGS.rebalance_timeout_ms / 1000)


def test_a_coordinator_that_is_silent_for_a_session_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with world(1) as here:
        caplog.clear()
        for node in here.cluster.nodes:
            here.cluster.stop(node)
        here.pass_by(SESSION_S - 2)
        assert "cannot take part" not in caplog.text
        here.pass_by(20)
        assert (
            caplog.text.count("cannot take part in group workers, trying again: its coordinator has been silent") == 1
        )
        assert not here.workers[0].may_write
        for node in here.cluster.nodes:
            here.cluster.start(node)
        here.until(here.spread)
        here.pass_by(2)
        assert caplog.text.count("takes part in group workers again") == 1
