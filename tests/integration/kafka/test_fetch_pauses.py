"""A source broker is asked only while it leads, and no more often than it has something to return."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.topics import DEADLINE_S, create_topic, delete_topic, move_replicas, topics
from harness.wait import wait_for
from tests.integration.copying import FOR_EVER, CopyFlow
from tests.integration.records import seen
from twinlog.kafka.fetch_session import Fetched, FetchSession

WATCHED = 8
MOST_PER_S = 50
"""Long polls of half a second make two."""


@pytest.fixture(scope="module")
def pair() -> Iterator[KafkaCluster]:
    """Two brokers."""
    with KafkaCluster("pair", 2, sasl=False, heap="256m") as cluster:
        yield cluster


@pytest.fixture
def flow(pair: KafkaCluster, target_cluster: KafkaCluster) -> Iterator[CopyFlow]:
    flow = CopyFlow(pair, target_cluster)
    try:
        yield flow
    finally:
        flow.close()


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Fetches of copiers by the broker that answered with anything but an error."""
    counted: Counter[int] = Counter()

    class CountedSession(FetchSession):
        async def fetch(self, *wanted: Any, **limits: Any) -> list[Fetched]:
            answers = await super().fetch(*wanted, **limits)
            counted[self._node] += 1
            return answers

    monkeypatch.setattr("twinlog.kafka.consumer.partition_reader.FetchSession", CountedSession)
    return counted


def create_on(cluster: KafkaCluster, topic: str, nodes: list[int]) -> None:
    """A topic whose partitions have one replica each, on these nodes."""
    admin = AdminClient(cluster.client_config())
    placed = NewTopic(topic, len(nodes), replica_assignment=[[node] for node in nodes], config=FOR_EVER)
    admin.create_topics([placed], operation_timeout=DEADLINE_S)[topic].result(DEADLINE_S)
    wait_for(lambda: topics(cluster).get(topic) == len(nodes), DEADLINE_S, f"{topic} is there")


def assert_quiet(fetches: Counter[int]) -> None:
    """Nothing is written, so brokers are asked by long polls alone."""
    before, began = fetches.copy(), time.monotonic()

    def most() -> int:
        return max((fetches - before).values(), default=0)

    wait_for(lambda: most() >= WATCHED, 120, f"a broker was asked {WATCHED} times")
    # However busy the machine is: it only takes longer then.
    assert time.monotonic() - began > WATCHED / MOST_PER_S, fetches - before


def test_a_partition_that_leaves_its_broker_is_forgotten_there(
    flow: CopyFlow, topic_name: str, fetches: Counter[int]
) -> None:
    create_on(flow.source, topic_name, [1, 1, 2])
    create_topic(flow.target, flow.remote(topic_name), 3, config=FOR_EVER)
    for partition in range(3):
        produce(flow.source, topic_name, numbered(20), partition=partition)
    copier = flow.start(topic_name)
    flow.wait_until_caught_up(copier, topic_name)

    move_replicas(flow.source, topic_name, 0, [2])
    produce(flow.source, topic_name, numbered(20, start=20))
    flow.wait_until_caught_up(copier, topic_name)

    assert_quiet(fetches)
    produce(flow.source, topic_name, numbered(20, start=20), partition=1)
    flow.wait_until_caught_up(copier, topic_name)
    assert seen(consume(flow.target, flow.remote(topic_name))) == seen(consume(flow.source, topic_name))


def test_a_recreated_topic_replaces_the_one_that_is_gone(
    flow: CopyFlow, topic_name: str, fetches: Counter[int]
) -> None:
    other = f"{topic_name}-other"
    for name in (topic_name, other):
        flow.create(name)
        produce(flow.source, name, numbered(20))
    # Brokers need not wait for anything, by these settings.
    at_once = {"fetch_min_bytes": 0, "fetch_max_wait_ms": 0}
    copier = flow.start(topic_name, other, gap_policy="continue", consumer=at_once)
    flow.wait_until_caught_up(copier, topic_name, other)

    delete_topic(flow.source, topic_name)
    assert_quiet(fetches)
    create_topic(flow.source, topic_name, config=FOR_EVER)
    produce(flow.source, topic_name, numbered(30, start=100))
    copier.wait_for_event("gap")
    flow.wait_until_caught_up(copier, topic_name)

    assert_quiet(fetches)
    copied = [record.value for record in consume(flow.target, flow.remote(topic_name))]
    assert copied == [one.value for one in numbered(20) + numbered(30, start=100)]
    produce(flow.source, other, numbered(20, start=20))
    flow.wait_until_caught_up(copier, other)


def test_a_leader_that_was_replaced_is_not_read_as_if_it_led(
    flow: CopyFlow, topic_name: str, fetches: Counter[int]
) -> None:
    flow.create(topic_name)
    move_replicas(flow.source, topic_name, 0, [1, 2])
    produce(flow.source, topic_name, numbered(20))
    copier = flow.start(topic_name)
    flow.wait_until_caught_up(copier, topic_name)
    assert set(fetches) == {1}

    move_replicas(flow.source, topic_name, 0, [2, 1])
    written = 20

    def read_there() -> bool:
        nonlocal written
        produce(flow.source, topic_name, numbered(5, start=written))
        written += 5
        flow.wait_until_caught_up(copier, topic_name)
        return fetches[2] > 0

    wait_for(read_there, DEADLINE_S, "the new leader is asked", every_s=0.1)
    assert_quiet(fetches)
    assert copier.events("gap") == []
    assert seen(consume(flow.target, flow.remote(topic_name))) == seen(consume(flow.source, topic_name))
