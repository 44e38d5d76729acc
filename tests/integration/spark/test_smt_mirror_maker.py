"""The same transforms in the file of MirrorMaker 2 and of twinlog: both write the same records into the same topics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.broker import to_properties
from harness.cluster import KafkaCluster
from harness.connect.mm2 import ONE_REPLICA, MirrorMaker2
from harness.consume import consume_topics
from harness.produce import NewRecord, produce
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.running import RunTwinlog

DAY_MS = 86_400_000
COPY_S = 180.0
CHAIN = """
{flow}.transforms = dead, clean, route, day, stamp, mask
{flow}.transforms.dead.type = org.apache.kafka.connect.transforms.Filter
{flow}.transforms.dead.predicate = tombstone
{flow}.transforms.clean.type = org.apache.kafka.connect.transforms.DropHeaders
{flow}.transforms.clean.headers = trace, kind
{flow}.transforms.route.type = org.apache.kafka.connect.transforms.RegexRouter
{flow}.transforms.route.regex = ([^.]+)\\\\.(.*)-orders
{flow}.transforms.route.replacement = $1.routed.$2
{flow}.transforms.day.type = org.apache.kafka.connect.transforms.TimestampRouter
{flow}.transforms.day.topic.format = ${{topic}}.${{timestamp}}
{flow}.transforms.day.timestamp.format = yyyyMMdd
{flow}.transforms.day.predicate = events
{flow}.transforms.stamp.type = org.apache.kafka.connect.transforms.InsertHeader
{flow}.transforms.stamp.header = copied-by
{flow}.transforms.stamp.value.literal = a mirror
{flow}.transforms.stamp.predicate = events
{flow}.transforms.stamp.negate = true
{flow}.transforms.mask.type = org.apache.kafka.connect.transforms.DropHeaders
{flow}.transforms.mask.headers = nobody
{flow}.transforms.mask.predicate = stamped
{flow}.predicates = tombstone, events, stamped
{flow}.predicates.tombstone.type = org.apache.kafka.connect.transforms.predicates.RecordIsTombstone
{flow}.predicates.events.type = org.apache.kafka.connect.transforms.predicates.TopicNameMatches
{flow}.predicates.events.pattern = .*-events
{flow}.predicates.stamped.type = org.apache.kafka.connect.transforms.predicates.HasHeaderKey
{flow}.predicates.stamped.name = copied-by
{flow}.header.converter = org.apache.kafka.connect.storage.SimpleHeaderConverter
"""
FILE = """
{source}.bootstrap.servers = {here}
{target}.bootstrap.servers = {there}
{flow}.enabled = true
{flow}.topics = {name}.*
{flow}.groups = none
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
sync.topic.acls.enabled = false
""" + to_properties(ONE_REPLICA)


def file_of(flow: str, name: str, here: KafkaCluster, there: KafkaCluster) -> str:
    source, target = flow.split("->")
    ends = {"source": source, "target": target, "here": here.bootstrap, "there": there.bootstrap}
    return FILE.format(flow=flow, name=name, **ends) + CHAIN.format(flow=flow)


def records_of(kind: str) -> list[NewRecord]:
    headers = (("trace", b"1"), ("kind", None), ("trace", "ü".encode()))
    # A time of 0 is now, to librdkafka.
    plain = [
        NewRecord(f"{kind} {number}".encode(), key=b"%d" % (number % 3), timestamp=number * DAY_MS // 20 + 1)
        for number in range(40)
    ]
    odd = [
        NewRecord(None, b"gone", timestamp=1),
        NewRecord(b"", b"", headers, timestamp=2),
        NewRecord(bytes(range(256)), None, headers, timestamp=DAY_MS),
    ]
    return plain + odd


def test_records_are_the_same_and_in_the_same_topics(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    topic_name: str,
    new_name: Callable[[str], str],
    run_twinlog: RunTwinlog,
    tmp_path: Path,
) -> None:
    theirs, ours = f"{new_name('a')}->{new_name('b')}", f"{new_name('c')}->{new_name('d')}"
    their_alias, our_alias = theirs.partition("->")[0], ours.partition("->")[0]
    name = topic_name.replace(".", "_")
    for kind in ("orders", "events", "plain"):
        create_topic(source_cluster, f"{name}-{kind}", partitions=2)
        for partition in range(2):
            produce(source_cluster, f"{name}-{kind}", records_of(kind), partition=partition)
    written = {f"routed.{name}", f"{name}-events.19700101", f"{name}-events.19700102", f"{name}-plain"}
    # MirrorMaker 2 leaves topics that it routes to for the brokers to make, which these here do not.
    for topic in written - {f"{name}-plain"}:
        create_topic(target_cluster, f"{their_alias}.{topic}", partitions=2)

    text = f"clusters = {', '.join(theirs.split('->'))}\n" + file_of(theirs, name, source_cluster, target_cluster)
    with MirrorMaker2(text, jit="quick", work_dir=tmp_path / "mm2"):
        # In tasks of Spark, whose processes are made in another way than this one.
        text = file_of(ours, name, source_cluster, target_cluster)
        process = run_twinlog(", ".join(ours.split("->")), text, "--until", "caught-up")
        assert process.wait(COPY_S) == 0, process.log
        wait_for(
            lambda: _records(target_cluster, their_alias, written) >= 3 * 2 * 42,
            COPY_S,
            "MirrorMaker 2 has copied",
        )
    found = consume_topics(
        target_cluster, [f"{alias}.{topic}" for alias in (their_alias, our_alias) for topic in written]
    )
    for topic in written:
        by_mirror_maker = [(one.partition, *one.content) for one in found[f"{their_alias}.{topic}"]]
        by_twinlog = [(one.partition, *one.content) for one in found[f"{our_alias}.{topic}"]]
        assert by_twinlog == by_mirror_maker
        assert by_twinlog
    # Remote topics from which all was routed away are there in both, and empty.
    for alias in (their_alias, our_alias):
        emptied = [f"{alias}.{name}-orders", f"{alias}.{name}-events"]
        assert set(emptied) <= topics(target_cluster).keys()
        assert all(not records for records in consume_topics(target_cluster, emptied).values())


def _records(cluster: KafkaCluster, alias: str, names: set[str]) -> int:
    there = [f"{alias}.{name}" for name in names if f"{alias}.{name}" in topics(cluster)]
    return sum(map(len, consume_topics(cluster, there).values()))
