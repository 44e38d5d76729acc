"""Commands with `--url` in place of FILE, beside a real worker that runs MirrorMaker 2's connectors: Kafka's, and ours.

The commands get the address of the worker alone: names of its group and topics are looked up on the target.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.groups import commit_offsets, group_offsets
from harness.jvm.jars import KAFKA_VERSION
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.connect_worker import ConnectWorker, connector

DEADLINE_S = 180.0
RECORDS = 200
TWINLOG = (sys.executable, "-m", "twinlog")


@dataclass
class Mirror:
    """A worker with a source and a checkpoint connector that have copied a topic and translated a group."""

    worker: ConnectWorker
    workers: str
    alias: str
    topic: str
    group: str
    names: dict[str, str] = field(default_factory=dict)

    @property
    def remote(self) -> str:
        return f"{self.alias}.{self.topic}"

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command that knows the worker by its address."""
        command = [*TWINLOG, *words, "--url", self.worker.url, "-o", "json"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)

    def answer(self, *words: str) -> Any:
        """The result of a command that ends with 0."""
        done = self.call(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "TW-REST-09" not in done.stderr, "a name was not found"
        return json.loads(done.stdout)


@pytest.fixture(
    params=[pytest.param(None, id="twinlog"), pytest.param(KAFKA_VERSION, id="kafka", marks=pytest.mark.parity)]
)
def mirror(
    request: pytest.FixtureRequest,
    clusters: tuple[KafkaCluster, KafkaCluster],
    topic_name: str,
    new_name: Callable[[str], str],
    tmp_path: Path,
) -> Iterator[Mirror]:
    source, target = clusters
    workers = new_name("workers")
    settings = {"offset.flush.interval.ms": "1000"}
    worker = ConnectWorker(tmp_path / "worker", target, workers, settings, kafka=request.param)
    made = Mirror(worker, workers, new_name("s"), topic_name, new_name("shop"))
    create_topic(source, topic_name, 2)
    produce(source, topic_name, numbered(RECORDS), partition=1)
    commit_offsets(source, {made.group: {(topic_name, 1): RECORDS}})
    every_second = {
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "offset.lag.max": "0",
    }
    try:
        worker.start()
        for kind in ("Source", "Checkpoint"):
            flow = f"{made.alias}->t"
            config = connector(kind, source, target, flow, topics=topic_name, groups=made.group)
            made.names[kind] = f"{flow}.{kind}"
            assert worker.put(made.names[kind], {**config, **every_second})[0] == 201
        wait_for(lambda: _is_copied(target, made), DEADLINE_S, "the topic is copied, and the group is translated")
        yield made
    finally:
        worker.close()


def _is_copied(target: KafkaCluster, made: Mirror) -> bool:
    if made.remote not in topics(target) or len(consume(target, made.remote)) < RECORDS:
        return False
    found = group_offsets(target, [made.group]).get(made.group, {})
    return (made.remote, 1) in found and found[made.remote, 1].offset == offsets(target, made.remote, 1)[1]


def _named(found: Any, name: str) -> dict[str, Any]:
    (one,) = [flow for flow in found["flows"] if flow["flow"] == name]
    return dict(one)


def test_each_command_reads_the_connectors_of_a_running_worker(
    mirror: Mirror, clusters: tuple[KafkaCluster, KafkaCluster]
) -> None:
    copies = mirror.names["Source"]
    state = "run by others" if mirror.worker.process.name.startswith("Connect ") else "running"

    def is_running() -> bool:
        done = mirror.call("status")
        flows = {flow["flow"]: (flow["condition"], flow["state"]) for flow in json.loads(done.stdout)["flows"]}
        return done.returncode == 0 and flows == dict.fromkeys(mirror.names.values(), ("running", state))

    wait_for(is_running, DEADLINE_S, f"status shows both connectors as {state}", every_s=1.0)

    def has_no_lag() -> bool:
        return bool(_named(mirror.answer("status"), copies)["lag"]["records"] == 0)

    wait_for(has_no_lag, DEADLINE_S, "the stored positions are at the end", every_s=1.0)

    (listed,) = _named(mirror.answer("topics", "list"), copies)["topics"]
    assert (listed["topic"], listed["remote_topic"], listed["lag"]) == (mirror.topic, mirror.remote, 0)

    end = offsets(clusters[1], mirror.remote, 1)[1]
    moving = mirror.answer("groups", "--group", mirror.group)
    assert moving["safe"] is True
    (group,) = _named(moving, mirror.names["Checkpoint"])["groups"]
    assert [(part["source_offset"], part["target_offset"]) for part in group["partitions"]] == [(RECORDS, end)]

    (translated,) = mirror.answer("translate", "--group", mirror.group)["offsets"]
    assert (translated["to"]["topic"], translated["to"]["offset"]) == (mirror.remote, end)

    # The REST API lacks the worker's factor of replicas, and twinlog's own topics are missing beside Kafka's worker.
    planned = _named(json.loads(mirror.call("plan").stdout), copies)
    assert {problem["kind"] for problem in planned["problems"]} <= {"replication-factor"}
    assert planned["copy"]["records"] == 0

    rights = json.dumps(mirror.answer("acls"))
    for name in ("offsets", "configs", "status"):
        assert f'"{mirror.workers}-{name}"' in rights, rights


def test_audit_and_verify_compare_the_copies_of_a_running_worker(mirror: Mirror) -> None:
    compared = mirror.answer("verify", "--topic", mirror.topic, "--master", "local[1]")
    equal = [(one["topic"], one["records"]) for one in compared["partitions"] if one["equal"] and one["records"]]
    assert equal == [(mirror.topic, RECORDS)]

    done = mirror.call("audit", "--flow", mirror.names["Source"])
    report = json.loads(done.stdout)
    assert report["complete"] is True, done.stdout
    assert [one for one in report["findings"] if one["severity"] == "critical"] == []
    assert [one["flow"] for one in report["flows"]] == [mirror.names["Source"]]
