"""Markers and aborted records while brokers of the target die, while a copier is frozen, and on other releases."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from harness.cluster import KafkaCluster
from harness.versions import OtherKafkaCluster
from harness.wait import wait_for
from tests.integration.copier.identical.test_identical_transactions import (
    HOW,
    SourceTransactions,
    require_same,
    transactions,
    write_any,
)
from tests.integration.copying import DEADLINE_S, CopyFlow, RunningCopier
from twinlog.model.types import TopicName, TopicPartition

PARTITIONS = 3
FROZEN_S = 3.0


@pytest.mark.scenario
def test_brokers_of_the_target_are_killed(
    source_cluster: KafkaCluster, topic_name: str, new_name: Callable[[str], str], chance: random.Random
) -> None:
    config = {"min.insync.replicas": "2", "transaction.state.log.min.isr": "2"}
    with (
        KafkaCluster("killed", 3, sasl=False, heap="256m", config=config) as target,
        closing(CopyFlow(source_cluster, target)) as flow,
    ):
        flow.create(topic_name, PARTITIONS)
        running = flow.start(topic_name, **HOW)
        with transactions(source_cluster, topic_name, PARTITIONS, [new_name("tx"), new_name("tx")], chance):
            for node in (1, 2, 3):
                time.sleep(chance.uniform(1, 2))
                target.kill(node)
                time.sleep(chance.uniform(1, 3))
                target.restart(node)
        flow.wait_until_caught_up(running, topic_name)
        running.release()
        assert running.heard.held == []
        require_same(flow, topic_name, PARTITIONS)


def copies(running: RunningCopier, topic: str) -> int:
    """The number of source offsets that a copier has copied."""
    parts = [TopicPartition(TopicName(topic), number) for number in range(PARTITIONS)]
    known = [running.copier.partitions.get(part) for part in parts]
    return sum(one.acknowledged.next_source for one in known if one is not None)


def hand_over_from_frozen(flow: CopyFlow, topic: str, chance: random.Random) -> None:
    """A copier is frozen while its lease ends; the next copier has its partitions before it wakes up."""
    frozen = flow.start(topic, **HOW)
    begun = copies(frozen, topic)
    wait_for(lambda: copies(frozen, topic) > begun, DEADLINE_S, "the copier copies")
    time.sleep(chance.uniform(0, 1))
    freezing = threading.Thread(target=frozen.stand_still, args=(FROZEN_S,))
    freezing.start()
    time.sleep(0.1)
    frozen.allowed.clear()
    following = flow.start(topic, **HOW)
    freezing.join(DEADLINE_S)
    time.sleep(1.0)
    frozen.crash()
    flow.wait_until_caught_up(following, topic)
    following.release()
    assert following.heard.held == []


def test_a_frozen_copier_writes_nothing_after_its_lease(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str], chance: random.Random
) -> None:
    copy_flow.create(topic_name, PARTITIONS)
    with transactions(copy_flow.source, topic_name, PARTITIONS, [new_name("tx"), new_name("tx")], chance):
        for _ in range(3):
            hand_over_from_frozen(copy_flow, topic_name, chance)
    copy_flow.copy(topic_name, **HOW)
    require_same(copy_flow, topic_name, PARTITIONS)


@pytest.mark.scenario
@pytest.mark.parametrize("release", ["3.9.2", "4.0.2"])
def test_other_releases_of_the_target(
    source_cluster: KafkaCluster,
    topic_name: str,
    new_name: Callable[[str], str],
    chance: random.Random,
    release: str,
) -> None:
    with (
        OtherKafkaCluster("other", sasl=False, heap="256m", version=release) as target,
        closing(CopyFlow(source_cluster, target)) as flow,
    ):
        flow.create(topic_name)
        producers = [SourceTransactions(source_cluster, topic_name, new_name("tx")) for _ in range(3)]
        for _ in range(2):
            write_any(source_cluster, topic_name, chance, producers)
            child = flow.start_child(topic_name, position_interval_ms=1000, **HOW)
            time.sleep(chance.uniform(0.7, 1.5))
            child.kill()
        running = flow.copy(topic_name, **HOW)
        assert running.heard.held == []
        require_same(flow, topic_name)
