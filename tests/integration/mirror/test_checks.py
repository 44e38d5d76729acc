"""What a flow finds on its clusters and must not take for granted; it logs that and changes nothing there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, delete_topic, topic_config, topics
from harness.wait import wait_for
from tests.connected_admins import plain_login
from tests.integration.copying import flow_settings
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.mirror.topics.checks import check_internal_topics, check_one_cluster, check_two_clusters
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings
from twinlog.settings.flow import FlowSettings, PolicyName
from twinlog.worker.topics.topic_refresh import TopicRefresh

Clusters = tuple[KafkaCluster, KafkaCluster]


class Opened:
    """The two sides of a flow."""

    def __init__(self, settings: FlowSettings) -> None:
        self.settings = settings
        self.source = ClusterAdmin(settings.source, settings.source_admin.client)
        self.target = ClusterAdmin(settings.target, settings.target_admin.client)
        self.source.connect()
        self.target.connect()
        self._topics: list[TopicRefresh] = []

    def topics(self, *flows: FlowSettings) -> TopicRefresh:
        """What the flow mirrors next to other flows of a file."""
        positions = PositionStore(self.settings, self.target)
        found = TopicRefresh(self.settings, flows, self.source, self.target, positions)
        self._topics.append(found)
        found.create_internal_topics()

        def refreshed() -> bool:
            try:
                found.refresh()
            except RefusedError:
                raise
            except ClusterError:
                # A topic that was just created may have no leader yet; a flow tries again, too.
                return False
            return True

        wait_for(refreshed, 60, "both clusters list their topics")
        return found

    def close(self) -> None:
        for found in self._topics:
            found.close()
        self.source.close()
        self.target.close()


@pytest.fixture
def opened() -> Iterator[Callable[[FlowSettings], Opened]]:
    made: list[Opened] = []

    def open_both(settings: FlowSettings) -> Opened:
        made.append(Opened(settings))
        return made[-1]

    yield open_both
    for one in made:
        one.close()


def own_aliases(settings: FlowSettings, new_name: Callable[[str], str], policy: PolicyName = "default") -> FlowSettings:
    """The same flow under aliases, and so with internal topics, that no other test has; no heartbeats of others."""
    return replace(
        settings,
        source=Alias(new_name("a")),
        target=Alias(new_name("b")),
        policy=policy,
        emit_heartbeats_interval_s=None,
        heartbeats_replication_enabled=False,
    )


# -- internal topics


def test_positions_that_would_be_deleted_stop_a_flow(clusters: Clusters, new_name: Callable[[str], str]) -> None:
    source, target = clusters
    topic = new_name("t")
    create_topic(source, topic)
    settings = own_aliases(flow_settings(*clusters, topics=(topic,)), new_name)
    create_topic(target, settings.positions_topic, 3, config={"cleanup.policy": "compact,delete"})
    before = topics(target)

    with FlowWithoutSpark(settings) as flow:
        wait_for(lambda: flow.runner.ended, 60, "the flow has failed")
        reason = flow.runner.reason or ""

    for part in (
        f"cluster {settings.target}: topic {settings.positions_topic} has cleanup.policy=compact,delete",
        "everything would be copied again",
        f"kafka-configs.sh --bootstrap-server {target.bootstrap} --alter --entity-type topics",
        f"--entity-name {settings.positions_topic} --add-config cleanup.policy=compact",
    ):
        assert part in reason
    assert topics(target) == before
    assert topic_config(target, settings.positions_topic) == {"cleanup.policy": "compact,delete"}


def test_other_internal_topics_are_warned_of(
    clusters: Clusters,
    opened: Callable[[FlowSettings], Opened],
    new_name: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = clusters
    settings = own_aliases(flow_settings(*clusters), new_name)
    here = {settings.offset_syncs_topic: source, f"{settings.source}.checkpoints.internal": target}
    both = opened(settings)
    with caplog.at_level(logging.WARNING, "twinlog"):
        check_internal_topics(settings, both.source, both.target)
    assert caplog.text == ""

    for name, cluster in here.items():
        create_topic(cluster, name)
    with caplog.at_level(logging.WARNING, "twinlog"):
        check_internal_topics(settings, both.source, both.target)

    for name, cluster in here.items():
        assert f"topic {name} has cleanup.policy=delete and must have compact" in caplog.text
        assert topic_config(cluster, name) == {}


# -- one cluster under two names


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (
            {"policy": "identity"},
            "replication.policy.class keeps names, so that each topic would be copied onto itself",
        ),
        ({"separator": "o"}, "the flow takes its own copies for originals"),
    ],
)
def test_one_cluster_under_two_aliases_is_refused_where_copies_are_not_recognised(
    clusters: Clusters, how: dict[str, Any], why: str
) -> None:
    source, _ = clusters
    before = topics(source)
    with FlowWithoutSpark(flow_settings(source, source, emit_heartbeats_interval_s=None, **how)) as flow:
        wait_for(lambda: flow.runner.ended, 60, "the flow has failed")
        reason = flow.runner.reason or ""
    assert f"north and south are the same cluster (id {source.cluster_id}, broker {source.bootstrap})" in reason
    assert why in reason
    assert topics(source) == before


def test_two_listeners_of_one_cluster_are_warned_of(
    clusters: Clusters, opened: Callable[[FlowSettings], Opened], caplog: pytest.LogCaptureFixture
) -> None:
    source, _ = clusters
    login = plain_login(source, "admin")
    settings = flow_settings(source, source, target_admin=AdminSettings(login), policy="identity")
    both = opened(settings)
    assert not check_two_clusters(settings, topology_of(settings), both.source, both.target)
    assert f"both clusters have the id {source.cluster_id}" in caplog.text


@pytest.mark.parametrize("side", ["source", "target"])
def test_records_of_another_cluster_than_the_one_looked_at_are_refused(
    clusters: Clusters, opened: Callable[[FlowSettings], Opened], side: str
) -> None:
    settings = flow_settings(*clusters)
    here, there = settings.consumer.client, settings.producer.client
    wrong = settings
    if side == "source":
        wrong = replace(settings, consumer=replace(settings.consumer, client=there))
    else:
        wrong = replace(settings, producer=replace(settings.producer, client=here))
    both = opened(settings)
    check_one_cluster(settings, both.source, both.target)
    with pytest.raises(RefusedError) as refused:
        check_one_cluster(wrong, both.source, both.target)
    for one in clusters:
        assert f"(cluster id {one.cluster_id})" in str(refused.value)


# -- flows in each other's way


def test_a_topic_that_would_go_round_in_a_cycle_is_left_out(
    clusters: Clusters,
    opened: Callable[[FlowSettings], Opened],
    new_name: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = clusters
    both_ways, one_way = new_name("t"), new_name("t")
    create_topic(source, both_ways)
    create_topic(source, one_way)
    there = own_aliases(flow_settings(*clusters, topics=(both_ways, one_way)), new_name, "identity")
    back = replace(
        flow_settings(target, source, topics=(both_ways,), policy="identity", heartbeats_replication_enabled=False),
        source=there.target,
        target=there.source,
    )

    found = opened(there).topics(there, back)

    assert [pair.source.name for pair in found.pairs] == [one_way]
    assert both_ways not in topics(target)
    assert f"{there.name}: not mirrored: {both_ways}: the flows {there.name}, {back.name} would copy it" in caplog.text
    with pytest.raises(RefusedError, match="in a cycle"):
        found.require_all()
    # Both flows leave it out: nobody knows where it began.
    create_topic(target, both_ways)
    assert opened(back).topics(there, back).pairs == ()


def test_of_two_flows_into_one_topic_one_writes_in_either_order_of_start(
    clusters: Clusters,
    opened: Callable[[FlowSettings], Opened],
    new_name: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = clusters
    topic = new_name("t")
    create_topic(source, topic)
    first = own_aliases(flow_settings(*clusters, topics=(topic,)), new_name, "identity")
    second = replace(first, source=Alias(new_name("a")))

    later = opened(second).topics(first, second)
    sooner = opened(first).topics(first, second)

    assert later.pairs == ()
    assert [pair.remote for pair in sooner.pairs] == [topic]
    assert f"{first.name} copies it to the same topic {topic} of {first.target}, and each record" in caplog.text

    # Whoever has copied it goes on, wherever it stands in the file.
    stored = encode_position(second.source, TopicPartition(TopicName(topic), 0), Position(5, 5))
    produce(target, second.positions_topic, [NewRecord(stored.value, stored.key)])
    assert [pair.remote for pair in opened(second).topics(first, second).pairs] == [topic]
    assert opened(first).topics(first, second).pairs == ()


def test_a_conflicting_flow_of_another_file_is_found_by_its_positions(
    clusters: Clusters,
    opened: Callable[[FlowSettings], Opened],
    new_name: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = clusters
    monkeypatch.setattr("twinlog.worker.topics.topic_conflicts.FIRST_LOOK_S", 0.2)
    topic, other = new_name("t"), new_name("t")
    for name in (topic, other):
        create_topic(source, name)
    mine = own_aliases(flow_settings(*clusters, topics=(topic, other)), new_name, "identity")
    gone = replace(mine, source=Alias(new_name("a")), source_admin=AdminSettings(ClientSettings(("127.0.0.1:1",))))
    create_topic(target, gone.positions_topic, config={"cleanup.policy": "compact"})
    stored = encode_position(gone.source, TopicPartition(TopicName(topic), 0), Position(5, 5))
    produce(target, gone.positions_topic, [NewRecord(stored.value, stored.key)])

    assert [pair.remote for pair in opened(mine).topics(mine, gone).pairs] == [other]


# -- sources that go


def test_heartbeats_do_not_hide_that_no_topic_is_chosen(
    clusters: Clusters,
    opened: Callable[[FlowSettings], Opened],
    new_name: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
) -> None:
    source, _ = clusters
    beats = f"{new_name('a')}.heartbeats"
    create_topic(source, beats)
    # Every flow of later tests would copy this topic, too.
    request.addfinalizer(lambda: delete_topic(source, beats))
    create_topic(source, new_name("t"))
    chosen = own_aliases(flow_settings(*clusters, topics=("no-such-topic",)), new_name)

    assert opened(chosen).topics(chosen).pairs == ()
    mirroring = replace(own_aliases(chosen, new_name), heartbeats_replication_enabled=True)
    assert beats in [pair.source.name for pair in opened(mirroring).topics(mirroring).pairs]
    for flow in (chosen, mirroring):
        assert f"{flow.name}: no topic of {flow.source} is mirrored, of " in caplog.text


def test_nothing_on_the_target_goes_with_its_source(
    clusters: Clusters, new_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    """A topic that is deleted, and one that comes back smaller: what was copied stays as it was."""
    source, target = clusters
    deleted, smaller, kept = new_name("t"), new_name("t"), new_name("t")
    for name in (deleted, smaller, kept):
        create_topic(source, name, 3)
        for partition in range(3):
            produce(source, name, numbered(5), partition=partition)
    settings = own_aliases(
        flow_settings(
            *clusters,
            topics=(deleted, smaller, kept),
            refresh_topics_interval_s=0.2,
            sync_topic_configs_interval_s=0.2,
            gap_policy="continue",
        ),
        new_name,
    )

    def copied(name: str, counts: Mapping[int, int]) -> bool:
        remote = f"{settings.source}.{name}"
        if remote not in topics(target):
            return False
        parts = [one.partition for one in consume(target, remote)]
        return {part: parts.count(part) for part in set(parts)} == counts

    with FlowWithoutSpark(settings) as flow:
        for name in (deleted, smaller, kept):
            wait_for(partial(copied, name, dict.fromkeys(range(3), 5)), 60, f"{name} is copied")
        delete_topic(source, deleted)
        delete_topic(source, smaller)
        create_topic(source, smaller, 1)
        produce(source, smaller, numbered(2, start=100))
        wait_for(lambda: copied(smaller, {0: 7, 1: 5, 2: 5}), 60, "the new life of the topic is copied")
        produce(source, kept, numbered(1, start=100))
        wait_for(lambda: copied(kept, {0: 6, 1: 5, 2: 5}), 60, "the others go on")
        assert not flow.runner.ended, flow.runner.reason
    # The other one too, if it was looked for between its two lives.
    gone = [message for message in caplog.messages if "gone from" in message]
    assert any(deleted in message and "what was copied stays" in message for message in gone)
    assert copied(deleted, dict.fromkeys(range(3), 5))
    assert topics(target)[f"{settings.source}.{smaller}"] == 3
    assert topics(target)[f"{settings.source}.{deleted}"] == 3
