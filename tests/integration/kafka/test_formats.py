"""Kafka's own tools and client library read what twinlog writes about mirroring, on a real broker."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.jvm.tools import CONSOLE_CONSUMER, run_tool
from harness.produce import NewRecord, produce
from harness.topics import create_topic, delete_records
from harness.wait import wait_for
from tests.connected_admins import connected_admin
from twinlog import client
from twinlog.client import CommittedOffset, MirrorClient
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.builder import own_batch, record_body
from twinlog.mirror.offsets.exact_map import CopiedRun, ExactMap, Translated
from twinlog.mirror.offsets.maps import ExactMaps, StoredRecord
from twinlog.mirror.offsets.segments import SegmentWriter, segments_topic
from twinlog.mirror.offsets.syncs import OffsetSync
from twinlog.mirror.records import Checkpoint, Heartbeat
from twinlog.model.types import Alias, GroupId, TopicName, TopicPartition
from twinlog.settings.client import ClientSettings

ASK = Path(__file__).parents[1] / "java" / "AskRemoteCluster.java"
FORMATTERS = "org.apache.kafka.connect.mirror.formatters"
COMPACTED = {"cleanup.policy": "compact"}
PATIENCE_S = 60.0


@pytest.fixture
def here(target_cluster: KafkaCluster) -> Iterator[ClusterAdmin]:
    with connected_admin("here", ClientSettings((target_cluster.bootstrap,))) as admin:
        yield admin


@pytest.fixture
def settings(target_cluster: KafkaCluster) -> ClientSettings:
    return ClientSettings((target_cluster.bootstrap,))


@pytest.fixture
def alias(new_name: Callable[[str], str]) -> str:
    """A cluster alias that no other test uses, and so names of topics that none uses."""
    return new_name("far")


def write(admin: ClusterAdmin, topic: str, records: Iterable[StoredRecord]) -> None:
    """Append keyed records to partition 0 as one batch, as twinlog's tasks do."""
    now = int(time.time() * 1000)
    batch = own_batch((now, record_body(key, value)) for key, value in records)

    async def append() -> int:
        found = await admin.client.refresh([TopicName(topic)])
        leader = found[TopicName(topic)].leaders[0]
        answers = await admin.client.append(leader.node, {topic: [(0, batch)]}, 10.0)
        return answers[topic, 0].code

    # A broker may be named leader of a new topic before it knows.
    wait_for(lambda: admin.call(append) == 0, 60, f"{topic} takes a batch")


def printed(cluster: KafkaCluster, topic: str, formatter: str, count: int) -> list[str]:
    """What Kafka's console consumer prints of a topic."""
    options = ["--bootstrap-server", cluster.bootstrap, "--topic", topic, "--from-beginning"]
    options += ["--max-messages", str(count), "--timeout-ms", "30000", "--formatter", f"{FORMATTERS}.{formatter}"]
    return run_tool(CONSOLE_CONSUMER, options, deadline_s=90).splitlines()


def test_kafkas_console_consumer_prints_offset_syncs(
    target_cluster: KafkaCluster, here: ClusterAdmin, alias: str
) -> None:
    topic = create_topic(target_cluster, f"mm2-offset-syncs.{alias}.internal", config=COMPACTED)
    syncs = [OffsetSync(TopicName("orders"), part, 100 * part, 2**40 + part) for part in range(3)]
    write(here, topic, [(sync.key, sync.value) for sync in syncs])
    assert printed(target_cluster, topic, "OffsetSyncFormatter", 3) == [str(sync) for sync in syncs]


def test_kafkas_console_consumer_prints_heartbeats(
    target_cluster: KafkaCluster, here: ClusterAdmin, alias: str
) -> None:
    topic = create_topic(target_cluster, f"{alias}.heartbeats", config=COMPACTED)
    beats = [Heartbeat(Alias(alias), Alias("here"), 1_700_000_000_000 + second) for second in range(2)]
    write(here, topic, [(beat.key, beat.value) for beat in beats])
    assert printed(target_cluster, topic, "HeartbeatFormatter", 2) == [str(beat) for beat in beats]


def checkpoints(alias: str) -> list[Checkpoint]:
    """Checkpoints of three groups; the first group's offset in one partition is given twice."""
    orders, bills = TopicName(f"{alias}.orders"), TopicName(f"{alias}.bills")
    one, two, other = GroupId("shop-1"), GroupId("shop-2"), GroupId("ops")
    return [
        Checkpoint(one, orders, 0, 10, 7),
        Checkpoint(one, orders, 1, 20, 18, "note"),
        Checkpoint(one, orders, 0, 12, 9),
        Checkpoint(two, bills, 0, 5, 5, "größe"),
        Checkpoint(other, bills, 3, 2**40, 2**40 - 1),
    ]


def shown(offsets: dict[TopicPartition, CommittedOffset]) -> dict[str, list[int | str]]:
    return {str(where): [what.offset, what.metadata] for where, what in offsets.items()}


def test_kafkas_client_library_gives_the_answers_of_ours(
    target_cluster: KafkaCluster, here: ClusterAdmin, settings: ClientSettings, alias: str
) -> None:
    topic = create_topic(target_cluster, f"{alias}.checkpoints.internal", config=COMPACTED)
    for name in (f"{alias}.orders", f"near.{alias}.heartbeats", "heartbeats.of.shop"):
        create_topic(target_cluster, name)
    write(here, topic, [(checkpoint.key, checkpoint.value) for checkpoint in checkpoints(alias)])
    assert printed(target_cluster, topic, "CheckpointFormatter", 5) == [str(one) for one in checkpoints(alias)]

    aliases = [alias, "near", "nobody"]
    arguments = [target_cluster.bootstrap, alias, "shop-1", "shop-.", *aliases]
    java: dict[str, Any] = json.loads(run_tool(str(ASK), arguments, deadline_s=120))

    # What MirrorMaker 2 takes for heartbeats by its name may hold records of other tests.
    def own(names: Iterable[str]) -> list[str]:
        return sorted(name for name in names if alias in name or name.startswith(("near", "heartbeats")))

    for answer in ("heartbeat_topics", "upstream_clusters"):
        java[answer] = own(java[answer])

    by_pattern = client.translate_offsets(settings, alias, re.compile("shop-."), PATIENCE_S)
    with MirrorClient(settings) as asked:
        ours = {
            "group": shown(asked.translate_offsets(alias, "shop-1", PATIENCE_S)),
            "groups": {group: shown(offsets) for group, offsets in by_pattern.items()},
            "heartbeat_topics": own(asked.heartbeat_topics()),
            "checkpoint_topics": sorted(asked.checkpoint_topics()),
            "upstream_clusters": own(asked.upstream_clusters()),
            "hops": {one: asked.replication_hops(one) for one in aliases},
            "remote_topics": sorted(asked.remote_topics()),
            "remote_topics_of": sorted(asked.remote_topics(alias)),
        }
    assert ours == java
    assert ours["group"] == {f"{alias}.orders-0": [9, ""], f"{alias}.orders-1": [18, "note"]}
    assert set(by_pattern) == {"shop-1", "shop-2"}
    assert ours["hops"] == {alias: 2, "near": 1, "nobody": -1}
    # The functions ask the same.
    assert shown(client.translate_offsets(settings, alias, "shop-1", PATIENCE_S)) == ours["group"]
    assert client.replication_hops(settings, alias) == 2
    assert own(client.heartbeat_topics(settings)) == ours["heartbeat_topics"]
    assert sorted(client.checkpoint_topics(settings)) == ours["checkpoint_topics"]
    assert own(client.upstream_clusters(settings)) == ours["upstream_clusters"]
    assert sorted(client.remote_topics(settings, alias)) == ours["remote_topics_of"]


def test_checkpoints_are_found_among_whatever_else_is_in_their_topic(
    target_cluster: KafkaCluster, here: ClusterAdmin, settings: ClientSettings, alias: str
) -> None:
    topic = create_topic(target_cluster, f"{alias}.checkpoints.internal", config={"cleanup.policy": "compact,delete"})
    first, *others = checkpoints(alias)
    produce(target_cluster, topic, [NewRecord(b"?", key=b"?")] * 100)
    delete_records(target_cluster, topic, before=50)
    write(here, topic, [(first.key, first.value)])
    # A transaction ends with a marker, at an offset that no record has; at last the topic ends with one.
    produce(target_cluster, topic, [NewRecord(first.value, key=first.key)], transactional_id=alias)
    write(here, topic, [(one.key, one.value) for one in others] + [(first.key, None), (b"", b"")])
    produce(target_cluster, topic, [NewRecord(b"?", key=b"?")], transactional_id=alias)
    found = client.translate_offsets(settings, alias, re.compile(".*"), PATIENCE_S)
    assert {group: shown(offsets) for group, offsets in found.items()} == {
        "shop-1": {f"{alias}.orders-0": [9, ""], f"{alias}.orders-1": [18, "note"]},
        "shop-2": {f"{alias}.bills-0": [5, "größe"]},
        "ops": {f"{alias}.bills-3": [2**40 - 1, ""]},
    }
    assert client.translate_offsets(settings, alias, "sho", PATIENCE_S) == {}


def test_a_wrong_alias_is_reported(target_cluster: KafkaCluster, settings: ClientSettings, alias: str) -> None:
    create_topic(target_cluster, f"{alias}.checkpoints.internal")
    with pytest.raises(ClusterError, match=re.escape(f"no topic {alias}x.checkpoints.internal")) as raised:
        client.translate_offsets(settings, f"{alias}x", "group", PATIENCE_S)
    assert f"{alias}.checkpoints.internal" in str(raised.value).split("here: ")[1]


def test_too_little_time_is_no_answer(target_cluster: KafkaCluster, settings: ClientSettings, alias: str) -> None:
    topic = create_topic(target_cluster, f"{alias}.checkpoints.internal")
    produce(target_cluster, topic, [NewRecord(b"." * 1000, key=b"key")] * 5000)
    with MirrorClient(settings) as asked:
        asked.remote_topics()
        with pytest.raises(ClusterError, match="not read to its end in time"):
            asked.translate_offsets(alias, "group", 1e-6)
        # The client is as good as before.
        assert asked.translate_offsets(alias, "group", PATIENCE_S) == {}


def write_segments(here: ClusterAdmin, topic: str, writer: SegmentWriter) -> None:
    segments = writer.changed()
    write(here, topic, [(segment.key, segment.value) for segment in segments])
    writer.mark_stored(segments)


def test_exact_maps_come_back_from_their_topic(target_cluster: KafkaCluster, here: ClusterAdmin, alias: str) -> None:
    topic = create_topic(target_cluster, segments_topic(Alias(alias)), config=COMPACTED)
    part = TopicPartition(TopicName("orders"), 5)
    reader, maps = TopicReader(here, TopicName(topic)), ExactMaps()
    writer, truth = SegmentWriter(part, 0, 3, complete=True), ExactMap(0, 3, complete=True)
    for number in range(600):
        writer.add_runs([CopiedRun(number * 5, 3 + number * 3, 3)])
        truth.add_runs([CopiedRun(number * 5, 3 + number * 3, 3)])
        if number % 150 == 0:
            write_segments(here, topic, writer)
            maps.apply_records((record.key, record.value) for _, record in reader.read())
    write_segments(here, topic, writer)
    maps.apply_records((record.key, record.value) for _, record in reader.read())
    afresh = ExactMaps()
    afresh.apply_records((record.key, record.value) for _, record in TopicReader(here, TopicName(topic)).read())
    for known in (maps, afresh):
        known.extend_map(part, *writer.end, generation=writer.generation)
        found = known.map(part)
        assert found is not None
        for offset in range(600 * 5 - 1):
            assert found.to_target(offset) == truth.to_target(offset)
        assert found.to_target(600 * 5) == Translated(3 + 1800, False)
