"""Quotas: a broker that throttles a copier slows it down, and nothing else."""

from __future__ import annotations

import logging

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.quotas import Rate, quota
from tests.integration.copying import CopyFlow
from tests.integration.records import seen


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_throttled_flow_copies_everything_once(
    copy_flow: CopyFlow, topic_name: str, side: str, caplog: pytest.LogCaptureFixture
) -> None:
    remote = copy_flow.create(topic_name, 2)
    for partition in range(2):
        produce(copy_flow.source, topic_name, numbered(250, size=10_000), partition=partition, per_batch=10)
    limits: dict[str, tuple[KafkaCluster, str, Rate]] = {
        "source": (copy_flow.source, "twinlog-test-consumer", "consumer_byte_rate"),
        "target": (copy_flow.target, "twinlog-test-producer", "producer_byte_rate"),
    }

    # These brokers look at the mean of two seconds: of 5 MB at once 3 are too many, on a busy machine, too.
    with quota(*limits[side], 1_000_000), caplog.at_level(logging.WARNING, "kafka"):
        running = copy_flow.start(topic_name, consumer={"max_partition_fetch_bytes": 300_000})
        copy_flow.wait_until_caught_up(running, topic_name)

    assert "throttled by broker" in caplog.text
    assert running.heard.events == []
    assert seen(consume(copy_flow.target, remote)) == seen(consume(copy_flow.source, topic_name))
