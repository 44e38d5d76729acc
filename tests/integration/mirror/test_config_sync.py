"""Settings of remote topics follow their source, with MirrorMaker 2's rules, and nothing is sent twice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from harness.cluster import KafkaCluster
from harness.produce import numbered, produce
from harness.topics import create_topic, delete_topic, offsets, set_topic_config, topic_config
from harness.wait import wait_for
from tests.integration.copying import flow_settings
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.topics.changes import TopicPair, compare
from twinlog.mirror.topics.configs import ConfigSync, wanted_settings
from twinlog.mirror.topology.filters import DefaultConfigPropertyFilter
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.topics import ConfigEntry as Setting
from twinlog.settings.flow import FlowSettings


class Syncing:
    """Syncs settings of a flow's topics whenever it is called."""

    def __init__(self, settings: FlowSettings) -> None:
        self._topology = topology_of(settings)
        self.source = ClusterAdmin(settings.source, settings.source_admin.client)
        self.target = ClusterAdmin(settings.target, settings.target_admin.client)
        self.source.connect()
        self.target.connect()
        self.sync = ConfigSync(settings, self.source, self.target)

    def pairs(self) -> Sequence[TopicPair]:
        return compare(self._topology, self.source.topics(), self.target.topics()).pairs

    def __call__(self) -> None:
        self.sync.run(self.pairs())

    def close(self) -> None:
        self.source.close()
        self.target.close()


@pytest.fixture
def syncing(clusters: tuple[KafkaCluster, KafkaCluster]) -> Iterator[Callable[..., Syncing]]:
    made: list[Syncing] = []

    def make(**settings: Any) -> Syncing:
        made.append(Syncing(flow_settings(*clusters, **settings)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def unset(cluster: KafkaCluster, topic: str, *names: str) -> None:
    """Remove a topic's own settings."""
    entries = [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in names]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient(cluster.client_config())
    admin.incremental_alter_configs([resource])[resource].result(60)


def has(cluster: KafkaCluster, topic: str, config: dict[str, str]) -> bool:
    """Wait until a topic has just these settings of its own: a broker learns a change from its controller."""
    try:
        return wait_for(lambda: topic_config(cluster, topic) == config, 60, topic)
    except TimeoutError:
        return topic_config(cluster, topic) == config


def both(clusters: tuple[KafkaCluster, KafkaCluster], topic: str, here: dict[str, str], there: dict[str, str]) -> None:
    create_topic(clusters[0], topic, config=here)
    create_topic(clusters[1], f"north.{topic}", config=there)


def test_settings_follow_and_the_targets_own_stay(
    clusters: tuple[KafkaCluster, KafkaCluster],
    syncing: Callable[..., Syncing],
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = clusters
    remote = f"north.{topic_name}"
    both(
        clusters,
        topic_name,
        {"cleanup.policy": "compact", "retention.ms": "1000000", "min.insync.replicas": "1"},
        {"flush.ms": "5000", "unclean.leader.election.enable": "true", "retention.ms": "1000000"},
    )
    sync = syncing(topics=(topic_name,))

    with caplog.at_level(logging.INFO, "twinlog"):
        sync()

    # What is excluded on the source is excluded on the target too; flush.ms falls back to the target's default.
    kept = {"cleanup.policy": "compact", "retention.ms": "1000000", "unclean.leader.election.enable": "true"}
    assert has(target, remote, kept)
    assert f"settings of {remote}: cleanup.policy default -> compact" in caplog.text
    assert "flush.ms 5000 -> the target's default" in caplog.text
    assert "retention.ms 1" not in caplog.text
    caplog.clear()

    with caplog.at_level(logging.INFO, "twinlog"):
        sync()
    assert caplog.text == ""

    set_topic_config(source, topic_name, {"cleanup.policy": "delete", "max.message.bytes": "2000000"})
    after = {"cleanup.policy": "delete", "max.message.bytes": "2000000"}
    assert has(source, topic_name, {**after, "retention.ms": "1000000", "min.insync.replicas": "1"})
    sync()
    assert has(target, remote, {**kept, **after})

    unset(source, topic_name, "max.message.bytes", "cleanup.policy")
    assert has(source, topic_name, {"retention.ms": "1000000", "min.insync.replicas": "1"})
    sync()
    assert has(target, remote, {"retention.ms": "1000000", "unclean.leader.election.enable": "true"})


def test_a_setting_given_up_for_the_brokers_own_goes_when_it_was_ours(
    clusters: tuple[KafkaCluster, KafkaCluster], syncing: Callable[..., Syncing], new_name: Callable[[str], str]
) -> None:
    source, target = clusters
    # retention.ms stands in the file of the test brokers, so a topic without its own has it from there.
    seen, unseen, theirs = new_name("t"), new_name("t"), new_name("t")
    both(clusters, seen, {"retention.ms": "5000000"}, {})
    both(clusters, unseen, {}, {"retention.ms": "5000000"})
    both(clusters, theirs, {"retention.ms": "5000000"}, {})
    sync = syncing(topics=(seen, unseen, theirs))
    sync()
    assert has(target, f"north.{seen}", {"retention.ms": "5000000"})
    sync()

    unset(source, seen, "retention.ms")
    unset(source, theirs, "retention.ms")
    assert has(source, seen, {})
    assert has(source, theirs, {})
    set_topic_config(target, f"north.{theirs}", {"retention.ms": "7000000"})
    assert has(target, f"north.{theirs}", {"retention.ms": "7000000"})
    sync()

    assert has(target, f"north.{seen}", {})
    assert has(target, f"north.{unseen}", {"retention.ms": "5000000"})
    assert has(target, f"north.{theirs}", {"retention.ms": "7000000"})


def test_the_sources_defaults_when_asked_for(
    clusters: tuple[KafkaCluster, KafkaCluster], syncing: Callable[..., Syncing], topic_name: str
) -> None:
    both(clusters, topic_name, {}, {"delete.retention.ms": "5", "retention.bytes": "7"})
    syncing(topics=(topic_name,), use_defaults_from="source")()
    remote = f"north.{topic_name}"
    wait_for(lambda: topic_config(clusters[1], remote)["delete.retention.ms"] == "86400000", 60, "the default is set")
    config = topic_config(clusters[1], remote)
    assert config["retention.bytes"] == "-1"
    assert "min.insync.replicas" not in config


def test_one_topic_that_cannot_be_changed_hides_no_other(
    clusters: tuple[KafkaCluster, KafkaCluster],
    syncing: Callable[..., Syncing],
    new_name: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, target = clusters
    names = good, odd, gone = new_name("t"), new_name("t"), new_name("t")
    for name in names:
        both(clusters, name, {"retention.ms": "1000", "segment.ms": "2000", "flush.ms": "3000"}, {})
    sync = syncing(topics=names)
    set_topic_config(clusters[0], odd, {"flush.ms": "3001"})
    assert has(clusters[0], odd, {"retention.ms": "1000", "segment.ms": "2000", "flush.ms": "3001"})

    def with_vendors_setting(source: Sequence[Setting], chosen: DefaultConfigPropertyFilter) -> dict[str, str | None]:
        """A source with a setting that Kafka does not know, as managed services have them."""
        settings = wanted_settings(source, chosen)
        return {"vendor.tier": "hot", **settings} if settings["flush.ms"] == "3001" else settings

    monkeypatch.setattr("twinlog.mirror.topics.configs.wanted_settings", with_vendors_setting)
    pairs = sync.pairs()
    delete_topic(target, f"north.{gone}")

    with caplog.at_level(logging.WARNING, "twinlog"):
        sync.sync.run(pairs)

    changed = {"retention.ms": "1000", "segment.ms": "2000", "flush.ms": "3000"}
    assert has(target, f"north.{good}", changed)
    assert has(target, f"north.{odd}", {**changed, "flush.ms": "3001"})
    assert caplog.text.count("vendor.tier") == 2
    assert f"the target refuses vendor.tier of north.{odd}, which is left out from now on" in caplog.text
    assert gone not in caplog.text
    caplog.clear()

    with caplog.at_level(logging.INFO, "twinlog"):
        sync()
    assert caplog.text == ""


@pytest.mark.parametrize("mode", ["never", "requested"])
def test_whole_sets_of_settings_where_single_changes_are_unknown(
    clusters: tuple[KafkaCluster, KafkaCluster],
    syncing: Callable[..., Syncing],
    topic_name: str,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both(clusters, topic_name, {"retention.ms": "1000"}, {"flush.ms": "5000", "min.insync.replicas": "1"})
    sync = syncing(topics=(topic_name,), alter_configs=mode)
    if mode == "requested":
        monkeypatch.setattr("twinlog.mirror.topics.configs.supports_incremental_alter", lambda _: False)
    sync()
    assert has(clusters[1], f"north.{topic_name}", {"retention.ms": "1000", "min.insync.replicas": "1"})


def test_single_changes_can_be_required(
    clusters: tuple[KafkaCluster, KafkaCluster],
    syncing: Callable[..., Syncing],
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both(clusters, topic_name, {"retention.ms": "1000"}, {"flush.ms": "5000"})
    monkeypatch.setattr("twinlog.mirror.topics.configs.supports_incremental_alter", lambda _: False)
    with pytest.raises(ClusterError, match="KIP-339"):
        syncing(topics=(topic_name,), alter_configs="required")()
    assert has(clusters[1], f"north.{topic_name}", {"flush.ms": "5000"})


def test_records_as_large_as_the_source_takes_since_a_moment_are_copied(
    clusters: tuple[KafkaCluster, KafkaCluster], topic_name: str
) -> None:
    source, target = clusters
    both(clusters, topic_name, {"max.message.bytes": "50000"}, {"max.message.bytes": "50000"})
    produce(source, topic_name, numbered(1))
    settings = flow_settings(
        *clusters, topics=(topic_name,), sync_topic_configs_interval_s=600.0, emit_heartbeats_interval_s=None
    )
    with FlowWithoutSpark(settings) as flow:
        wait_for(lambda: offsets(target, f"north.{topic_name}")[1] == 1, 60, "the first record is copied")
        set_topic_config(source, topic_name, {"max.message.bytes": "4000000"})
        produce(source, topic_name, numbered(1, size=400_000))
        wait_for(lambda: offsets(target, f"north.{topic_name}")[1] == 2, 60, "the large record is copied")
        assert flow.runner.reason is None
    assert has(target, f"north.{topic_name}", {"max.message.bytes": "4000000"})
