"""Clusters far away: records come and go by larger steps, so that the way does not decide how fast they are copied."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import Codec, numbered, produce
from harness.topics import create_topic, move_replicas
from harness.traffic.relay import Distance
from harness.wait import wait_for
from tests.integration.copying import DEADLINE_S, FOR_EVER, CopyFlow
from tests.integration.records import seen
from twinlog.kafka.consumer.partition_reader import READ_AHEAD_BYTES

STEP = 256 * 1024


class FarCluster(KafkaCluster):
    """Everybody talks to it from afar."""

    @property
    def bootstrap(self) -> str:
        return self.far_bootstrap


@pytest.fixture(scope="module")
def far_cluster() -> Iterator[KafkaCluster]:
    with FarCluster("distant", 2, sasl=False, heap="256m", distance=Distance(20, 8_000_000)) as cluster:
        yield cluster


@pytest.mark.scenario
def test_a_far_source_is_asked_for_more_at_a_time(
    far_cluster: KafkaCluster, target_cluster: KafkaCluster, topic_name: str
) -> None:
    flow = CopyFlow(far_cluster, target_cluster)
    try:
        flow.create(topic_name)
        produce(far_cluster, topic_name, numbered(2000, size=10_000), per_batch=10)
        copier = flow.start(topic_name, consumer={"max_partition_fetch_bytes": STEP})
        flow.wait_until_caught_up(copier, topic_name)
        (poll,) = copier.copier._reader._polls.values()
        assert copier.copier.source.far
        assert 4 * STEP <= poll.size.bytes <= 4 * READ_AHEAD_BYTES
        assert seen(consume(target_cluster, flow.remote(topic_name))) == seen(consume(far_cluster, topic_name))
    finally:
        flow.close()


@pytest.mark.parametrize("codec", [pytest.param("none", marks=pytest.mark.scenario), "lz4"])
def test_a_far_target_gets_large_batches(
    far_cluster: KafkaCluster, source_cluster: KafkaCluster, topic_name: str, codec: Codec
) -> None:
    flow = CopyFlow(source_cluster, far_cluster)
    try:
        create_topic(source_cluster, topic_name, config=FOR_EVER)
        create_topic(far_cluster, flow.remote(topic_name), config=FOR_EVER)
        produce(source_cluster, topic_name, numbered(3000, size=1000), per_batch=20, codec=codec)
        # Small answers, so that some are taken while batches wait.
        copier = flow.start(topic_name, consumer={"max_partition_fetch_bytes": STEP})
        wait_for(lambda: copier.copier.target.far, DEADLINE_S, "the target is known to be far")
        flow.wait_until_caught_up(copier, topic_name)
        copied, source = consume(far_cluster, flow.remote(topic_name)), consume(source_cluster, topic_name)
        assert seen(copied) == seen(source)
        assert copier.events("gap") == []
    finally:
        flow.close()


def test_a_far_partition_with_holes_whose_leader_moves_is_copied_once_and_in_order(
    far_cluster: KafkaCluster, target_cluster: KafkaCluster, topic_name: str
) -> None:
    flow = CopyFlow(far_cluster, target_cluster)
    try:
        flow.create(topic_name)
        move_replicas(far_cluster, topic_name, 0, [1, 2])
        for turn in range(6):
            produce(
                far_cluster,
                topic_name,
                numbered(200, start=200 * turn, size=10_000),
                transactional_id=topic_name,
                abort=turn % 3 == 1,
                settings={"batch.num.messages": 10},
            )
        copier = flow.start(
            topic_name, consumer={"max_partition_fetch_bytes": STEP, "isolation_level": "read_committed"}
        )
        move_replicas(far_cluster, topic_name, 0, [2, 1])
        produce(far_cluster, topic_name, numbered(200, start=1200, size=10_000), per_batch=10)
        flow.wait_until_caught_up(copier, topic_name)
        assert set(copier.copier._reader._polls) == {(1, 0), (2, 0)}
        copied = consume(target_cluster, flow.remote(topic_name))
        assert len(copied) == 1000
        assert seen(copied) == seen(consume(far_cluster, topic_name))
        assert copier.events("gap") == []
    finally:
        flow.close()
