"""A copier crashes again and again, and the next one goes on behind what arrived: nothing lost, nothing twice."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator

import pytest

from harness.checker import Load, require_clean
from harness.cluster import KafkaCluster
from harness.produce import Codec
from harness.topics import offsets
from tests.integration.copying import CopyFlow

log = logging.getLogger(__name__)

PARTITIONS = 4


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> Iterator[CopyFlow]:
    flow = CopyFlow(source_cluster, target_cluster)
    yield flow
    flow.close()


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_copier_crashes_again_and_again(flow: CopyFlow, topic_name: str, codec: Codec) -> None:
    seed = random.SystemRandom().randrange(10_000)
    log.warning("seed %d", seed)
    moments = random.Random(seed)
    remote = flow.create(topic_name, PARTITIONS)
    behind = 0
    with Load(flow.source, topic_name, PARTITIONS, rate=4000, codec=codec):
        for _ in range(12):
            running = flow.start(topic_name, position_interval_ms=1000)
            time.sleep(moments.uniform(0.05, 0.7))
            assert running.heard.failures == []
            running.crash()
            for number in range(PARTITIONS):
                stored = flow.stored(topic_name, number)
                assert stored is not None
                behind += offsets(flow.target, remote, number)[1] - (stored.next_target or 0)
    running = flow.copy(topic_name)
    assert running.heard.events == []
    assert behind > 0
    log.warning("%d records resumed behind", behind)
    require_clean(flow.source, topic_name, flow.target, remote)
