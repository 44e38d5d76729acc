"""Workers of one Connect group in this process, in virtual time: their herders are real, what they write to is not.

What a connector does is only whether something of it runs: `World.running` says of which, and where.

A rebalance ends when all members have joined again, as with a broker.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from harness.virtual.clock import VirtualClock
from twinlog.config.connector import build_connector
from twinlog.config.worker import WorkerConfig
from twinlog.connect import connector_flows, herder, instances, running
from twinlog.connect.group.member import Assignment, WorkerState, decode_assignment, encode_assignment
from twinlog.connect.group.state import Changed, GroupState
from twinlog.connect.herder import Herder
from twinlog.connect.storage import config_records, offset_records, status_records
from twinlog.connect.storage.config_records import StoredRecord, UnreadableRecord
from twinlog.errors import ClusterError, NotOwnerError, RequestError, TopicGoneError
from twinlog.kafka.coordinator.group_session import LeadershipLease
from twinlog.settings.worker import GroupSettings
from twinlog.worker.connectors.model import Validation
from twinlog.worker.metrics.meters import RecentTimes
from twinlog.worker.placement.processes import assign_connectors
from twinlog.worker.spark_flows import SparkOptions


class Log(list[StoredRecord]):
    """A topic's records; `number` is its id."""

    _numbers = count()

    def __init__(self) -> None:
        super().__init__()
        self.number = next(self._numbers)


class Topic:
    """In the place of a StateTopic; one that was deleted is not among the topics of the world."""

    def __init__(self, worker: VirtualWorker, name: str, decode: Callable[..., Any]) -> None:
        self._worker = worker
        self._name = name
        self._decode = decode
        self._read = 0
        self.ensure()
        self.topic_id: object = self._log.number

    @property
    def _log(self) -> Log:
        try:
            return self._worker.world.topics[self._name]
        except KeyError:
            raise TopicGoneError(f"cluster worker: topic {self._name} does not exist") from None

    claimed = True

    def claim_log(self) -> None: ...

    def ensure(self) -> None:
        self._worker.world.topics.setdefault(self._name, Log())

    def read(self) -> list[Any]:
        if self.topic_id != self._log.number:
            self.topic_id, self._read = self._log.number, 0
        records, self._read = self._log[self._read :], len(self._log)
        decoded = [self._decode(*record) for record in records]
        assert not any(isinstance(one, UnreadableRecord) for one in decoded)
        return [one for one in decoded if one is not None]

    def append(self, records: Any) -> None:
        worker = self._worker
        stall_s, worker.stall_s = worker.stall_s, 0.0
        fault, worker.fault = worker.fault, None
        if stall_s:
            worker.world.advance(stall_s)
        if fault == "before" or not worker.allowed() or worker.frozen or worker not in worker.world.workers:
            raise ClusterError("it was not appended")
        self._log.extend(records)
        if fault == "after":
            raise ClusterError("no answer came")

    def append_and_read(self, records: Any) -> list[Any]:
        self.append(records)
        return self.read()


def group_state(worker: VirtualWorker, group: GroupSettings, changed: Changed) -> GroupState:
    config, status, offset = (
        Topic(worker, topic.name, decode)
        for topic, decode in (
            (group.config_storage, config_records.decode),
            (group.status_storage, status_records.decode),
            (group.offset_storage, offset_records.decode),
        )
    )
    return GroupState(config, status, offset, changed)


SESSION_S = 6.0


class Coordinator:
    """The broker that knows the group's members; a rebalance ends when all of them have joined again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: dict[Member, float] = {}
        """The members in the order in which they came, and when each was heard of last; the first one leads."""
        self.generation = 0
        self.rebalances = False
        self._planned: Mapping[Any, str] = {}

    def leave(self, member: Member) -> None:
        """Also as an administrator removes it."""
        if self.seen.pop(member, None) is not None:
            self.rebalances = True

    def tick(self) -> None:
        now = self.world.clock.now
        for member in [member for member, seen in self.seen.items() if now - seen > SESSION_S]:
            self.leave(member)
        for worker in self.world.workers:
            worker.member.look()
        here = [worker for worker in self.world.workers if not worker.frozen]
        if self.rebalances and self.seen and all(member.worker in here for member in self.seen):
            self._rebalance()

    def _rebalance(self) -> None:
        self.rebalances = False
        self.generation += 1
        members = {member.worker.name: member for member in self.seen}
        leader = next(iter(members.values()))
        joined = {name: WorkerState.decode(member.join()) for name, member in members.items()}
        spread = assign_connectors(
            {name: one.owned for name, one in joined.items()}, leader.connectors(), self._planned
        )
        given, self._planned = spread.given, spread.planned
        owners = {name: joined[worker].url for worker, names in given.items() for name in names}
        for name, member in members.items():
            encoded = encode_assignment(joined[leader.worker.name], given[name], owners)
            member.take(decode_assignment(encoded, self.generation, leads=member is leader))


class Member:
    """In the place of a WorkerGroup."""

    def __init__(self, worker: VirtualWorker, connectors: Any, owned: Any, _changed: Any, _crashed: Any) -> None:
        self.worker = worker
        self.assignment: Assignment | None = None
        self.revoked: frozenset[Any] = frozenset()
        self.reason: str | None = None
        self.joined = False
        self.taken = False
        self.term = 0
        self.rebalances = 0
        self.synced_at: float | None = None
        self.rebalance_times = RecentTimes()
        self.myself = WorkerState("", "")
        self.ready: Callable[[], bool] = lambda: True
        self.connectors = connectors
        self._owned = owned
        self._group = self.worker.world.group
        self._lease = LeadershipLease()
        self._starts = self._again = False
        self._declared: frozenset[Any] = frozenset()

    def start(self) -> None:
        self._starts = self._again = True

    def rejoin(self) -> None:
        self._again = True

    def stop(self, *, leave: bool = True) -> None:
        self._group.leave(self)
        self.assignment = None

    def leads_for_s(self, term: int | None = None) -> float:
        left = self._lease.until - self.worker.world.clock.monotonic()
        return max(0.0, left) if self.assignment is not None and term in (None, self.term) else 0.0

    def confirm_membership(self, term: int) -> bool:
        return self.term == term and self in self._group.seen

    def beat(self) -> None:
        now = self.worker.world.clock.now
        if self in self._group.seen:
            self._group.seen[self] = now
            self._lease.extend_lease(now, SESSION_S, stable=True)
        elif self.assignment is not None:
            self.assignment, self._again = None, True
            self.term += 1
            self._lease.expire_lease()

    def look(self) -> None:
        """Join, or ask to join again."""
        if self._starts and self._again and not self.worker.frozen:
            self._again = False
            if self not in self._group.seen:
                if self.assignment is not None:
                    return
                self._group.seen[self] = self.worker.world.clock.now
            self._group.rebalances = True

    def join(self) -> bytes:
        self._declared = frozenset(self._owned())
        return WorkerState(self.myself.url, self.myself.worker_id, self._declared).encode()

    def take(self, assignment: Assignment) -> None:
        self._lease.extend_lease(self.worker.world.clock.now, SESSION_S, stable=True)
        self.assignment, self.joined = assignment, True
        self.revoked = self._declared - assignment.connectors


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

    def ask(self, worker: VirtualWorker, call: Callable[[Herder], Any]) -> Any:
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
        self.herder = Herder(
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
            (instances, "in_thread", in_thread),
            (connector_flows, "build_connector", build),
            (herder, "validate", lambda plugin, *_, **__: Validation(plugin, (), ())),
        ):
            patches.enter_context(mock.patch.object(module, name, stand_in))
        yield world
