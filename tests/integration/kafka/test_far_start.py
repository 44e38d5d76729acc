"""How often a start waits for a cluster that is far away: each question that waits for another's answer costs a way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from harness.cluster import FAR, RELAY, KafkaCluster
from harness.produce import NewRecord, produce
from harness.topics import create_topic
from harness.traffic.relay import Distance
from harness.traffic.round_trips import FETCH, PRODUCE, RoundTrips
from harness.wait import wait_for
from tests.integration.copying import DEADLINE_S, flow_settings
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.settings.flow import FlowSettings

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
        # A broker that has no producer ids yet has to be asked again.
        create_topic(cluster, "warm")
        produce(cluster, "warm", RECORDS, idempotent=True)
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

    def named(part: Any, cluster: KafkaCluster, name: str) -> Any:
        servers = (far.far_bootstrap,) if cluster is far else part.client.bootstrap_servers
        client = replace(part.client, bootstrap_servers=servers, client_id=name)
        return replace(part, client=client)

    return replace(
        settings,
        consumer=named(settings.consumer, source, COPIER),
        producer=named(settings.producer, target, COPIER),
        source_admin=named(settings.source_admin, source, DRIVER),
        target_admin=named(settings.target_admin, target, DRIVER),
    )


def copied(flow: FlowWithoutSpark) -> bool:
    """Whether everything has been copied."""
    return any(part.lag == 0 and part.source_offset == 5 for part in flow.runner.flow_status.partitions().values())


@dataclass(frozen=True, slots=True)
class Start:
    """How often copier and driver may wait for the far cluster before the copier's `first` exchange with a record."""

    first: int
    copier: int
    driver: int


@pytest.mark.parametrize(
    ("far_side", "most"),
    [
        # The copier asks for versions and metadata of the bootstrap server, for the same of the leader, then for
        # records; six when nothing is slow. The driver creates a topic, and again with the replicas that one broker
        # allows, while Spark starts.
        pytest.param("source", Start(FETCH, copier=8, driver=18), id="source"),
        # Also for a producer id and where the remote log ends, and the first position is stored before.
        pytest.param("target", Start(PRODUCE, copier=13, driver=36), id="target"),
    ],
)
def test_a_start_asks_a_far_cluster_few_questions_one_after_the_other(
    far: KafkaCluster,
    trips: RoundTrips,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    new_name: Callable[[str], str],
    far_side: str,
    most: Start,
) -> None:
    source, target = (far, target_cluster) if far_side == "source" else (source_cluster, far)
    topic = new_name("t")
    create_topic(source, topic)
    produce(source, topic, RECORDS)
    with FlowWithoutSpark(flow(source, target, topic, far)) as running:
        planned = time.monotonic()
        wait_for(lambda: copied(running), DEADLINE_S, "all is copied")
    records = trips.first(COPIER, most.first, more_than=RECORD_BYTES)
    assert len(trips.one_after_the_other(COPIER, records.answered)) <= most.copier
    assert len(trips.one_after_the_other(DRIVER, planned)) <= most.driver
