"""How often a start waits for a cluster that is far away: each question that waits for another's answer costs a way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from harness.cluster import FAR, RELAY, KafkaCluster
from harness.produce import NewRecord, produce
from harness.relay import Distance
from harness.round_trips import FETCH, PRODUCE, RoundTrips
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.copying import DEADLINE_S, flow_settings
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.settings import FlowSettings

DELAY_S = 0.02
COPIER, DRIVER = "copier", "driver"
RECORD_BYTES = 1000
RECORDS = [NewRecord(b"x" * RECORD_BYTES)] * 5


@pytest.fixture(scope="module")
def far() -> Iterator[KafkaCluster]:
    """A cluster whose brokers send clients to the place of its relay; there is none."""
    with KafkaCluster("far-start", sasl=False, heap="256m", distance=Distance()) as cluster:
        assert cluster.relay is not None
        cluster.relay.kill()
        yield cluster


@pytest.fixture
def trips(far: KafkaCluster) -> Iterator[RoundTrips]:
    """In the place of the relay."""
    (broker,) = far.brokers.values()
    with RoundTrips(broker.ports.more[RELAY], broker.ports.more[FAR], DELAY_S) as trips:
        yield trips


def flow(source: KafkaCluster, target: KafkaCluster, topic: str, far: KafkaCluster) -> FlowSettings:
    """Its clients reach the far cluster over the relay, and driver and copier bear different names."""
    settings = flow_settings(source, target, topics=(topic,), heartbeats_replication_enabled=False)

    def named(part: object, cluster: KafkaCluster, name: str) -> object:
        servers = (far.far_bootstrap,) if cluster is far else part.client.bootstrap_servers  # type: ignore[attr-defined]
        client = replace(part.client, bootstrap_servers=servers, client_id=name)  # type: ignore[attr-defined]
        return replace(part, client=client)  # type: ignore[type-var]

    return replace(
        settings,
        consumer=named(settings.consumer, source, COPIER),
        producer=named(settings.producer, target, COPIER),
        source_admin=named(settings.source_admin, source, DRIVER),
        target_admin=named(settings.target_admin, target, DRIVER),
    )


def copied(flow: FlowWithoutSpark) -> bool:
    """Whether everything has been copied."""
    return any(part.lag == 0 and part.source_offset == 5 for part in flow.runner.view.partitions().values())


def test_a_far_source(
    far: KafkaCluster, trips: RoundTrips, target_cluster: KafkaCluster, new_name: Callable[[str], str]
) -> None:
    topic = new_name("t")
    create_topic(far, topic)
    produce(far, topic, RECORDS)
    with FlowWithoutSpark(flow(far, target_cluster, topic, far)) as running:
        planned = time.monotonic()
        wait_for(lambda: copied(running), DEADLINE_S, "all is copied")
    records = trips.first(COPIER, FETCH, more_than=RECORD_BYTES)
    # Versions and metadata of the bootstrap server, the same of the leader, then records; six when nothing is slow.
    assert len(trips.one_after_the_other(COPIER, records.answered)) <= 8
    # While Spark starts. A topic is created among it, and again with the replicas that one broker allows.
    assert len(trips.one_after_the_other(DRIVER, planned)) <= 18


def test_a_far_target(
    far: KafkaCluster, trips: RoundTrips, source_cluster: KafkaCluster, new_name: Callable[[str], str]
) -> None:
    topic = new_name("t")
    create_topic(source_cluster, topic)
    produce(source_cluster, topic, RECORDS)
    with FlowWithoutSpark(flow(source_cluster, far, topic, far)) as running:
        planned = time.monotonic()
        wait_for(lambda: copied(running), DEADLINE_S, "all is copied")
    append = trips.first(COPIER, PRODUCE, more_than=RECORD_BYTES)
    # As above, and a producer id, where the remote log ends, and the first position, which is stored before.
    assert len(trips.one_after_the_other(COPIER, append.answered)) <= 14
    assert len(trips.one_after_the_other(DRIVER, planned)) <= 36
