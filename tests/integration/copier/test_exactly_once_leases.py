"""Copies in transactions under leases: copiers are lost and drivers replaced, and each record still arrives once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from harness.checks.checker import Load, require_clean
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.copying import flow_settings
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.lease.ledger import Assignment
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.flow.flow import FlowState

PARTITIONS = 4
RATE = 2000


class ExactScene:
    """A topic with load on it; flows of two workers that copy it exactly once are started by `take_over`."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, topic: str) -> None:
        self.source, self.target, self.topic = source, target, create_topic(source, topic, PARTITIONS)
        self.remote = f"north.{topic}"
        self.parts = [TopicPartition(TopicName(topic), number) for number in range(PARTITIONS)]
        self.settings = flow_settings(
            source,
            target,
            topics=(topic,),
            tasks_max=2,
            exactly_once="enabled",
            consumer={"isolation_level": "read_committed"},
            # Other tests copy from the same source at the same time.
            worker_group_id=topic,
        )
        self.flows: list[FlowWithoutSpark] = []
        self.load = Load(source, topic, PARTITIONS, rate=RATE)

    def take_over(self) -> FlowWithoutSpark:
        flow = FlowWithoutSpark(self.settings, 2)
        self.flows.append(flow)
        return flow.__enter__()

    def copied(self) -> int:
        return len(consume(self.target, self.remote)) if self.remote in topics(self.target) else 0

    def finish(self, *, failed: Sequence[FlowWithoutSpark] = ()) -> None:
        sent = self.load.stop()
        wait_for(lambda: self.copied() >= sent, 60, f"{sent} records are committed")
        for flow in self.flows:
            flow.stop()
            assert (flow.runner.reason is not None) == (flow in failed), flow.runner.reason
        require_clean(self.source, self.topic, self.target, self.remote)

    def shares(self, chance: random.Random) -> Assignment:
        """Some way to share all partitions between two tasks, or one."""
        parts = chance.sample(self.parts, len(self.parts))
        cut = chance.randint(0, len(parts))
        return tuple(frozenset(share) for share in (parts[:cut], parts[cut:]) if share)

    def halves(self) -> Assignment:
        return frozenset(self.parts[:2]), frozenset(self.parts[2:])


@pytest.fixture
def scene(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, new_name: Callable[[str], str]
) -> Iterator[ExactScene]:
    scene = ExactScene(source_cluster, target_cluster, new_name("t"))
    with scene.load:
        yield scene
    for flow in scene.flows:
        flow.stop()


def test_partitions_change_hands(scene: ExactScene, chance: random.Random) -> None:
    flow = scene.take_over()
    for _ in range(10):
        order = chance.sample((0, 1), 2)
        flow.place = order.__getitem__
        flow.renew(scene.shares(chance))
        time.sleep(chance.uniform(0.0, 0.3))
    assert all(
        worker.copier_thread is not None and worker.copier_thread.reporter.ranges.take_ranges()
        for worker in flow.workers
    )
    scene.finish()
    assert [worker.errors for worker in flow.workers] == [[], []]


def test_copiers_are_lost_at_any_moment(scene: ExactScene, chance: random.Random) -> None:
    flow = scene.take_over()
    flow.use_tasks(2)
    flow.renew(scene.halves())
    for _ in range(8):
        time.sleep(chance.uniform(0.0, 0.4))
        flow.lose_copier(chance.choice(flow.in_lease()))
        if chance.random() < 0.5:
            flow.renew(scene.shares(chance))
    scene.finish()


def test_another_driver_takes_the_flow_over(scene: ExactScene, chance: random.Random) -> None:
    """The first one does not know, and its copiers go on: until they are fenced."""
    first = scene.take_over()
    first.renew(scene.halves())
    time.sleep(chance.uniform(0.1, 0.5))
    second = scene.take_over()
    wait_for(lambda: first.runner.state is FlowState.FAILED, 60, "the first driver hears of it")
    assert "another process" in (first.runner.reason or "")
    assert f"{scene.topic}-MirrorSourceConnector-" in (first.runner.reason or "")
    second.renew(scene.halves())
    time.sleep(0.5)
    scene.finish(failed=[first])
