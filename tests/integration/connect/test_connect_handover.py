"""Kafka's own worker runs MirrorMaker 2's connectors, twinlog goes on in its place, and hands them back.

Both use one group and the same topics. Each of them is stopped once in order and once with SIGKILL; in `make test` ours
is in order and theirs with SIGKILL, the others are in `make parity`. They copy in transactions, and nothing may come
twice; `make parity` also has TWINLOG_EXACTLY_ONCE=disabled.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.checks.internal_records import decode_heartbeat
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.groups import commit_offsets, group_offsets
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, offsets
from harness.wait import wait_for
from tests.connected_admins import connected_admin
from tests.integration.connect_worker import ConnectWorker, connector, path_of
from tests.integration.copying import TARGET, flow_settings
from tests.integration.parity import MM2_VERSION
from twinlog.cli.main import app
from twinlog.kafka.coordinator.membership import Membership

DEADLINE_S = 180.0
EXACTLY_ONCE = os.environ.get("TWINLOG_EXACTLY_ONCE", "enabled")
SETTINGS = {
    "offset.flush.interval.ms": "1000",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1500",
    "exactly.once.source.support": EXACTLY_ONCE,
}
RUNNING, PAUSED, STOPPED, FAILED = "RUNNING", "PAUSED", "STOPPED", "FAILED"


@dataclass
class Stage:
    """The clusters, one group of workers, and what its connectors are."""

    source: KafkaCluster
    target: KafkaCluster
    home: Path
    workers: str
    topic: str
    alias: str
    reader: str
    started: list[ConnectWorker] = field(default_factory=list)
    produced: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        flow = f"{self.alias}->t"
        self.names = {kind: f"{flow}.{kind}" for kind in ("Source", "Checkpoint", "Heartbeat")}
        self.remote = f"{self.alias}.{self.topic}"
        common = {"emit_heartbeats_interval_seconds": "1", "consumer_poll_timeout_ms": "200"}
        every = {
            kind: connector(kind, self.source, self.target, flow, topics=self.topic, groups=self.reader, **common)
            for kind in self.names
        }
        every["Source"]["tasks.max"] = "2"
        if EXACTLY_ONCE == "enabled":
            every["Source"] |= {"exactly.once.support": "required", "source.consumer.isolation.level": "read_committed"}
        every["Checkpoint"] |= {
            "emit.checkpoints.interval.seconds": "1",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
        }
        self.configs = {self.names[kind]: config for kind, config in every.items()}
        for state in (PAUSED, STOPPED):
            self.configs[state] = {**every["Source"], "topics": f"{self.topic}-{state}", "tasks.max": "1"}
        self.configs[FAILED] = {"connector.class": "org.example.JdbcSource", "tasks.max": "1"}
        self.states = {**dict.fromkeys(self.names.values(), RUNNING), PAUSED: PAUSED, STOPPED: STOPPED, FAILED: FAILED}

    def worker(self, kafka: str | None = None) -> ConnectWorker:
        home = self.home / f"worker-{len(self.started)}"
        self.started.append(ConnectWorker(home, self.target, self.workers, SETTINGS, kafka=kafka))
        return self.started[-1]

    def produce(self, partition: int, count: int) -> None:
        produce(self.source, self.topic, numbered(count, start=self.produced[partition]), partition=partition)
        self.produced[partition] += count

    def copies(self, partition: int) -> list[int]:
        """What the remote partition holds."""
        records = consume(self.target, self.remote, partitions=[partition])
        return [int(record.value or b"") for record in records]

    def stored(self) -> dict[tuple[str, str, int], int]:
        """The next offset of each place by the offset topic: connector, topic and partition."""
        found = {}
        spellings = set()
        for record in consume(self.target, f"{self.workers}-offsets"):
            assert record.key is not None
            spellings.add(record.key)
            name, where = json.loads(record.key)
            if "cluster" in where and record.value is not None:
                found[name, where["topic"], where["partition"]] = json.loads(record.value)["offset"] + 1
        # Another spelling of a key would be another position.
        places = {(name, tuple(sorted(where.items()))) for name, where in map(json.loads, spellings)}
        assert len(places) == len(spellings), spellings
        return found

    def is_stored(self) -> bool:
        stored = self.stored()
        name = self.names["Source"]
        return all(stored.get((name, self.topic, part)) == count for part, count in self.produced.items())

    def is_empty(self) -> bool:
        """Whether the group of workers has no members; their own worker would not wait for that."""
        with connected_admin(TARGET, flow_settings(self.target, self.target).target_admin.client) as admin:
            return not admin.call(Membership(admin.client, self.workers, "").describe).members

    def last_heartbeat(self) -> int:
        found = map(decode_heartbeat, consume(self.target, "heartbeats"))
        return max((one.timestamp_ms for one in found if one.source == self.alias), default=0)

    def goes_on(self, worker: ConnectWorker) -> None:
        """The connectors are what they were, and do what they did."""
        assert sorted(wait_for(lambda: worker.ask("GET", "/connectors")[1], DEADLINE_S, "listed")) == sorted(
            self.configs
        )
        beat = self.last_heartbeat()
        for partition in (0, 1):
            self.produce(partition, 10)
        for name, config in self.configs.items():
            assert worker.ask("GET", f"{path_of(name)}/config") == (200, {**config, "name": name})
            worker.wait_until_it_has(name)
            worker.wait_for_state(name, self.states[name])
        tasks = {"Source": 2, "Checkpoint": 1, "Heartbeat": 1}
        for kind, count in tasks.items():
            worker.wait_for_state(self.names[kind], RUNNING, count)
        worker.wait_for_state(PAUSED, PAUSED, 1)
        assert worker.wait_for_state(STOPPED, STOPPED)["tasks"] == []
        # What is not to run does not.
        for state in (PAUSED, STOPPED):
            assert self.stored().get((state, f"{self.topic}-{state}", 0)) == (10 if state == PAUSED else None)
        wait_for(self.is_stored, DEADLINE_S, "everything is copied, and its positions are stored")
        # After the last record is the marker of its transaction.
        end = offsets(self.target, self.remote, 1)[1] - (EXACTLY_ONCE == "enabled")
        commit_offsets(self.source, {self.reader: {(self.topic, 1): self.produced[1]}})

        def translated() -> bool:
            found = group_offsets(self.target, [self.reader]).get(self.reader, {})
            return (self.remote, 1) in found and found[self.remote, 1].offset == end

        wait_for(translated, DEADLINE_S, f"the group goes on at {end}", every_s=0.5)
        wait_for(lambda: self.last_heartbeat() > beat, DEADLINE_S, "heartbeats go on")

    def states_from_outside(self) -> dict[str, tuple[str, str]]:
        """What `twinlog status` says of connectors, by their name: condition and state."""
        worker = self.started[0].file
        files = [self.home / f"{number}.json" for number in range(len(self.configs))]
        for file, (name, config) in zip(files, self.configs.items(), strict=True):
            file.write_text(json.dumps({"name": name, "config": config}))
        shown = [str(file) for file, name in zip(files, self.configs, strict=True) if name != FAILED]
        result = CliRunner().invoke(app, ["status", str(worker), *shown, "--json"])
        flows = json.loads(result.stdout)["flows"]
        return {flow["flow"]: (flow["condition"], flow["state"]) for flow in flows}

    def is_seen_from_outside(self, state: str) -> None:
        """Others see each connector as it is; those that run are in `state`."""
        wanted = {self.names[kind]: ("running", state) for kind in ("Source", "Checkpoint")}
        wanted |= {self.names["Heartbeat"]: ("running", "alive")}
        wanted |= {PAUSED: ("not yet", "paused"), STOPPED: ("down", "stopped")}
        wait_for(lambda: self.states_from_outside() == wanted, DEADLINE_S, f"status shows {wanted}", every_s=1)

    def assert_copied(self, again: int = 0) -> None:
        """Everything is there once; of partition 0 this many records at most are there again."""
        assert self.copies(1) == list(range(self.produced[1]))
        copies = Counter(self.copies(0))
        assert sorted(copies) == list(range(self.produced[0]))
        assert copies.total() - len(copies) <= again

    def kill_while_it_copies(self, worker: ConnectWorker) -> int:
        """SIGKILL with positions that are not stored perhaps; returns how many records may come again."""
        self.produce(0, 50)
        wait_for(lambda: self.produced[0] - 1 in self.copies(0), DEADLINE_S, "the last one is copied")
        worker.process.kill()
        return 0 if EXACTLY_ONCE == "enabled" else self.produced[0] - self.stored()[self.names["Source"], self.topic, 0]


@pytest.fixture
def stage(
    clusters: tuple[KafkaCluster, KafkaCluster], topic_name: str, new_name: Callable[[str], str], tmp_path: Path
) -> Iterator[Stage]:
    made = Stage(*clusters, tmp_path, new_name("workers"), topic_name, new_name("s"), new_name("reader"))
    for topic, partitions in ((made.topic, 2), *((f"{made.topic}-{state}", 1) for state in (PAUSED, STOPPED))):
        create_topic(made.source, topic, partitions)
    # Without a group to follow a checkpoint connector has no task.
    commit_offsets(made.source, {made.reader: {(made.topic, 1): 0}})
    yield made
    for worker in made.started:
        worker.close()


def set_up(stage: Stage, worker: ConnectWorker) -> None:
    """Have all connectors in their states, and one that was there."""
    produce(stage.source, f"{stage.topic}-{PAUSED}", numbered(10))
    for name, config in stage.configs.items():
        if name == FAILED:
            # A worker that knew such connectors has written it.
            value = json.dumps({"properties": {**config, "name": name}}).encode()
            produce(stage.target, f"{stage.workers}-configs", [NewRecord(value, f"connector-{name}".encode())])
            continue
        initial = {"initial_state": STOPPED} if name == STOPPED else {}
        status, answer = worker.ask("POST", "/connectors", {"name": name, "config": config, **initial})
        assert status == 201, answer
    worker.put("gone", stage.configs[stage.names["Heartbeat"]])
    # Kafka's worker fails a task whose connector goes while it begins.
    worker.wait_for_state("gone", RUNNING, tasks=1)
    assert worker.ask("DELETE", "/connectors/gone")[0] == 204
    paused = PAUSED, f"{stage.topic}-{PAUSED}", 0
    wait_for(lambda: stage.stored().get(paused) == 10, DEADLINE_S, "what will be paused has copied")
    assert worker.ask("PUT", f"/connectors/{PAUSED}/pause")[0] == 202
    worker.wait_for_state(PAUSED, PAUSED, 1)
    produce(stage.source, f"{stage.topic}-{PAUSED}", numbered(5))
    produce(stage.source, f"{stage.topic}-{STOPPED}", numbered(5))


def tasks_of(worker: ConnectWorker, name: str) -> list[dict[str, Any]]:
    status, answer = worker.ask("GET", f"{path_of(name)}/tasks")
    assert status == 200
    return [task["config"] for task in answer]


@pytest.mark.parity
def test_twinlog_goes_on_where_kafkas_worker_was_and_back(stage: Stage) -> None:
    theirs = stage.worker(MM2_VERSION).start()
    set_up(stage, theirs)
    stage.goes_on(theirs)
    stage.assert_copied()
    stage.is_seen_from_outside("run by others")

    # Of another kind, it waits until their group is empty, says so, and needs nobody then.
    ours = stage.worker()
    ours.process.start()
    wait_for(lambda: "or consumers; stop those" in ours.log, DEADLINE_S, "ours says what it waits for")
    again = stage.kill_while_it_copies(theirs)
    ours.wait_until_healthy()
    stage.goes_on(ours)
    stage.assert_copied(again)
    stage.is_seen_from_outside("running")
    assert {task["task.class"].rpartition(".")[2] for task in tasks_of(ours, stage.names["Source"])} == {
        "MirrorSourceTask"
    }
    assert ours.process.terminate()

    theirs.start()
    stage.goes_on(theirs)
    stage.assert_copied(again)
    assert "Task threw an uncaught" not in theirs.log
    assert "Failed to start task" not in theirs.log


@pytest.mark.parity
def test_kafkas_worker_goes_on_where_twinlog_was_killed(stage: Stage) -> None:
    theirs = stage.worker(MM2_VERSION).start()
    set_up(stage, theirs)
    stage.goes_on(theirs)
    assert theirs.process.terminate(60)

    ours = stage.worker().start()
    stage.goes_on(ours)
    stage.assert_copied()
    # Their worker does not wait, but ends.
    refused = stage.worker(MM2_VERSION)
    refused.process.start()
    assert refused.process.wait(DEADLINE_S) != 0
    stage.goes_on(ours)

    again = stage.kill_while_it_copies(ours)
    wait_for(stage.is_empty, DEADLINE_S, "the killed worker's session is over")
    theirs.start()
    stage.goes_on(theirs)
    stage.assert_copied(again)
    assert "Task threw an uncaught" not in theirs.log
    assert "Failed to start task" not in theirs.log
