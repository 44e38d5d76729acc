"""Kafka's own workers and ours copy exactly once in turn, each while the one before only stands still.

A worker that stands still in the middle of transactions and wakes after its successor is what zombies are. Workers
that end instead are in `test_connect_handover.py`.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.checks.checker import SLOW_TICK_S, Load, require_clean
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.connect_worker import ConnectWorker, connector, path_of
from tests.integration.consuming import Count
from tests.integration.copying import TARGET, flow_settings
from tests.integration.parity import MM2_VERSION
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.coordinator.membership import Membership
from twinlog.kafka.coordinator.transactions import list_transactional_ids

DEADLINE_S = 180.0
PARTITIONS = 2
NAME = "exact"
NOTE = "sync.topic.acls.interval.seconds"
SETTINGS = {
    "exactly.once.source.support": "enabled",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1500",
    # Else Kafka's worker takes headers for JSON and writes others.
    "header.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}


class Stage:
    """The clusters, one group of workers, and its connector of two tasks."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, home: Path, workers: str, topic: str) -> None:
        self.source, self.target, self.home, self.workers = source, target, home, workers
        self.topic, self.remote = create_topic(source, topic, PARTITIONS), f"s.{topic}"
        self.copied = Count(target, self.remote, PARTITIONS)
        self.load = Load(source, topic, PARTITIONS, rate=500, tick_s=SLOW_TICK_S)
        self.started: list[ConnectWorker] = []
        self.acknowledged: list[str] = []
        self.config = {
            **connector("Source", source, target, "s->t", topics=topic),
            "tasks.max": str(PARTITIONS),
            "source.consumer.isolation.level": "read_committed",
        }
        self.admin = ClusterAdmin(TARGET, flow_settings(target, target).target_admin.client)
        self.admin.connect()

    def worker(self, kafka: str | None = None, mode: str = "enabled") -> ConnectWorker:
        home = self.home / f"worker-{len(self.started)}"
        settings = {**SETTINGS, "exactly.once.source.support": mode}
        self.started.append(ConnectWorker(home, self.target, self.workers, settings, kafka=kafka))
        return self.started[-1].start()

    def goes_on(self, worker: ConnectWorker) -> None:
        """A worker has the connector, and copies what came since."""
        worker.wait_until_it_has(NAME)
        worker.wait_for_state(NAME, "RUNNING", PARTITIONS)
        sent = self.load.total
        wait_for(lambda: self.copied() > sent, DEADLINE_S, "it copies what came since")

    def freeze(self, worker: ConnectWorker) -> None:
        """Have it stand still with all its processes until the group has forgotten it."""
        os.killpg(worker.process.pid, signal.SIGSTOP)
        wait_for(self.is_empty, DEADLINE_S, "its session is over")

    def wake(self, worker: ConnectWorker) -> None:
        os.killpg(worker.process.pid, signal.SIGCONT)

    def is_empty(self) -> bool:
        """Whether the group of workers has no members."""
        return not self.admin.call(Membership(self.admin.client, self.workers, "").describe).members

    def noted(self) -> tuple[int, bool]:
        """How many producers Kafka's next leader is to fence at most, and whether it has to."""
        found = consume(self.target, f"{self.workers}-configs")
        records = [record.key for record in found]
        fencing = max(at for at, key in enumerate(records) if key == f"tasks-fencing-{NAME}".encode())
        count = json.loads(found[fencing].value or b"")["task-count"]
        return count, f"commit-{NAME}".encode() in records[fencing:]

    def note(self, worker: ConnectWorker, text: str) -> None:
        """Change something of the connector that changes nothing of what it does."""
        status, answer = worker.put(NAME, {**self.config, NOTE: text})
        assert status in (200, 409, 500), answer
        if status == 200:
            self.acknowledged.append(text)

    def noted_by(self, worker: ConnectWorker) -> str:
        """The note that a worker knows."""
        return str(worker.ask("GET", path_of(NAME))[1]["config"][NOTE])

    def ids(self) -> set[str]:
        """The transactional ids of the connector that the target knows."""
        prefix = f"{self.workers}-{NAME}-"
        found = self.admin.call(list_transactional_ids, self.admin.client, prefix)
        return {name.removeprefix(prefix) for name in found or ()}

    def finish(self) -> None:
        """Each record was copied once, as readers of committed records see it."""
        sent = self.load.stop()
        wait_for(lambda: self.copied() >= sent, DEADLINE_S, "all is copied")
        assert require_clean(self.source, self.topic, self.target, self.remote) == sent


@pytest.fixture
def stage(
    clusters: tuple[KafkaCluster, KafkaCluster], topic_name: str, new_name: Callable[[str], str], tmp_path: Path
) -> Iterator[Stage]:
    made = Stage(*clusters, tmp_path, new_name("workers"), topic_name)
    with made.load:
        yield made
    for worker in made.started:
        worker.close()
    made.admin.close()


@pytest.mark.parity
def test_who_wakes_after_its_successor_writes_nothing(stage: Stage) -> None:
    theirs = stage.worker(MM2_VERSION)
    status, answer = theirs.put(NAME, stage.config)
    assert status == 201, answer
    stage.goes_on(theirs)
    assert stage.ids() == {"0", "1"}
    assert stage.noted() == (2, False)

    stage.freeze(theirs)
    ours = stage.worker(mode="preparing")
    following = stage.worker()
    stage.goes_on(ours)
    stage.wake(theirs)
    # Of another kind than the members of the group, it ends; what it has open is aborted.
    assert theirs.process.wait(DEADLINE_S) != 0
    stage.goes_on(ours)
    # The leader stands still while it is asked for something, and wakes after the next one: what was acknowledged
    # last is what all have.
    late = threading.Thread(target=stage.note, args=(ours, "1"))
    os.killpg(ours.process.pid, signal.SIGSTOP)
    late.start()
    following.wait_until_it_has(NAME)
    stage.note(following, "2")
    os.killpg(ours.process.pid, signal.SIGCONT)
    late.join()
    stage.goes_on(following)
    stage.note(ours, "3")
    assert stage.acknowledged[-1] == "3"
    wait_for(lambda: {stage.noted_by(one) for one in (ours, following)} == {"3"}, DEADLINE_S, "both have it")
    # The second step: from here on ours copies in transactions.
    assert ours.process.terminate()
    stage.goes_on(following)
    assert stage.noted() == (4, True)

    stage.freeze(following)
    theirs.start()
    stage.goes_on(theirs)
    # It fenced four, though it has two.
    assert stage.ids() == {"0", "1", "2", "3"}
    assert stage.noted() == (2, False)
    stage.wake(following)
    wait_for(lambda: "stop those" in following.log, DEADLINE_S, "ours sees that it is no member any more")
    stage.goes_on(theirs)
    stage.finish()
