"""A Connect group whose connectors are changed while its workers are killed."""

from __future__ import annotations

import contextlib
import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.child import Started
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered
from harness.produce import produce as produce_records
from harness.topics import create_topic, topics
from harness.wait import slowness, wait_for
from tests.integration.connect_worker import ConnectWorker, connector, path_of

SETTLED_S = 120.0
BEATS_S = 6.0
"""For how long beats are counted once everything has settled."""
MOST_BEATS = 1.6
"""A second: two copies of a connector beat twice."""
HEARTBEATS = "heartbeats"

Kept = tuple[Mapping[str, str], str]
"""A configuration, and the state that the connector is to be in."""


def unsettled(group: Group) -> list[str]:
    """What is not as it should be; what nobody acknowledged is settled by what is there."""
    wrong: list[str] = []
    for worker in group.workers:
        if not worker.process.alive:
            return [f"a worker ended by itself: {worker.process.log_tail(1)}"]
        try:
            status, found = worker.ask("GET", "/connectors?expand=info&expand=status")
        except OSError as error:
            return [f"a worker does not answer: {error}"]
        if status != 200:
            return [f"a worker answers {status}: {found}"]
        wrong += _wrong_at(group, worker, found)
    return wrong


def _wrong_at(group: Group, worker: ConnectWorker, found: Mapping[str, Any]) -> list[str]:
    wrong = []
    ids = {one.url.removeprefix("http://") for one in group.workers}
    for name in group.allowed.keys() | found.keys():
        there = found.get(name)
        allowed = group.allowed.get(name, [None])
        if there is None:
            if None not in allowed:
                wrong.append(f"{name} is lost at {worker.url}")
            continue
        state = there["status"]["connector"]["state"]
        tasks = [task["state"] for task in there["status"]["tasks"]]
        if (there["info"]["config"], state) not in allowed:
            wrong.append(f"{name} is {state} at {worker.url}, or has not the configuration that was acknowledged")
        elif state == "RUNNING" and set(tasks) != {"RUNNING"} and (tasks or not _may_have_none(there)):
            wrong.append(f"{name} has tasks {tasks} at {worker.url}")
        elif there["status"]["connector"]["worker_id"] not in ids:
            wrong.append(f"{name} is on nobody's worker at {worker.url}")
    return wrong


def learn(group: Group) -> dict[str, Kept]:
    """What nobody acknowledged is settled by what is there."""
    _, found = group.workers[0].ask("GET", "/connectors?expand=info&expand=status")
    there = {name: (one["info"]["config"], str(one["status"]["connector"]["state"])) for name, one in found.items()}
    group.allowed = {name: [there.get(name)] for name in group.allowed}
    return there


def beats(group: Group, there: Mapping[str, Kept]) -> list[str]:
    """Whoever is to beat does so once a second, and nobody else does."""
    beating = {
        group.alias(name)
        for name, kept in there.items()
        if kept[1] == "RUNNING" and kept[0]["connector.class"].endswith("HeartbeatConnector")
    }
    if HEARTBEATS not in topics(group.target):
        return [f"{HEARTBEATS} is missing"] if beating else []
    begin = len(consume(group.target, HEARTBEATS, partitions=[0]))
    began = time.monotonic()
    found: Counter[str] = Counter()

    def all_beat() -> bool:
        found.clear()
        for record in consume(group.target, HEARTBEATS, partitions=[0])[begin:]:
            for alias in {group.alias(name) for name in group.names}:
                if alias.encode() in (record.key or b""):
                    found[alias] += 1
        return time.monotonic() - began >= BEATS_S and all(found[alias] for alias in beating)

    with contextlib.suppress(TimeoutError):
        wait_for(all_beat, BEATS_S + 30.0, "every heartbeat connector beats", every_s=0.5)
    lasted_s = time.monotonic() - began
    wrong = [f"{alias} does not beat" for alias in beating if not found[alias]]
    wrong += [f"{alias} beats, and is not to run" for alias in found if alias not in beating]
    wrong += [
        f"{alias} beat {count} times in {lasted_s:.1f} s"
        for alias, count in found.items()
        if count > 2 + MOST_BEATS * lasted_s
    ]
    return wrong


def copied(group: Group, there: Mapping[str, Kept]) -> list[str]:
    """Nothing that a source connector was to copy is missing."""
    wrong = []
    for name in group.sources:
        kept = there.get(name)
        remote = f"{group.alias(name)}.{name}"
        if kept is None or kept[1] != "RUNNING":
            continue
        wanted = {value for (value,) in ((record.value,) for record in consume(group.source, name))}

        def whole(remote: str = remote, wanted: set[bytes | None] = wanted) -> bool:
            return remote in topics(group.target) and wanted <= {one.value for one in consume(group.target, remote)}

        try:
            wait_for(whole, SETTLED_S, f"{remote} has every record", every_s=0.5)
        except TimeoutError as error:
            wrong.append(str(error).partition("; last seen")[0])
    return wrong


def _may_have_none(connector: Mapping[str, Any]) -> bool:
    """A checkpoint connector has no task while its source has no group."""
    return str(connector["info"]["config"]["connector.class"]).endswith("CheckpointConnector")


WORKERS = 3
STATES = {"pause": "PAUSED", "stop": "STOPPED", "resume": "RUNNING"}


@dataclass
class Round:
    """One round: what was asked for, who was killed, and what is wrong afterwards."""

    number: int
    asked: int = 0
    acknowledged: int = 0
    unclear: int = 0
    killed: int = 0
    settled_s: float = 0.0
    remarks: list[str] = field(default_factory=list)

    @property
    def fine(self) -> bool:
        return not self.remarks

    def __str__(self) -> str:
        result = "fine" if self.fine else "WRONG: " + "; ".join(self.remarks)
        return (
            f"{self.number:4d}  {self.killed} killed, {self.acknowledged} of {self.asked} changes acknowledged, "
            f"{self.unclear} unclear, settled after {self.settled_s:5.1f} s: {result}"
        )


class Group(Started):
    """Three workers on the target, and what they acknowledged; use as a context manager."""

    def __init__(
        self, home: Path, source: KafkaCluster, target: KafkaCluster, name: str, chance: random.Random, sources: int
    ) -> None:
        self.source, self.target = source, target
        self.workers = [ConnectWorker(home / f"worker-{number}", target, name) for number in range(WORKERS)]
        self.allowed: dict[str, list[Kept | None]] = {}
        """What a connector may be, None for one that is not there: one thing, unless an answer did not come."""
        self._prefix = name
        self._chance = chance
        self.names = [f"{name}/c{number}" for number in range(8)]
        self.sources = [f"{name}-s{number}" for number in range(sources)]
        self._produced: Counter[str] = Counter()

    def start(self) -> None:
        for worker in self.workers:
            worker.process.start()
        wait_for(lambda: all(map(_healthy, self.workers)), SETTLED_S, "every worker is healthy", every_s=0.2)
        for name in self.sources:
            create_topic(self.source, name, 2)
            self.ask(Round(0), name, self._source(name))

    def close(self) -> None:
        """Kill what still runs."""
        for worker in self.workers:
            worker.close()

    # What is asked.

    def alias(self, name: str) -> str:
        return name.replace("/", ".")

    def ask(self, one: Round, name: str, config: Mapping[str, str] | None = None, *, state: str | None = None) -> None:
        """One change of a connector at any worker: to `config`, to a state of `STATES`, or by chance."""
        allowed = self.allowed.get(name, [None])
        there = [kept for kept in allowed if kept is not None]
        action = state or "put"
        if config is None and there and state is None:
            action = self._chance.choice(("put", "delete", *STATES, "re"))
        worker = self._chance.choice(self.workers)
        path = path_of(name)
        if action == "put":
            settings = config or self.any_config(name)
            kept = {**settings, "name": name}
            after: list[Kept | None] = [(kept, "RUNNING" if before is None else before[1]) for before in allowed]
            request: tuple[str, str, Any] = ("PUT", f"{path}/config", dict(settings))
        elif action == "delete":
            after, request = [None], ("DELETE", path, None)
        elif action == "re":
            after, request = [*there], ("POST", f"{path}/restart?includeTasks=true", None)
        else:
            after, request = [(before[0], STATES[action]) for before in there], ("PUT", f"{path}/{action}", None)
        one.asked += 1
        try:
            status, _ = worker.ask(*request)
        except (OSError, http.client.HTTPException, ValueError):
            status = 0
        if 200 <= status < 300:
            one.acknowledged += 1
            self.allowed[name] = after
        elif status == 0 or status >= 500:
            one.unclear += 1
            self.allowed[name] = [*allowed, *after]
            # What a killed worker passed on comes about within a moment.
            time.sleep(1.0)

    def any_config(self, name: str) -> dict[str, str]:
        """A configuration that this connector may be given."""
        if name in self.sources:
            return self._source(name)
        kind = "Checkpoint" if name.endswith(("3", "7")) else "Heartbeat"
        interval = {"emit_heartbeats_interval_seconds": "1"} if kind == "Heartbeat" else {"groups": self.alias(name)}
        return connector(
            kind,
            self.source,
            self.target,
            f"{self.alias(name)}->t",
            sync_topic_acls_interval_seconds=str(self._chance.randrange(600, 700)),
            **interval,
        )

    def _source(self, name: str) -> dict[str, str]:
        acls = str(self._chance.randrange(600, 700))
        return connector(
            "Source",
            self.source,
            self.target,
            f"{self.alias(name)}->t",
            topics=name,
            sync_topic_acls_interval_seconds=acls,
        )

    # A round.

    def play(self, number: int) -> Round:
        """Change connectors and kill workers at the same time, then judge."""
        one = Round(number)
        for name in self.sources:
            self.produce(name, 20)
        ends = time.monotonic() + self._chance.uniform(3.0, 8.0) * min(3.0, slowness())
        killer = threading.Thread(target=self._kill, args=(one, random.Random(self._chance.random()), ends))
        killer.start()
        while time.monotonic() < ends:
            names = [*self.names, *self.sources]
            self.ask(one, self._chance.choice(names))
            time.sleep(self._chance.uniform(0.0, 0.3))
        killer.join()
        began = time.monotonic()
        try:
            wait_for(lambda: not unsettled(self), SETTLED_S, "every worker answers what was acknowledged", every_s=0.5)
        except TimeoutError:
            one.remarks += unsettled(self)
        one.settled_s = time.monotonic() - began
        if one.fine:
            there = learn(self)
            one.remarks += beats(self, there) + copied(self, there)
        return one

    def _kill(self, one: Round, chance: random.Random, ends: float) -> None:
        for worker in chance.sample(self.workers, chance.choice((1, 1, 2))):
            time.sleep(max(0.0, chance.uniform(0.0, ends - time.monotonic())))
            worker.process.kill()
            one.killed += 1
            time.sleep(chance.uniform(0.0, 2.0))
            worker.process.start()

    def produce(self, name: str, count: int) -> None:
        """Records with the next numbers, in the first partition."""
        produce_records(self.source, name, numbered(count, start=self._produced[name]), partition=0)
        self._produced[name] += count

    def last(self, name: str) -> bytes:
        """The record that was produced last."""
        return b"%d" % (self._produced[name] - 1)


def _healthy(worker: ConnectWorker) -> bool:
    worker.process.require_alive()
    try:
        return worker.ask("GET", "/health")[0] == 200
    except OSError:
        return False
