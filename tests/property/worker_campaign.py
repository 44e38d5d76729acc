"""Workers that are killed, and requests that are refused, as drawn; and what was acknowledged meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from harness.virtual.workers import World
from tests.unit.config.files import worker_files
from twinlog.config.properties import parse_properties
from twinlog.config.worker import worker_of
from twinlog.connect.herder import Herder
from twinlog.connect.storage import config_records
from twinlog.connect.storage.cluster_state import ClusterState
from twinlog.connect.storage.config_records import UnreadableRecord
from twinlog.errors import RequestError
from twinlog.worker.connectors.model import (
    ConnectorName,
    ConnectorState,
    RestartRequest,
    StoredOffset,
    TargetState,
    TaskId,
)

WORKER_TEXT = worker_files.distributed()

WORKER = worker_of(parse_properties(WORKER_TEXT, "w"), "w")

NAMES = tuple(ConnectorName(f"c{number}") for number in range(5))

MOST_WORKERS = 4

SETTLED_S = 60.0
"""Longer than a session, a rebalance and the end of a connector."""

Kept = tuple[Mapping[str, str], TargetState]
"""What is known of a connector: its configuration, and what it is to be."""


def config_of(name: str, number: int) -> dict[str, str]:
    kind = "Heartbeat" if int(name[1:]) % 2 else "Checkpoint"
    return {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": f"a{name}",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": "a:9092",
        "target.cluster.bootstrap.servers": "b:9092",
        "sync.topic.acls.interval.seconds": str(number + 1),
        "name": name,
    }


def offset_of(name: ConnectorName) -> StoredOffset:
    """One that a connector could have stored."""
    partition: dict[str, object] = {"group": "g", "topic": "t", "partition": 0}
    if int(name[1:]) % 2:
        partition = {"sourceClusterAlias": f"a{name}", "targetClusterAlias": "b"}
    return StoredOffset(partition, {"offset": 0})


class Campaign:
    """One course of events, drawn from `chance`; `known` is what was acknowledged last."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.known: dict[ConnectorName, Kept] = {}
        self.asked = self.acknowledged = 0

    @property
    def stored(self) -> dict[ConnectorName, Kept]:
        """What is in the config topic."""
        state = ClusterState()
        for record in self.world.topics.get("configs", ()):
            decoded = config_records.decode(*record)
            if decoded is not None and not isinstance(decoded, UnreadableRecord):
                state.apply_records([decoded])
        return {name: (one.config, state.target_state(name)) for name, one in state.connectors.items()}

    def change(self, name: ConnectorName, wanted: Kept | None, call: Callable[[Herder], object]) -> None:
        """Ask somebody for a change; one that nobody acknowledged may have come about."""
        before = self.known.get(name)
        self.asked += 1
        allowed = [before]
        try:
            self.world.ask(self.chance.choice(self.world.workers), call)
        except RequestError as error:
            if error.status == 500:
                allowed.append(wanted)
        else:
            self.acknowledged += 1
            allowed = [wanted]
        stored = self.stored
        assert stored.get(name) in allowed
        self.known = {**self.known}
        self.known.pop(name, None)
        if name in stored:
            self.known[name] = stored[name]
        assert stored == self.known

    def request(self) -> None:
        name = self.chance.choice(NAMES)
        config, target = self.known.get(name, (None, TargetState.STARTED))
        number = self.chance.randrange(100)
        kind = self.chance.choice(("put", "put", "create", "patch", "delete", "target", "target", "restart", "offsets"))
        if kind == "put":
            wanted = config_of(name, number)
            self.change(name, (wanted, target), lambda herder: herder.put(name, wanted))
        elif kind == "create" and config is None:
            wanted, state = config_of(name, number), self.chance.choice(list(TargetState))
            self.change(name, (wanted, state), lambda herder: herder.put(name, wanted, initial=state, replace=False))
        elif kind == "patch" and config is not None:
            more = {"sync.topic.acls.interval.seconds": str(number + 1)}
            self.change(name, ({**config, **more}, target), lambda herder: herder.patch(name, more))
        elif kind == "delete":
            self.change(name, None, lambda herder: herder.delete(name))
        elif kind == "target" and config is not None:
            state = self.chance.choice(list(TargetState))
            self.change(name, (config, state), lambda herder: herder.set_target_state(name, state))
        elif kind == "restart" and config is not None:
            restart = RestartRequest(name, self.chance.random() < 0.5, self.chance.random() < 0.5)
            one = self.chance.random() < 0.5
            self.change(
                name,
                (config, target),
                lambda herder: herder.restart_task(TaskId(name, 0)) if one else herder.restart(restart),
            )
        elif kind == "offsets" and config is not None:
            self.change(name, (config, target), lambda herder: self._write_offsets(name, herder))

    def _write_offsets(self, name: ConnectorName, herder: Herder) -> None:
        """Offsets are written only while nothing of the connector runs."""
        before = len(self.world.topics["positions"])
        herder.alter_offsets(name, [offset_of(name)])
        assert len(self.world.topics["positions"]) == before + 1

    def happen(self) -> None:
        """Something becomes of a worker, or time passes."""
        workers = self.world.workers
        worker = self.chance.choice(workers)
        others = [one for one in workers if one is not worker and not one.frozen]
        kind = self.chance.choice(
            ("time", "time", "start", "kill", "stop", "freeze", "thaw", "stall", "fault", "remove leader")
        )
        if kind == "time":
            self.world.advance(self.chance.choice((0.2, 1.0, 3.0, 10.0)))
        elif kind == "start" and len(workers) < MOST_WORKERS:
            self.world.start_worker()
        elif kind == "kill" and others:
            worker.kill()
        elif kind == "stop" and others:
            worker.stop()
        elif kind == "freeze" and others:
            worker.frozen = True
        elif kind == "thaw":
            for one in workers:
                one.frozen = False
        elif kind == "stall":
            worker.stall_s = self.chance.choice((0.4, 2.0, 8.0))
        elif kind == "fault":
            worker.fault = self.chance.choice(("before", "after"))
        elif kind == "remove leader" and self.world.group.seen:
            self.world.group.leave(next(iter(self.world.group.seen)))

    def settle(self) -> None:
        for worker in self.world.workers:
            worker.frozen, worker.stall_s, worker.fault = False, 0.0, None
        self.world.advance(SETTLED_S)

    def verify(self) -> None:
        """Everything is as it was acknowledged, on every worker."""
        assert self.stored == self.known
        started = sorted(name for name, (_, target) in self.known.items() if target is TargetState.STARTED)
        assert sorted(one.name for one in self.world.running) == started
        wanted = {TargetState.STARTED: ConnectorState.RUNNING, TargetState.PAUSED: ConnectorState.PAUSED}
        for worker in self.world.workers:
            assert sorted(worker.herder.connectors()) == sorted(self.known)
            for name, (config, target) in self.known.items():
                status = worker.herder.status(name)
                assert worker.herder.info(name).config == config
                assert status.connector.state is wanted.get(target, ConnectorState.STOPPED), name
                here = {one.thread.worker_id for one in self.world.workers}
                assert status.connector.worker_id in here
                if target is TargetState.STARTED:
                    assert worker.herder.active_topics(name) == [f"topic-of-{name}"]
                if target is TargetState.STARTED:
                    assert [task.state for task in status.tasks.values()] == [ConnectorState.RUNNING]
            for name in set(NAMES) - self.known.keys():
                assert worker.herder.active_topics(name) == []
            assert worker.thread.failure is None
