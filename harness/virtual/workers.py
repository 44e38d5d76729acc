"""Workers of one Connect group in this process, in virtual time: their herders are real, what they write to is not.

What a connector does is only whether something of it runs: `World.running` says of which, and where.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from harness.virtual.clock import VirtualClock
from harness.virtual.state_topics import Log, group_state
from harness.virtual.worker_group import Coordinator, Member
from twinlog.config.connector import build_connector
from twinlog.config.worker import WorkerConfig
from twinlog.connect import connector_flows, parts, running, worker_herder
from twinlog.connect.group.member import WorkerState
from twinlog.connect.worker_herder import WorkerHerder
from twinlog.connectors.model import Validation
from twinlog.errors import NotOwnerError, RequestError
from twinlog.worker.spark_flows import SparkOptions

TICK_S = 0.2
END_S = 3.0
"""The longest time that a connector takes to end."""


class World:
    """The workers, the topics that they share, and the time."""

    def __init__(self, config: WorkerConfig, seed: int) -> None:
        self.clock = _Clock(self)
        self.config = config
        self.chance = random.Random(seed)
        self.topics: dict[str, Log] = {}
        self.workers: list[VirtualWorker] = []
        self.running: list[Doing] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.group = Coordinator(self)
        self._started = 0

    def start_worker(self) -> VirtualWorker:
        self._started += 1
        worker = VirtualWorker(self, f"w{self._started}")
        self.workers.append(worker)
        assert worker.thread.begin()
        return worker

    def advance(self, seconds: float) -> None:
        """Let time pass, and every worker that can do what it does meanwhile."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            self.clock.now += TICK_S
            for due in [one for one in self.later if one[0] <= self.clock.now]:
                self.later.remove(due)
                due[1]()
            self.group.tick()
            for worker in list(self.workers):
                worker.turn()
            self.check()

    def check(self) -> None:
        """No connector may be written for twice at a time."""
        writing = [one.name for one in self.running if one.writes]
        assert len(writing) == len(set(writing)), f"two copies: {[(one.name, one.worker.name) for one in self.running]}"

    def ask(self, worker: VirtualWorker, call: Callable[[WorkerHerder], Any]) -> Any:
        """A request at a worker, passed on as `connect/rest/forward.py` does; RequestError 500 for a lost one."""
        for _ in range(3):
            if worker not in self.workers or worker.frozen:
                raise RequestError(500, "IO Error trying to forward REST request")
            try:
                return call(worker.herder)
            except NotOwnerError as owner:
                found = [one for one in self.workers if one.url == owner.url]
                if not found:
                    raise RequestError(409 if not owner.url else 500, "nobody there") from None
                worker = found[0]
        raise RequestError(409, "it went over two workers")


class VirtualWorker:
    """A process: it may stand still, end in order, or be killed."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.url = f"http://{name}:8083/"
        self.frozen = False
        self._in_turn = self.stops = False
        self.stall_s = 0.0
        """For how long its next append waits on the way to the broker."""
        self.fault: str | None = None
        """What becomes of its next append: `before` it is lost, `after` its answer is."""
        self.allowed: Callable[[], bool] = lambda: True
        client = SimpleNamespace(settings=None, append_only_while=self._append_only_while)
        admin = SimpleNamespace(
            alias="worker",
            clock=world.clock,
            client=client,
            worker=self,
            connect=lambda: None,
            identity=lambda: SimpleNamespace(cluster_id="id"),
        )
        group = world.config.settings.group
        assert group is not None
        self.herder = WorkerHerder(
            world.config,
            partial(group_state, self, group),
            partial(Member, self),
            cast(Any, admin),
            SparkOptions(),
            connect=cast(Any, lambda *_: admin),
        )
        self.thread = self.herder._thread
        self.thread.worker_id = f"{name}:8083"
        self.member = cast(Member, self.herder._group)
        self.member.myself = WorkerState(self.url, self.thread.worker_id)

    def _append_only_while(self, allowed: Callable[[], bool], *, reads: bool) -> None:
        assert reads
        self.allowed = allowed

    def turn(self) -> None:
        """Heartbeats go on while the herder waits for an answer."""
        if self.frozen:
            return
        self.member.beat()
        if (
            not self.stops
            and not self._in_turn
            and not self.thread.changing.locked()
            and not self.thread._following.locked()
        ):
            self._in_turn = True
            try:
                self.thread.process_assignment()
            finally:
                self._in_turn = False

    def kill(self) -> None:
        """As SIGKILL does."""
        self.world.workers.remove(self)
        self.world.running[:] = [one for one in self.world.running if one.worker is not self]

    def stop(self) -> None:
        """As SIGTERM does: what runs is ended, and the group is left."""
        self.stops = True
        self.thread.end()
        self.world.workers.remove(self)


class Doing:
    """In the place of what a checkpoint connector or a heartbeat connector does."""

    failure: str | None = None
    trouble: str | None = None
    groups = ("g",)
    has_beaten = False

    def __init__(self, settings: Any, allowed: Callable[[], bool], *more: Any, connect: Any = None) -> None:
        admin = (connect or more[-1])("", None)
        self.settings = settings
        self.worker: VirtualWorker = admin.worker
        self.name = str(settings.connector_name)
        self._allowed = allowed

    @property
    def writes(self) -> bool:
        """A process that stands still writes nothing, and when it goes on it looks whether it may."""
        return self._allowed() and not self.worker.frozen

    def start(self) -> None:
        self.worker.world.running.append(self)

    def poll_flow(self) -> None: ...

    def positions(self) -> dict[str, Any]:
        return {}

    def take_written(self) -> set[str]:
        return {f"topic-of-{self.name}"} if self.writes else set()

    def stop(self, timeout_s: float = 0.0) -> None:
        self.close()

    def close(self) -> None:
        if self in self.worker.world.running:
            self.worker.world.running.remove(self)


class _Clock(VirtualClock):
    """Whoever sleeps lets the others go on."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def sleep(self, seconds: float) -> None:
        self._world.advance(seconds)


@contextmanager
def virtual_workers(config: WorkerConfig, seed: int) -> Iterator[World]:
    """A world without workers; meanwhile herders are made of what is in this file."""
    world = World(config, seed)

    def in_thread(step: Callable[[], None], _name: str) -> Any:
        left = [step]

        def end() -> None:
            left.pop()()

        world.later.append((world.clock.now + world.chance.random() * END_S, end))

        def join(timeout_s: float) -> None:
            until = world.clock.now + timeout_s
            while left and world.clock.now < until:
                world.advance(TICK_S)

        return SimpleNamespace(is_alive=lambda: bool(left), join=join)

    built: dict[Any, Any] = {}

    def build(name: Any, config: Any, worker: WorkerConfig) -> Any:
        key = name, tuple(sorted(config.items()))
        if key not in built or any("${" in value for value in config.values()):
            built[key] = build_connector(name, config, worker)
        return built[key]

    spark = SimpleNamespace(wake=None)
    with ExitStack() as patches:
        for module, name, stand_in in (
            (running, "GroupsFlow", Doing),
            (running, "IdleFlow", Doing),
            (running, "SparkFlows", lambda *_: spark),
            (parts, "in_thread", in_thread),
            (connector_flows, "build_connector", build),
            (worker_herder, "validate", lambda plugin, *_, **__: Validation(plugin, (), ())),
        ):
            patches.enter_context(mock.patch.object(module, name, stand_in))
        yield world
