"""Remote topics: which are created, under which name, with how many partitions and which settings."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.topics import add_partitions, create_topic, topic_config, topics
from tests.integration.copying import flow_settings
from tests.integration.flows.mirroring import mirror_topics
from twinlog.model.topics import Refusal
from twinlog.model.types import TopicName


@pytest.fixture
def mirror(clusters: tuple[KafkaCluster, KafkaCluster]) -> Callable[..., dict[TopicName, Refusal]]:
    """Mirrors once; takes settings of the flow."""
    return lambda **settings: mirror_topics(flow_settings(*clusters, **settings))


@pytest.fixture
def prefix(new_name: Callable[[str], str]) -> str:
    """A piece of a name that only this test's topics have."""
    return new_name("p")


def remote_topics(cluster: KafkaCluster, piece: str) -> dict[str, int]:
    """The target's topics whose name has a piece, with their partition counts."""
    return {name: count for name, count in topics(cluster).items() if piece in name}


def test_partitions_and_settings_come_from_the_source(
    clusters: tuple[KafkaCluster, KafkaCluster], mirror: Callable[..., object], topic_name: str
) -> None:
    source, target = clusters
    carried = {
        "retention.ms": "123456789",
        "cleanup.policy": "compact,delete",
        "max.message.bytes": "2000000",
        "compression.type": "producer",
        "segment.bytes": "10000000",
    }
    left = {
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "true",
        "message.timestamp.type": "LogAppendTime",
        "message.timestamp.before.max.ms": "86400000",
        "follower.replication.throttled.replicas": "*",
        "leader.replication.throttled.replicas": "*",
    }
    create_topic(source, topic_name, 7, config={**carried, **left})
    assert topic_config(source, topic_name) == {**carried, **left}

    assert mirror(topics=(topic_name,)) == {}

    assert remote_topics(target, topic_name) == {f"north.{topic_name}": 7}
    # Only the names in the list are left out, and `message.timestamp.before.max.ms` is none of them.
    assert topic_config(target, f"north.{topic_name}") == {**carried, "message.timestamp.before.max.ms": "86400000"}


def test_the_users_own_list_of_settings_is_left_out(
    clusters: tuple[KafkaCluster, KafkaCluster], mirror: Callable[..., object], topic_name: str
) -> None:
    source, target = clusters
    config = {"retention.ms": "1000000", "retention.bytes": "1000000", "min.insync.replicas": "1"}
    create_topic(source, topic_name, config=config)
    mirror(topics=(topic_name,), config_properties_exclude=(r"retention\..*",))
    assert topic_config(target, f"north.{topic_name}") == {"min.insync.replicas": "1"}


def test_the_sources_defaults_are_carried_over_when_asked_for(
    clusters: tuple[KafkaCluster, KafkaCluster], mirror: Callable[..., object], topic_name: str
) -> None:
    source, target = clusters
    create_topic(source, topic_name)
    mirror(topics=(topic_name,), use_defaults_from="source")
    config = topic_config(target, f"north.{topic_name}")
    assert config["delete.retention.ms"] == "86400000"
    assert "min.insync.replicas" not in config


def test_too_many_replicas_become_the_brokers_default(
    clusters: tuple[KafkaCluster, KafkaCluster],
    mirror: Callable[..., object],
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = clusters
    create_topic(source, topic_name, 2)
    with caplog.at_level(logging.WARNING, "twinlog"):
        assert mirror(topics=(topic_name,), replication_factor=3) == {}
    assert remote_topics(target, topic_name) == {f"north.{topic_name}": 2}
    assert "replication factor 3" in caplog.text


def test_expressions_match_whole_names_and_exclude_wins(
    clusters: tuple[KafkaCluster, KafkaCluster], mirror: Callable[..., object], prefix: str
) -> None:
    source, target = clusters
    for name in ("orders", "orders2", "my-orders", "pay.in", "pay.out", "payXin", "pay.in.replica"):
        create_topic(source, f"{prefix}-{name}")

    mirror(
        topics=(f"{prefix}-orders", rf"{prefix}-pay\..*"),
        topics_exclude=(rf"{prefix}-.*\.out", r".*\.replica"),
    )

    assert remote_topics(target, prefix) == {f"north.{prefix}-orders": 1, f"north.{prefix}-pay.in": 1}


def test_internal_and_returning_topics_are_never_mirrored(
    clusters: tuple[KafkaCluster, KafkaCluster], mirror: Callable[..., object], prefix: str
) -> None:
    source, target = clusters
    for name in (
        f"__{prefix}",
        f".{prefix}",
        f"mm2-offset-syncs.{prefix}.internal",
        f"mm2-offsets.{prefix}.internal",
        f"{prefix}.checkpoints.internal",
        f"mm2-twinlog-{prefix}",
        f"south.{prefix}",
        f"south.east.{prefix}",
        f"east.south.{prefix}",
        f"north.{prefix}",
        f"east.{prefix}",
        prefix,
    ):
        create_topic(source, name)

    mirror(topics=(".*",), topics_exclude=(rf"(?!.*{prefix}).*",), heartbeats_replication_enabled=False)

    assert remote_topics(target, prefix) == {f"north.east.{prefix}": 1, f"north.{prefix}": 1}


@pytest.mark.parametrize(
    ("settings", "remote"),
    [({}, "north.{}"), ({"separator": "_from_"}, "north_from_{}"), ({"policy": "identity"}, "{}")],
)
def test_names_follow_the_policy(
    clusters: tuple[KafkaCluster, KafkaCluster],
    mirror: Callable[..., object],
    topic_name: str,
    settings: dict[str, Any],
    remote: str,
) -> None:
    source, target = clusters
    create_topic(source, topic_name, 2)
    mirror(topics=(topic_name,), **settings)
    assert remote_topics(target, topic_name) == {remote.format(topic_name): 2}


def test_remote_topics_grow_with_their_source_and_never_shrink(
    clusters: tuple[KafkaCluster, KafkaCluster], mirror: Callable[..., object], topic_name: str
) -> None:
    source, target = clusters
    create_topic(source, f"{topic_name}-grows", 2)
    create_topic(source, f"{topic_name}-small", 2)
    create_topic(target, f"north.{topic_name}-small", 5)
    mirror(topics=(f"{topic_name}-.*",))
    add_partitions(source, f"{topic_name}-grows", 4)

    assert mirror(topics=(f"{topic_name}-.*",)) == {}

    assert remote_topics(target, topic_name) == {f"north.{topic_name}-grows": 4, f"north.{topic_name}-small": 5}
