"""A copier crashes again and again, and the next one goes on after what arrived: nothing lost, nothing twice."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from harness.checks.checker import Load, require_clean
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import Codec, numbered, produce
from harness.topics import create_topic, offsets
from harness.wait import wait_for
from tests.integration.copying import POSITION_PARTITIONS, SOURCE, CopyFlow, flow_settings
from tests.integration.segments import stored_batches
from twinlog.copier.start.first_look import LogsAtRest
from twinlog.mirror.offsets.segments import segments_topic
from twinlog.model.types import TopicPartition

log = logging.getLogger(__name__)

PARTITIONS = 4


@pytest.mark.parametrize("codec", [pytest.param("none", marks=pytest.mark.scenario), "lz4"])
def test_a_copier_crashes_again_and_again(
    copy_flow: CopyFlow, topic_name: str, codec: Codec, chance: random.Random
) -> None:
    remote = copy_flow.create(topic_name, PARTITIONS)
    behind = 0
    with Load(copy_flow.source, topic_name, PARTITIONS, rate=4000, codec=codec):
        for _ in range(8):
            running = copy_flow.start(topic_name, position_interval_ms=1000)
            time.sleep(chance.uniform(0.05, 0.7))
            assert running.heard.failures == []
            running.crash()
            for number in range(PARTITIONS):
                stored = copy_flow.stored(topic_name, number)
                assert stored is not None
                behind += offsets(copy_flow.target, remote, number)[1] - (stored.next_target or 0)
    running = copy_flow.copy(topic_name)
    assert running.heard.events == []
    assert behind > 0
    log.warning("%d records resumed after", behind)
    require_clean(copy_flow.source, topic_name, copy_flow.target, remote)


class Pair(KafkaCluster):
    """Two nodes: without node 2 there is no quorum, so nobody takes it out of the in-sync replicas."""

    def __init__(self) -> None:
        super().__init__("pair", 2, sasl=False, heap="256m")

    @property
    def bootstrap(self) -> str:
        """Clients begin at node 1, which stays."""
        return f"127.0.0.1:{self.brokers[1].ports.plaintext}"


@pytest.fixture
def pair() -> Iterator[Pair]:
    cluster = Pair()
    with cluster:
        yield cluster


def test_what_the_target_has_not_replicated_yet_is_waited_for(
    source_cluster: KafkaCluster, pair: Pair, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The crashed copier's last appends are in the leader's log; no consumer sees them before the follower is back."""
    place_topic(pair, flow_settings(source_cluster, pair).positions_topic, [[1]] * POSITION_PARTITIONS)
    place_topic(pair, segments_topic(SOURCE), [[1]])
    remote = place_topic(pair, f"north.{topic_name}", [[1, 2]])
    create_topic(source_cluster, topic_name)
    flow = CopyFlow(source_cluster, pair)
    with closing(flow):
        produce(source_cluster, topic_name, numbered(100))
        flow.copy(topic_name)
        running = flow.start(topic_name)
        pair.kill(2)
        produce(source_cluster, topic_name, numbered(50, start=100))
        wait_for(lambda: log_end(pair, remote) == 150, 240, "the leader has all")
        assert running.position(topic_name).next_source == 100
        running.crash()

        begun = threading.Event()
        looks: list[object] = []
        ends = LogsAtRest.find_ends

        async def looked(here: LogsAtRest, remotes: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
            looks.append(remotes)
            return await ends(here, remotes)

        monkeypatch.setattr(LogsAtRest, "find_ends", looked)

        def follow() -> None:
            # The limit is given, as the test's own client would wait for the dead broker to name it.
            flow.start(topic_name, max_batch_bytes=1_000_000)
            begun.set()

        following = threading.Thread(target=follow, daemon=True)
        following.start()
        produce(source_cluster, topic_name, numbered(10, start=150))
        wait_for(lambda: len(looks) > 3, 60, "the end of the remote log was looked at three times")
        assert not begun.is_set()
        assert log_end(pair, remote) == 150
        pair.restart(2)
        following.join(60)
        wait_for(lambda: log_end(pair, remote) == 160, 60, "the rest is copied")
    assert [int(record.value or b"") for record in consume(pair, remote)] == list(range(160))


def place_topic(cluster: KafkaCluster, topic: str, replicas: list[list[int]]) -> str:
    """Create a topic with its replicas on these nodes, the leader first."""
    admin = AdminClient(cluster.client_config())
    new = NewTopic(topic, len(replicas), replica_assignment=replicas)
    admin.create_topics([new], operation_timeout=30)[topic].result(60)
    wait_for(lambda: len(admin.list_topics(topic, timeout=60).topics[topic].partitions) == len(replicas), 60, topic)
    return topic


def log_end(cluster: KafkaCluster, topic: str) -> int:
    """The next offset of the leader's own log, from its segment files."""
    batches = stored_batches(cluster, topic)
    return batches[-1].last_offset + 1 if batches else 0
