"""Backlogs whose next records are asked for before each answer is taken: brokers die, throttle, or send elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.quotas import quota
from harness.wait import wait_for
from tests.fetches_ahead import count_fetches_ahead
from tests.integration.clusters.racked import RackedCluster
from tests.integration.copying import DEADLINE_S, CopyFlow
from tests.integration.records import seen
from twinlog.kafka.consumer import session_places
from twinlog.kafka.consumer.partition_reader import SourceReader

MB = 1 << 20
PARTITIONS = 4
CONSUMER: dict[str, Any] = {"max_partition_fetch_bytes": 300_000}


@pytest.fixture(scope="module")
def frail() -> Iterator[KafkaCluster]:
    with RackedCluster("frail") as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How often an answer was followed by a fetch ahead (True), and how often it was taken first."""
    return count_fetches_ahead(monkeypatch, backlog_bytes=100_000)


def fill(cluster: KafkaCluster, topic: str, *, first: int = 0) -> None:
    """12 MB for each partition."""
    for number in range(PARTITIONS):
        produce(cluster, topic, numbered(1_200, start=first, size=10_000), partition=number)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each broker has a fetch session for each partition, as for many partitions."""
    monkeypatch.setattr(session_places, "MANY", 0)
    monkeypatch.setattr(session_places, "NEIGHBOURS", 1)


@pytest.mark.scenario
@pytest.mark.usefixtures("many")
def test_a_broker_with_several_sessions_that_dies_in_a_backlog_costs_no_record(
    frail: KafkaCluster, target_cluster: KafkaCluster, topic_name: str, asked: Counter[bool]
) -> None:
    test_a_broker_that_dies_in_a_backlog_costs_no_record(frail, target_cluster, topic_name, "rack-2", asked)


@pytest.mark.usefixtures("many")
def test_several_sessions_that_a_source_throttles_are_copied_once(
    copy_flow: CopyFlow, topic_name: str, asked: Counter[bool]
) -> None:
    test_a_source_that_throttles_a_backlog_is_copied_once(copy_flow, topic_name, asked)


@pytest.mark.scenario
@pytest.mark.parametrize("rack", ["", "rack-2"])
def test_a_broker_that_dies_in_a_backlog_costs_no_record(
    frail: KafkaCluster, target_cluster: KafkaCluster, topic_name: str, rack: str, asked: Counter[bool]
) -> None:
    with closing(CopyFlow(frail, target_cluster)) as flow:
        remote = flow.create(topic_name, PARTITIONS)
        fill(frail, topic_name)
        running = flow.start(topic_name, consumer={**CONSUMER, "client_rack": rack})
        wait_for(lambda: running.position(topic_name, 1).next_source, DEADLINE_S, "a batch is copied", every_s=0.005)
        frail.kill(2)
        try:
            wait_for(
                lambda: all(running.position(topic_name, one).next_source == 1_200 for one in range(PARTITIONS)),
                DEADLINE_S,
                "the backlog is copied",
            )
        finally:
            frail.restart(2)
        fill(frail, topic_name, first=1_200)
        flow.wait_until_caught_up(running, topic_name)
        assert running.heard.failures == []
        assert running.events("gap") == []
        # A busy machine reads small answers, which are taken first.
        assert asked[True] > 0
        assert seen(consume(target_cluster, remote)) == seen(consume(frail, topic_name))


def test_a_source_that_throttles_a_backlog_is_copied_once(
    copy_flow: CopyFlow, topic_name: str, asked: Counter[bool]
) -> None:
    remote = copy_flow.create(topic_name, PARTITIONS)
    fill(copy_flow.source, topic_name)
    with quota(copy_flow.source, "twinlog-test-consumer", "consumer_byte_rate", 8_000_000):
        running = copy_flow.start(topic_name, consumer=CONSUMER)
        copy_flow.wait_until_caught_up(running, topic_name)
    assert running.heard.events == []
    assert asked[True] > 0
    assert seen(consume(copy_flow.target, remote)) == seen(consume(copy_flow.source, topic_name))


def test_answers_that_are_asked_for_ahead_stay_within_the_budget(
    copy_flow: CopyFlow, topic_name: str, asked: Counter[bool]
) -> None:
    """Each answer of small batches becomes larger batches, beside the answer itself and the next answer."""
    limit = 16 * MB
    remote = copy_flow.create(topic_name, PARTITIONS)
    for number in range(PARTITIONS):
        produce(copy_flow.source, topic_name, numbered(2_000, size=5_000), partition=number, per_batch=4)
    sizes: list[int] = []
    taken = SourceReader._take

    def measuring(self: SourceReader, *args: Any) -> bool:
        accepted = taken(self, *args)
        memory: Any = self._memory
        # The frame of an answer that is being received has its bytes, and is still requested.
        sizes.append(memory.used_bytes - sum(memory._asked.values()))
        return accepted

    slow = quota(copy_flow.target, "twinlog-test-producer", "producer_byte_rate", 8_000_000)
    with pytest.MonkeyPatch.context() as patch, slow:
        patch.setattr(SourceReader, "_take", measuring)
        running = copy_flow.start(topic_name, copier_memory_bytes=limit)
        copy_flow.wait_until_caught_up(running, topic_name)
    assert asked[True] > 0
    # Memory is taken in pieces, and a batch comes whole although it is larger than its fetch allowed.
    assert limit // 4 < max(sizes) <= limit + MB
    assert seen(consume(copy_flow.target, remote)) == seen(consume(copy_flow.source, topic_name))
