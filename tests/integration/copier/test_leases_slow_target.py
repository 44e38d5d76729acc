"""The target stands still while partitions change hands: what was on its way arrives late, and is not sent twice."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest

from harness.checks.checker import Load, require_clean
from harness.cluster import KafkaCluster
from harness.topics import create_topic, offsets
from harness.wait import wait_for
from tests.integration.copying import flow_settings
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.model.types import TopicName, TopicPartition

PARTITIONS = 4
HANGS = 3
HANG_S = 3.0
"""Longer than a copier is waited for and than its beats let it append, with the times below."""


@pytest.fixture
def slow_target() -> Iterator[KafkaCluster]:
    with KafkaCluster("slow", sasl=False, heap="384m") as cluster:
        yield cluster


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that takes seconds takes less, so that a hang of three seconds outlasts it."""
    for module in ("granting", "leases"):
        monkeypatch.setattr(f"twinlog.lease.{module}.RELEASE_S", 0.4)
        monkeypatch.setattr(f"twinlog.lease.{module}.VALID_S", 1.0)
    monkeypatch.setattr("twinlog.copier.copier_thread.BEAT_S", 0.2)
    monkeypatch.setattr("twinlog.copier.producers.DRAIN_S", 0.2)


@pytest.mark.usefixtures("impatient")
def test_partitions_change_hands_while_the_target_stands_still(
    source_cluster: KafkaCluster, slow_target: KafkaCluster, topic_name: str, chance: random.Random
) -> None:
    create_topic(source_cluster, topic_name, PARTITIONS)
    parts = [TopicPartition(TopicName(topic_name), number) for number in range(PARTITIONS)]
    halves, others = (parts[:2], parts[2:]), (parts[::2], parts[1::2])
    settings = flow_settings(source_cluster, slow_target, topics=(topic_name,), tasks_max=2)
    remote = f"north.{topic_name}"

    def copied() -> int:
        return sum(offsets(slow_target, remote, number)[1] for number in range(PARTITIONS))

    with FlowWithoutSpark(settings, 2) as flow:
        with Load(source_cluster, topic_name, PARTITIONS, rate=2000, size=1000) as load:
            for hang in range(HANGS):
                flow.renew(tuple(frozenset(share) for share in (halves, others)[hang % 2]))
                wait_for(lambda: copied() > load.total - 2000, 60, "the copy has caught up")
                slow_target.suspend()
                resume = threading.Timer(HANG_S, slow_target.resume)
                resume.start()
                time.sleep(chance.uniform(0.05, 0.3))
                flow.place = chance.sample((0, 1), 2).__getitem__
                flow.renew(tuple(frozenset(share) for share in (others, halves)[hang % 2]))
                resume.join()
        wait_for(lambda: copied() >= load.total, 60, "all is copied")
    assert require_clean(source_cluster, topic_name, slow_target, remote) == load.total
