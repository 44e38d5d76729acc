"""Workers of one Connect group are killed while somebody changes their connectors: `make connect-faults`.

Three workers and two clusters of one broker each. In each round connectors are created, changed, paused, stopped,
restarted and removed, and meanwhile workers are killed and started again. Afterwards every worker answers what was
acknowledged last, and that is what runs: a heartbeat connector that is to run beats once a second, and no other one.

After the rounds a worker is killed now and then while nothing changes, and the time is taken until its connectors run
elsewhere.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.errors import HarnessError
from harness.produce import numbered, produce
from harness.started import Started
from harness.topics import create_topic, topics
from harness.wait import slowness, wait_for
from tests.integration.connect_worker import ConnectWorker, connector, path_of

WORKERS = 3
SETTLED_S = 120.0
BEATS_S = 6.0
"""For how long beats are counted once everything has settled."""
MOST_BEATS = 1.6
"""A second: two copies of a connector beat twice."""
HEARTBEATS = "heartbeats"
STATES = {"pause": "PAUSED", "stop": "STOPPED", "resume": "RUNNING"}

Kept = tuple[Mapping[str, str], str]
"""A configuration, and the state that the connector is to be in."""


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


@dataclass(frozen=True, slots=True)
class TakeOver:
    """What a killed worker ran, and after how many seconds others had been given it, all of it was shown as running,
    and the first record copied by it was on the target."""

    moved: int
    given_s: float
    running_s: float
    copied_s: float

    def __str__(self) -> str:
        return (
            f"{self.moved} connectors of a killed worker: given to others after {self.given_s:.1f} s, running after "
            f"{self.running_s:.1f} s, first record after {self.copied_s:.1f} s"
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
        self._names = [f"{name}/c{number}" for number in range(8)]
        self._sources = [f"{name}-s{number}" for number in range(sources)]
        self._produced: Counter[str] = Counter()

    def start(self) -> None:
        for worker in self.workers:
            worker.process.start()
        wait_for(lambda: all(map(_healthy, self.workers)), SETTLED_S, "every worker is healthy", every_s=0.2)
        for name in self._sources:
            create_topic(self.source, name, 2)
            self.ask(Round(0), name, self._source(name))

    def close(self) -> None:
        """Kill what still runs."""
        for worker in self.workers:
            worker.close()

    # What is asked.

    def alias(self, name: str) -> str:
        return name.replace("/", ".")

    def ask(self, one: Round, name: str, config: Mapping[str, str] | None = None) -> None:
        """One change of a connector at one of the workers, whichever that is."""
        allowed = self.allowed.get(name, [None])
        there = [kept for kept in allowed if kept is not None]
        action = "put" if config is not None or not there else self._chance.choice(("put", "delete", *STATES, "re"))
        worker = self._chance.choice(self.workers)
        path = path_of(name)
        if action == "put":
            settings = config or self._any(name)
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

    def _any(self, name: str) -> dict[str, str]:
        if name in self._sources:
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
        for name in self._sources:
            self._produce(name, 20)
        ends = time.monotonic() + self._chance.uniform(3.0, 8.0) * min(3.0, slowness())
        killer = threading.Thread(target=self._kill, args=(one, random.Random(self._chance.random()), ends))
        killer.start()
        while time.monotonic() < ends:
            names = [*self._names, *self._sources]
            self.ask(one, self._chance.choice(names))
            time.sleep(self._chance.uniform(0.0, 0.3))
        killer.join()
        began = time.monotonic()
        try:
            wait_for(self._settled, SETTLED_S, "every worker answers what was acknowledged", every_s=0.5)
        except TimeoutError:
            one.remarks += self._wrong()
        one.settled_s = time.monotonic() - began
        if one.fine:
            there = self._learn()
            one.remarks += self._beats(there) + self._copied(there)
        return one

    def _kill(self, one: Round, chance: random.Random, ends: float) -> None:
        for worker in chance.sample(self.workers, chance.choice((1, 1, 2))):
            time.sleep(max(0.0, chance.uniform(0.0, ends - time.monotonic())))
            worker.process.kill()
            one.killed += 1
            time.sleep(chance.uniform(0.0, 2.0))
            worker.process.start()

    # How long others take.

    def take_over(self) -> TakeOver:
        """Kill the worker that has the first source connector once all is settled, and start it again afterwards."""
        calm = Round(0)
        for name in self._names[:4]:
            self.ask(calm, name, self._any(name))
        wait_for(self._settled, SETTLED_S, "every worker answers what was acknowledged", every_s=0.5)
        name = self._sources[0]
        remote = f"{self.alias(name)}.{name}"
        self._produce(name, 1)
        wait_for(lambda: self._has(remote, self._last(name)), SETTLED_S, "all is copied", every_s=0.5)
        killed = next(one for one in self.workers if one.url.endswith(self._owners()[name][0]))
        other = next(one for one in self.workers if one is not killed)
        lost = {one for one, (worker, _) in self._owners().items() if killed.url.endswith(worker)}
        killed.process.kill()
        began = time.monotonic()
        took: dict[str, float] = {}
        self._produce(name, 1)

        def look(step: str, true: bool) -> None:
            if true:
                took.setdefault(step, time.monotonic() - began)

        def over() -> bool:
            found = self._owners(other)
            look("given", all(not killed.url.endswith(found[one][0]) for one in lost))
            look("running", "given" in took and all(found[one][1] for one in lost))
            if "copied" not in took:
                look("copied", self._has(remote, self._last(name)))
            return len(took) == 3

        try:
            wait_for(over, SETTLED_S, "others run what a killed worker ran", every_s=0.05)
        finally:
            killed.process.start()
        return TakeOver(len(lost), took["given"], took["running"], took["copied"])

    def _owners(self, asked: ConnectWorker | None = None) -> dict[str, tuple[str, bool]]:
        """Which worker each connector is on, and whether it runs there with its tasks."""
        _, found = (asked or self.workers[0]).ask("GET", "/connectors?expand=status")
        return {
            name: (
                one["status"]["connector"]["worker_id"],
                {part["state"] for part in (one["status"]["connector"], *one["status"]["tasks"])} == {"RUNNING"},
            )
            for name, one in found.items()
        }

    def _produce(self, name: str, count: int) -> None:
        produce(self.source, name, numbered(count, start=self._produced[name]), partition=0)
        self._produced[name] += count

    def _last(self, name: str) -> bytes:
        return b"%d" % (self._produced[name] - 1)

    def _has(self, topic: str, value: bytes) -> bool:
        return topic in topics(self.target) and any(one.value == value for one in consume(self.target, topic))

    # The judgement.

    def _settled(self) -> bool:
        return not self._wrong()

    def _wrong(self) -> list[str]:
        """What is not as it should be; what nobody acknowledged is settled by what is there."""
        wrong: list[str] = []
        for worker in self.workers:
            if not worker.process.alive:
                return [f"a worker ended by itself: {worker.process.log_tail(1)}"]
            try:
                status, found = worker.ask("GET", "/connectors?expand=info&expand=status")
            except OSError as error:
                return [f"a worker does not answer: {error}"]
            if status != 200:
                return [f"a worker answers {status}: {found}"]
            wrong += self._wrong_at(worker, found)
        return wrong

    def _wrong_at(self, worker: ConnectWorker, found: Mapping[str, Any]) -> list[str]:
        wrong = []
        ids = {one.url.removeprefix("http://") for one in self.workers}
        for name in self.allowed.keys() | found.keys():
            there = found.get(name)
            allowed = self.allowed.get(name, [None])
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

    def _learn(self) -> dict[str, Kept]:
        """What nobody acknowledged is settled by what is there."""
        _, found = self.workers[0].ask("GET", "/connectors?expand=info&expand=status")
        there = {name: (one["info"]["config"], str(one["status"]["connector"]["state"])) for name, one in found.items()}
        self.allowed = {name: [there.get(name)] for name in self.allowed}
        return there

    def _beats(self, there: Mapping[str, Kept]) -> list[str]:
        """Whoever is to beat does so once a second, and nobody else does."""
        beating = {
            self.alias(name)
            for name, kept in there.items()
            if kept[1] == "RUNNING" and kept[0]["connector.class"].endswith("HeartbeatConnector")
        }
        if HEARTBEATS not in topics(self.target):
            return [f"{HEARTBEATS} is missing"] if beating else []
        begin = len(consume(self.target, HEARTBEATS, partitions=[0]))
        began = time.monotonic()
        found: Counter[str] = Counter()

        def all_beat() -> bool:
            found.clear()
            for record in consume(self.target, HEARTBEATS, partitions=[0])[begin:]:
                for alias in {self.alias(name) for name in self._names}:
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

    def _copied(self, there: Mapping[str, Kept]) -> list[str]:
        """Nothing that a source connector was to copy is missing."""
        wrong = []
        for name in self._sources:
            kept = there.get(name)
            remote = f"{self.alias(name)}.{name}"
            if kept is None or kept[1] != "RUNNING":
                continue
            wanted = {value for (value,) in ((record.value,) for record in consume(self.source, name))}

            def whole(remote: str = remote, wanted: set[bytes | None] = wanted) -> bool:
                return remote in topics(self.target) and wanted <= {one.value for one in consume(self.target, remote)}

            try:
                wait_for(whole, SETTLED_S, f"{remote} has every record", every_s=0.5)
            except TimeoutError as error:
                wrong.append(str(error).partition("; last seen")[0])
        return wrong


def _may_have_none(connector: Mapping[str, Any]) -> bool:
    """A checkpoint connector has no task while its source has no group."""
    return str(connector["info"]["config"]["connector.class"]).endswith("CheckpointConnector")


def _healthy(worker: ConnectWorker) -> bool:
    worker.process.require_alive()
    try:
        return worker.ask("GET", "/health")[0] == 200
    except OSError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults.connect", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=int, help="repeat the choices of an earlier run (default: a new one)")
    parser.add_argument("--take-overs", type=int, default=3, metavar="N", help="timed (default: %(default)s)")
    parser.add_argument("--sources", type=int, default=1, metavar="N", help="source connectors (default: %(default)s)")
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(100_000) if asked.seed is None else asked.seed
    work = Path(tempfile.mkdtemp(prefix="twinlog-connect-faults-"))
    print(f"seed {seed}: {asked.rounds} rounds; logs and data in {work}", flush=True)
    done: list[Round] = []
    began = time.monotonic()
    try:
        with (
            KafkaCluster("source", work_dir=work / "source") as source,
            KafkaCluster("target", work_dir=work / "target") as target,
            Group(work, source, target, "workers", random.Random(seed), asked.sources) as group,
        ):
            for number in range(1, asked.rounds + 1):
                done.append(group.play(number))
                print(done[-1], flush=True)
                if not done[-1].fine:
                    break
            if asked.sources and len(done) == asked.rounds:
                for _ in range(asked.take_overs):
                    print(f"      {group.take_over()} (load {os.getloadavg()[0]:.1f})", flush=True)
    except (HarnessError, TimeoutError) as error:
        print(f"faults: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    fine = len(done) == asked.rounds and all(one.fine for one in done)
    print(f"seed {seed}, {(time.monotonic() - began) / 60:.1f} min: {'all fine' if fine else 'WRONG'}")
    if fine:
        shutil.rmtree(work, ignore_errors=True)
    else:
        print(f"logs and data are in {work}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
