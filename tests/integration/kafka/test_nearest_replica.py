"""`client.rack`: records come from the replica in our rack, and none is lost when its broker dies (KIP-392)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.topics import offsets
from harness.wait import wait_for
from tests.integration.clusters.racked import RackedCluster
from tests.integration.copying import CopyFlow, RunningCopier
from twinlog.kafka.consumer import nearest
from twinlog.kafka.fetch_session import Fetched, FetchSession

PARTITIONS = 3
NEAR = 2
ENOUGH_S = 60.0


@pytest.fixture(scope="module")
def racked() -> Iterator[KafkaCluster]:
    with RackedCluster("racked") as cluster:
        yield cluster


@pytest.fixture
def flow(racked: KafkaCluster, target_cluster: KafkaCluster) -> Iterator[CopyFlow]:
    flow = CopyFlow(racked, target_cluster)
    try:
        yield flow
    finally:
        flow.close()


@pytest.fixture
def read_from(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Bytes of records by the broker they came from."""
    counted: Counter[int] = Counter()

    class CountedSession(FetchSession):
        async def fetch(self, *wanted: Any, **limits: Any) -> list[Fetched]:
            answers = await super().fetch(*wanted, **limits)
            counted[self._node] += sum(len(fetched.answer.records) for fetched in answers)
            return answers

    monkeypatch.setattr("twinlog.kafka.consumer.partition_reader.FetchSession", CountedSession)
    return counted


def start(flow: CopyFlow, topic: str) -> RunningCopier:
    consumer = {"client_rack": f"rack-{NEAR}", "isolation_level": "read_committed"}
    return flow.start(topic, consumer=consumer)


def write(flow: CopyFlow, topic: str, first: int) -> None:
    """100 records to each partition, and to the first one an aborted transaction between them."""
    for number in range(PARTITIONS):
        produce(flow.source, topic, numbered(50, start=first, size=200), partition=number)
    produce(flow.source, topic, numbered(5), transactional_id=f"{topic}-{first}", abort=True)
    for number in range(PARTITIONS):
        produce(flow.source, topic, numbered(50, start=first + 50, size=200), partition=number)


def caught_up(flow: CopyFlow, copier: RunningCopier, topic: str) -> None:
    """Wait until all is copied, and compare."""
    flow.wait_until_caught_up(copier, topic)
    copied, source = consume(flow.target, flow.remote(topic)), consume(flow.source, topic)
    assert [(one.partition, one.content) for one in copied] == [(one.partition, one.content) for one in source]
    assert copier.events("gap") == []


def test_records_come_from_the_replica_in_our_rack(flow: CopyFlow, topic_name: str, read_from: Counter[int]) -> None:
    flow.create(topic_name, PARTITIONS)
    write(flow, topic_name, 0)
    copier = start(flow, topic_name)
    caught_up(flow, copier, topic_name)
    write(flow, topic_name, 100)
    caught_up(flow, copier, topic_name)
    assert +read_from == {NEAR: read_from[NEAR]}
    assert read_from[NEAR] > PARTITIONS * 200 * 200
    assert [copier.lag(topic_name, number) for number in range(PARTITIONS)] == [0] * PARTITIONS


def test_nothing_is_lost_with_the_replica(
    flow: CopyFlow, topic_name: str, read_from: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "SHUN_S", 2.0)
    flow.create(topic_name, PARTITIONS)
    write(flow, topic_name, 0)
    copier = start(flow, topic_name)
    caught_up(flow, copier, topic_name)
    assert +read_from == {NEAR: read_from[NEAR]}
    try:
        flow.source.kill(NEAR)
        write(flow, topic_name, 100)
        caught_up(flow, copier, topic_name)
        assert {node for node, size in read_from.items() if size} == {1, 2, 3}
    finally:
        flow.source.restart(NEAR)
    before = read_from[NEAR]

    def near_again() -> bool:
        for number in range(PARTITIONS):
            produce(flow.source, topic_name, numbered(1), partition=number)
        copier.wait_for_position(topic_name, offsets(flow.source, topic_name)[1])
        return read_from[NEAR] > before

    wait_for(near_again, ENOUGH_S, "records come from the replica in our rack again", every_s=0.1)
    caught_up(flow, copier, topic_name)
