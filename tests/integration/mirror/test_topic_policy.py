"""A target whose policy for new topics (KIP-108) does not allow every setting of the source's topics."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster import KafkaCluster
from harness.jvm.plugin import plugin_jar
from harness.topics import create_topic, topic_config, topics
from tests.integration.copying import flow_settings
from tests.integration.flows.mirroring import mirror_topics

POLICY = Path(__file__).parents[1] / "java" / "PickyPolicy.java"


@pytest.fixture(scope="module")
def picky() -> Iterator[KafkaCluster]:
    jar, config = plugin_jar(POLICY), {"create.topic.policy.class.name": POLICY.stem}
    with KafkaCluster("picky", sasl=False, heap="384m", config=config, plugins=[jar]) as cluster:
        yield cluster


def test_a_topic_is_created_without_the_settings_that_a_policy_refuses(
    clusters: tuple[KafkaCluster, KafkaCluster], picky: KafkaCluster, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    source, _ = clusters

    def remote(name: str) -> str:
        return f"north.{topic_name}-{name}"

    kept = {"retention.ms": "123456789", "cleanup.policy": "compact,delete"}
    create_topic(source, f"{topic_name}-named", 2, config={**kept, "segment.ms": "60000"})
    create_topic(source, f"{topic_name}-unnamed", config={**kept, "retention.bytes": "1000000"})
    create_topic(source, f"{topic_name}-both", config={**kept, "segment.ms": "60000", "retention.bytes": "1000000"})
    create_topic(source, f"private-{topic_name}", config={**kept, "segment.ms": "60000"})
    with caplog.at_level(logging.INFO, "twinlog"):
        refused = mirror_topics(
            flow_settings(source, picky, topics=(f".*{topic_name}.*",), heartbeats_replication_enabled=False)
        )
    assert {name: refusal.text for name, refusal in refused.items()} == {
        f"north.private-{topic_name}": "Names of private topics are not allowed."
    }
    found = {name: count for name, count in topics(picky).items() if topic_name in name}
    assert found == {remote("both"): 1, remote("named"): 2, remote("unnamed"): 1}
    assert [topic_config(picky, name) for name in found] == [kept] * 3
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [
        f"TW-TOPIC-14: north->south: cluster south refuses {setting} of {both}; created without"
        for setting, both in (
            ("segment.ms", f"{remote('both')}, {remote('named')} (Topic config 'segment.ms' is not allowed here.)"),
            ("retention.bytes", f"{remote('both')}, {remote('unnamed')} (Not allowed, see the rules of this cluster.)"),
        )
    ]
