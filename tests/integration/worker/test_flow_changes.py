"""A flow continues with other settings: what its driver does with them, on real clusters and without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.cluster import KafkaCluster
from harness.groups import commit_offsets, group_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets, set_topic_config, topic_config, topics
from harness.wait import wait_for
from tests.integration.copying import flow_settings
from tests.integration.flows.arriving import end_of
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.model.types import Alias
from twinlog.settings.flow import FlowSettings

SOON_S = 60.0


def continue_with(flow: FlowWithoutSpark, **others: object) -> None:
    """Have it take other settings over."""
    settings: FlowSettings = replace(flow.runner.settings, **others)  # type: ignore[arg-type]
    flow.runner.changes.request_change(settings, (settings,))
    wait_for(lambda: not flow.runner.changes.pending, SOON_S, "it has its new settings")
    assert flow.runner.settings == settings


def test_topics_come_and_go_with_the_filter_in_the_same_copier(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str]
) -> None:
    source, target = clusters
    alias = new_name("s")
    kept, other = (create_topic(source, new_name("t")) for _ in range(2))
    settings = replace(flow_settings(source, target), source=Alias(alias), topics=(kept,))
    settings = replace(settings, refresh_topics_interval_s=None, heartbeats_replication_enabled=False)

    def copied(topic: str, count: int) -> None:
        wait_for(lambda: end_of(target, f"{alias}.{topic}", 0) == count, SOON_S, f"{topic} has {count} records")

    for topic in (kept, other):
        produce(source, topic, numbered(5))
    with FlowWithoutSpark(settings) as flow:
        copied(kept, 5)
        assert f"{alias}.{other}" not in topics(target)
        continue_with(flow, topics=(kept, other))
        copied(other, 5)
        continue_with(flow, topics=(kept,))
        assert {part.topic for part in flow.runner.copied} == {kept}
        wait_for(
            lambda: {part.topic for one in flow.runner.leases._ledger.sessions for part in one.held} == {kept},
            SOON_S,
            "the other topic is released",
        )
        for topic in (kept, other):
            produce(source, topic, numbered(5, start=5))
        copied(kept, 10)
        assert end_of(target, f"{alias}.{other}", 0) == 5
        # From its stored position on.
        continue_with(flow, topics=(kept, other))
        copied(other, 10)
        # New topics are looked for from now on.
        later = create_topic(source, new_name("t"))
        produce(source, later, numbered(3))
        continue_with(flow, topics=(kept, later), refresh_topics_interval_s=0.2)
        copied(later, 3)
        assert (flow.runner.leases.lease, flow.workers[0].copier_threads) == (1, 1)
        assert offsets(target, f"{alias}.{kept}", 0)[1] == 10


def test_groups_settings_and_heartbeats_follow_what_the_file_says_by_now(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str]
) -> None:
    source, target = clusters
    alias, shop, till = new_name("s"), new_name("shop"), new_name("till")
    topic = create_topic(source, new_name("t"), config={"retention.ms": "1000000", "segment.ms": "900000"})
    produce(source, topic, numbered(10))
    commit_offsets(source, {shop: {(topic, 0): 4}, till: {(topic, 0): 6}})
    settings = replace(
        flow_settings(source, target),
        source=Alias(alias),
        topics=(topic,),
        groups=(f"{new_name('nobody')}.*",),
        config_properties_exclude=("retention.ms", "min.insync.replicas"),
        sync_topic_acls_interval_s=None,
        emit_heartbeats_interval_s=None,
        emit_checkpoints_interval_s=0.2,
        refresh_groups_interval_s=0.2,
    )
    remote = f"{alias}.{topic}"

    def moved(group: str) -> int | None:
        """The offset of the group on the target, None where it has none there."""
        found = group_offsets(target, [group])[group].get((remote, 0))
        return None if found is None else found.offset

    def beats() -> int:
        return end_of(target, "heartbeats", 0)

    with FlowWithoutSpark(settings) as flow:
        wait_for(lambda: end_of(target, remote, 0) == 10, SOON_S, "it is copied")
        assert topic_config(target, remote) == {"segment.ms": "900000"}
        # It commits nothing, for no group.
        continue_with(flow, groups=(shop,), sync_group_offsets_interval_s=0.2)
        wait_for(lambda: moved(shop) == 4, SOON_S, "the group is there")
        assert moved(till) is None
        continue_with(flow, groups=(till,))
        wait_for(lambda: moved(till) == 6, SOON_S, "the other group is there")
        commit_offsets(source, {shop: {(topic, 0): 9}, till: {(topic, 0): 10}})
        wait_for(lambda: moved(till) == 10, SOON_S, "it follows the other group")
        assert moved(shop) == 4
        # Settings of topics.
        continue_with(flow, config_properties_exclude=("min.insync.replicas",), sync_topic_configs_interval_s=0.2)
        wait_for(lambda: topic_config(target, remote).get("retention.ms") == "1000000", SOON_S, "it is carried over")
        set_topic_config(source, topic, {"segment.ms": "800000"})
        wait_for(lambda: topic_config(target, remote).get("segment.ms") == "800000", SOON_S, "it is kept in step")
        # Heartbeats begin, and end.
        continue_with(flow, emit_heartbeats_interval_s=0.1)
        before = beats()
        wait_for(lambda: beats() >= before + 3, SOON_S, "heartbeats are written")
        continue_with(flow, emit_heartbeats_interval_s=None)
        names = {job.what for job in flow.runner._jobs.all}
        assert "write heartbeats" not in names
        assert {"commit offsets of groups on the target", "keep the settings of remote topics in step"} <= names
        assert flow.runner.by_settings.groups_writer is not None
        assert (flow.runner.leases.lease, flow.workers[0].copier_threads) == (1, 1)
        report = flow.runner.report()
        assert report.groups is not None
        assert report.groups.syncs
