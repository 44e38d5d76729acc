"""Clusters of Kafka 2.1, the oldest that twinlog works with: the way out of such a cluster, and the way into it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from typer.testing import CliRunner

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.groups import commit_offsets, group_offsets
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, delete_topic, offsets, topic_config, topics
from harness.versions import OLDEST, ZooKeeperCluster
from harness.wait import wait_for
from tests.integration.mirror_process import GROUPS_EVERY_SECOND, flow_properties
from tests.integration.running import RunTwinlog
from twinlog.cli.main import app

DEADLINE_S = 120.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


before_2_4 = pytest.mark.skipif(
    not OLDEST.startswith(("2.1.", "2.2.", "2.3.")), reason="brokers of Kafka 2.4 and newer behave as those of today"
)


@pytest.fixture(scope="module")
def old_cluster() -> Iterator[ZooKeeperCluster]:
    with ZooKeeperCluster("old") as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("way", "exactly_once"),
    [
        pytest.param("out of", False, marks=pytest.mark.scenario),
        pytest.param("into", True, marks=pytest.mark.scenario),
        pytest.param("out of", True, marks=pytest.mark.scenario),
        pytest.param("into", False, marks=pytest.mark.scenario),
    ],
)
def test_records_settings_and_groups_are_mirrored(
    old_cluster: ZooKeeperCluster,
    target_cluster: KafkaCluster,
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    way: str,
    exactly_once: bool,
) -> None:
    source, target = (old_cluster, target_cluster) if way == "out of" else (target_cluster, old_cluster)
    topic, group = new_name("t"), new_name("g")
    remote = f"left.{topic}"
    create_topic(source, topic, 2, config={"retention.ms": "86400001"})
    for number, codec in enumerate(CODECS):
        produce(source, topic, numbered(100, start=100 * number, headers=True), codec=codec)
    produce(source, topic, numbered(50), partition=1, transactional_id=new_name("tx"), abort=True)
    produce(source, topic, numbered(100), partition=1, transactional_id=new_name("tx"))
    commit_offsets(source, {group: {(topic, 0): 321, (topic, 1): 60}})
    settings = {
        "topics": topic,
        "groups": group,
        **GROUPS_EVERY_SECOND,
        "consumer.isolation.level": "read_committed",
    }
    properties = flow_properties("left->right", source, target, settings)
    if exactly_once:
        properties += "right.exactly.once.source.support = enabled\n"
    process = run_twinlog("left, right", properties)
    produced = 500

    def copied() -> bool:
        process.process.require_alive()
        return remote in topics(target) and len(consume(target, remote)) == produced + 100

    wait_for(copied, DEADLINE_S, f"all of {topic} is copied: {process.log}")
    process.kill()
    produce(source, topic, numbered(100, start=produced, headers=True))
    produced += 100
    process.restart()
    wait_for(copied, DEADLINE_S, f"the rest of {topic} is copied: {process.log}")

    def moved() -> bool:
        found = group_offsets(target, [group]).get(group, {})
        return set(found) == {(remote, 0), (remote, 1)}

    wait_for(moved, DEADLINE_S, f"{group} follows: {process.log}")
    # The target does not say in its list of groups that this group has no members.
    commit_offsets(source, {group: {(topic, 0): 400, (topic, 1): 61}})
    copies = {int(one.value or b""): one.offset for one in consume(target, remote, partitions=[0])}
    # On a slow machine the copies are of several transactions, whose markers have offsets of their own.
    places = {copies[400], copies[399] + 1}
    wait_for(
        lambda: group_offsets(target, [group])[group][remote, 0].offset in places,
        DEADLINE_S,
        f"{group} follows again: {process.log}",
    )
    assert process.terminate() == 0, process.log
    # On a busy machine, Spark's JVM is late.
    lines = [line for line in process.log.splitlines() if "TW-SPARK-04" not in line]
    wrong = [line for line in lines if " WARNING " in line or " ERROR " in line]
    assert not wrong, process.log
    for partition in (0, 1):
        there = [record.content for record in consume(source, topic) if record.partition == partition]
        here = [record.content for record in consume(target, remote) if record.partition == partition]
        assert here == there
    assert topic_config(target, remote)["retention.ms"] == "86400001"
    assert offsets(target, remote)[1] >= produced


@pytest.mark.scenario
@before_2_4
@pytest.mark.parametrize("policy", ["hold", "skip"])
def test_a_record_without_a_key_for_a_compacted_topic_is_named_as_the_refused_record(
    old_cluster: ZooKeeperCluster,
    source_cluster: KafkaCluster,
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    policy: str,
) -> None:
    """Brokers before Kafka 2.4 call the whole batch corrupt, and name no record."""
    source, target = source_cluster, old_cluster
    topic = new_name("t")
    remote = f"left.{topic}"
    create_topic(source, topic)
    create_topic(target, remote, config={"cleanup.policy": "compact"})
    keys: tuple[bytes | None, ...] = (b"k1", b"k2", None, b"k4")
    produce(source, topic, [NewRecord(b"%d" % number, key) for number, key in enumerate(keys, 1)])
    # The source's policy would take the place of the target's.
    settings = {"topics": topic, "twinlog.refused.record.policy": policy, "sync.topic.configs.enabled": "false"}
    process = run_twinlog("left, right", flow_properties("left->right", source, target, settings))
    if policy == "hold":
        line = process.wait_for_line(rf"TW-RECORD-01: left->right: {topic}-0 is held at source offset 2")
        assert "where the topic is compacted and the record has no key" in line
        assert "skip or dead-letter" in line
        expected = [b"1", b"2"]
    else:
        wait_for(lambda: len(consume(target, remote)) == 3, DEADLINE_S, f"the rest is copied: {process.log}")
        expected = [b"1", b"2", b"4"]
    assert [record.value for record in consume(target, remote)] == expected


@pytest.mark.scenario
@before_2_4
def test_a_plan_names_the_smaller_records_that_an_old_target_takes(
    old_cluster: ZooKeeperCluster, source_cluster: KafkaCluster, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = new_name("t")
    create_topic(source_cluster, topic)
    file = tmp_path / "mm2.properties"
    properties = flow_properties("left->right", source_cluster, old_cluster, {"topics": topic})
    file.write_text(f"clusters = left, right\n{properties}")
    done = CliRunner().invoke(app, ["plan", str(file)])
    assert (
        f"records of up to 1048588 bytes (max.message.bytes) may come to left.{topic}, which takes 1000012"
        in done.stdout
    )


@pytest.mark.scenario
def test_a_request_to_reload_is_for_the_processes_that_run_then(
    old_cluster: ZooKeeperCluster, source_cluster: KafkaCluster, run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    """A topic without an id is there all the same: a process that starts later leaves its requests alone."""
    topic = new_name("t")
    create_topic(source_cluster, topic)
    properties = flow_properties("left->right", source_cluster, old_cluster, {"topics": topic})
    process = run_twinlog("left, right", properties)
    process.wait_for_line("this process .* runs the flow")
    command = [sys.executable, "-m", "twinlog", "reload", str(process.file)]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "its file is as before" in done.stdout
    process.terminate()
    process.restart()
    process.wait_for_line("left->right: this process .* runs the flow")
    produce(source_cluster, topic, numbered(10))
    wait_for(lambda: len(consume(old_cluster, f"left.{topic}")) == 10, DEADLINE_S, "the records are copied")
    time.sleep(3)
    assert "was read again" not in process.log


def recreate(cluster: KafkaCluster, topic: str) -> None:
    """Delete a topic and create it again at once: ZooKeeper's brokers delete it a little later than they say so."""
    delete_topic(cluster, topic)

    def created() -> bool:
        try:
            create_topic(cluster, topic)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise
        return True

    wait_for(created, DEADLINE_S, f"{topic} is created again")


@pytest.mark.scenario
def test_a_recreated_topic_is_held_and_its_new_records_are_copied_once_that_is_accepted(
    old_cluster: ZooKeeperCluster,
    target_cluster: KafkaCluster,
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
) -> None:
    """These brokers have no ids of topics: a log that is shorter in the same leader epoch shows it."""
    source, target = old_cluster, target_cluster
    again, other = new_name("again"), new_name("other")
    for topic in (again, other):
        create_topic(source, topic)
        produce(source, topic, numbered(50))
    properties = flow_properties("left->right", source, target, {"topics": f"{again}, {other}"})
    process = run_twinlog("left, right", properties)

    def count(topic: str) -> int:
        process.process.require_alive()
        remote = f"left.{topic}"
        return len(consume(target, remote)) if remote in topics(target) else 0

    wait_for(lambda: (count(again), count(other)) == (50, 50), DEADLINE_S, "all is copied")
    recreate(source, again)
    produce(source, again, numbered(10, start=1000))
    held = rf"TW-GAP-03: left->right: {again}-0 is held at source offset 50: the source topic was deleted and"
    process.wait_for_line(held)
    produce(source, other, numbered(50, start=50))
    wait_for(lambda: count(other) == 100, DEADLINE_S, "the other topic is copied")
    command = [sys.executable, "-m", "twinlog", "topics", "accept-gap", str(process.file), again]
    done = subprocess.run(command, input="y\n", capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for(lambda: count(again) == 60, DEADLINE_S, "the new records are copied")
    assert [int(record.value or b"") for record in consume(target, f"left.{again}")] == [
        *range(50),
        *range(1000, 1010),
    ]
