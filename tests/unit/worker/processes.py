"""Processes that elect one of them, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.virtual.cluster import VirtualCluster
from harness.virtual.groups import Member, VirtualGroup
from harness.virtual.loop import VirtualLoop, virtual_loop
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.types import Alias
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.worker.election.election import Election
from twinlog.worker.election.role import ElectionState
from twinlog.worker.election.roster import ElectionRegistry

LEADS, STANDS_BY = ElectionState.LEADING, ElectionState.STANDBY

SOON_S = 3.0
"""Within this a rebalance is over, if nobody is silent."""


class Process:
    """One process of several that could run the flow; `led` are the standings it went through."""

    def __init__(
        self, world: World, name: str, settings: FlowSettings | None = None, roster: ElectionRegistry | None = None
    ) -> None:
        self.world = world
        self.loop = VirtualLoop(world.loop.world)
        self.went: list[ElectionState] = []
        self.roster = roster or ElectionRegistry(ready=True, name=name, clock=self.loop.clock)
        self.election = Election(
            settings or world.settings,
            lambda: self.went.append(self.election.standing),
            self.roster,
            connect=lambda alias, client: ClusterAdmin(alias, client, self.loop),
        )
        self.election.start()

    @property
    def standing(self) -> ElectionState:
        return self.election.standing

    @property
    def may_append(self) -> bool:
        return self.election.leads_for_s() > 0

    def freeze(self) -> None:
        """Stand still, as SIGSTOP makes a process; the clock goes on."""
        self.loop.world.frozen.add(self.loop)

    def wake(self) -> None:
        self.loop.world.frozen.discard(self.loop)


class World:
    """The target with its group, and the processes."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.target = VirtualCluster(loop, "west", brokers=2)
        source, target = ClientSettings(("east-1:9092",)), ClientSettings(self.target.bootstrap)
        self.settings = FlowSettings(
            source=Alias("east"),
            target=Alias("west"),
            consumer=ConsumerSettings(source),
            producer=ProducerSettings(target),
            source_admin=AdminSettings(source),
            target_admin=AdminSettings(target),
        )
        self.processes: list[Process] = []
        self.two_led: list[float] = []

    def begin(self, name: str, standing: ElectionState | None = None) -> Process:
        one = Process(self, name)
        self.processes.append(one)
        if standing is not None:
            self.until(lambda: one.standing is standing)
        return one

    @property
    def group(self) -> VirtualGroup:
        return self.target.groups.groups[self.settings.group_id]

    def join_others(self, kind: str) -> str:
        """Members of another kind are in the group, and send their heartbeats; returns a member's id."""
        now = self.target.now()
        others = {"mm2-1": Member("mm2-worker", 1e9, 60.0, {"compatible": b""}, now)}
        self.target.groups.groups[self.settings.group_id] = VirtualGroup(
            "Stable", kind, 3, "mm2-1", "compatible", others, {"mm2-1": b""}
        )
        return "mm2-1"

    def until(self, true: Callable[[], bool], within_s: float = 60.0) -> float:
        """Let virtual time pass until `true()`; returns how much of it passed."""
        begun = self.loop.clock.monotonic()

        async def wait() -> None:
            while not true():
                passed = self.loop.clock.monotonic() - begun
                assert passed < within_s, [(one.standing, one.election.text) for one in self.processes]
                await self.loop.sleep(0.02)
                self.look()

        self.loop.run(wait)
        return float(self.loop.clock.monotonic() - begun)

    def pass_by(self, seconds: float) -> None:
        over = self.loop.clock.monotonic() + seconds
        self.until(lambda: self.loop.clock.monotonic() >= over, seconds + 1)

    def look(self) -> None:
        if sum(one.may_append for one in self.processes) > 1:
            self.two_led.append(self.loop.clock.monotonic())

    @property
    def leaders(self) -> list[Process]:
        return [one for one in self.processes if one.may_append]


@contextmanager
def world(seed: int = 1) -> Iterator[World]:
    with virtual_loop(seed) as loop:
        here = World(loop)
        yield here
        for one in here.processes:
            one.wake()
            one.election.stop(5.0)
        assert here.two_led == []
