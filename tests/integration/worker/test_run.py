"""`twinlog run` as a user runs it: a properties file, Spark, real brokers, signals and exit codes."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Callable

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, offsets, topic_config, topics
from harness.wait import wait_for
from tests.integration.flows.arriving import end_of
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.integration.records import lively, seen
from tests.integration.running import RunTwinlog, sasl_properties, wait_until_gone
from tests.integration.segments import codecs_of
from twinlog.mirror.offsets.positions import PositionRecord, decode_position
from twinlog.model.types import Alias

CLEAN_STOP_S = 60.0
"""Five seconds are promised; a busy machine takes longer."""

COPY_S = 120.0
"""Spark takes five seconds to start on an idle machine, and many times as long on a busy one."""


def positions(target: KafkaCluster, source: str) -> dict[tuple[str, int], int]:
    """The next source offset by the last stored position of each partition."""
    found: dict[tuple[str, int], int] = {}
    for one in consume(target, f"mm2-offsets.{source}.internal"):
        headers = tuple((name, value or b"") for name, value in one.headers)
        decoded = decode_position(Alias(source), PositionRecord(one.key or b"", one.value, headers))
        assert decoded is not None
        partition, position = decoded
        assert position is not None
        found[partition.topic, partition.partition] = position.next_source
    return found


def wait_until_copied(
    process: MirrorProcess, target: KafkaCluster, remote: str, count: int, partition: int = 0
) -> None:
    """Wait until a remote partition holds so many records."""

    def copied() -> bool:
        assert process.alive, process.log
        return end_of(target, remote, partition) >= count

    try:
        wait_for(copied, COPY_S, f"{remote}-{partition} has {count} records")
    except TimeoutError as late:
        raise AssertionError(f"{late}\n{process.log}") from late


def stop(process: MirrorProcess, number: signal.Signals) -> int:
    """Send a signal; the exit code."""
    group = process.pid
    psutil.Process(group).send_signal(number)
    code = process.wait(CLEAN_STOP_S)
    wait_until_gone(group, CLEAN_STOP_S)
    return code


def test_until_caught_up_over_sasl_beside_a_flow_with_nothing_to_copy(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    left, right = clusters
    topic, back = new_name("t"), new_name("t")
    create_topic(left, topic, 3, config={"retention.ms": "-1", "min.insync.replicas": "1"})
    create_topic(right, back)
    for partition in range(3):
        produce(left, topic, lively(300), partition=partition, codec="zstd", per_batch=100)
    produce(left, topic, numbered(10), transactional_id=new_name("tx"), abort=True)

    process = run_twinlog(
        "left, right, far, void",
        flow_properties("left->right", left, right, {"topics": topic})
        + flow_properties("void->right", left, right, {"topics": f"{back}.+"})
        + flow_properties("right->left", right, left, {"topics": back})
        + "left.consumer.isolation.level = read_committed\n"
        + sasl_properties({"left": left, "right": right}, "mirrormaker")
        + "far.bootstrap.servers = 127.0.0.1:1\n",
        *("--until-caught-up", "--clusters", "right", "far"),
    )

    # Of a flow that found nothing; with that one left out it would be 0.
    assert process.wait(COPY_S) == 1, process.log
    line = process.wait_for_line("void->right: nothing to copy: no topic of void is mirrored, of ")
    assert "topics does not match it: " in line
    remote = f"left.{topic}"
    assert seen(consume(right, remote)) == seen(consume(left, topic))
    assert codecs_of(right, remote) == {"zstd"}
    assert topic_config(right, remote) == {"retention.ms": "-1"}
    assert {key: at for key, at in positions(right, "left").items() if key[0] == topic} == {
        (topic, partition): offsets(left, topic, partition)[1] for partition in range(3)
    }
    assert "left->right: caught up" in process.log
    assert re.search(
        r"left->right: caught up, 3 partitions, 900 records copied, .*lag 0 \(\d+ s ago\)$", process.log, re.MULTILINE
    )
    # The flow to the other alias was not asked for.
    assert "right->left" not in process.log
    assert f"right.{back}" not in topics(left)
    assert "Traceback" not in process.log


def test_follows_topics_and_partitions_until_terminated(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    left, right = clusters
    prefix = new_name("t")
    first, second, other = f"{prefix}-first", f"{prefix}-second", new_name("t")
    create_topic(left, first)
    create_topic(left, other)
    produce(left, first, numbered(10))
    process = run_twinlog("left, right", flow_properties("left->right", left, right, {"topics": f"{prefix}-.*"}))
    wait_until_copied(process, right, f"left.{first}", 10)

    create_topic(left, second, 2)
    produce(left, second, numbered(5), partition=1)
    admin = AdminClient(left.client_config())
    admin.create_partitions([NewPartitions(first, 3)])[first].result(60)
    wait_for(lambda: topics(left)[first] == 3, 60, "the new partitions are there")
    produce(left, first, numbered(7), partition=2)
    wait_until_copied(process, right, f"left.{second}", 5, 1)
    wait_until_copied(process, right, f"left.{first}", 7, 2)
    # Without a terminal, a line every ten seconds.
    process.wait_for_line(
        r" left->right: running, 5 partitions, 22 records copied, \d+ records/s, [\d.]+ MB/s, lag 0 \(\d s ago\), ETA ",
        30,
    )
    produce(left, first, numbered(1000, start=10))

    code = stop(process, signal.SIGTERM)

    assert code == 0, process.log
    assert {name for name in topics(right) if prefix in name} == {f"left.{first}", f"left.{second}"}
    assert f"left.{other}" not in topics(right)
    # What was acknowledged is stored, to the last record.
    stored = {key: at for key, at in positions(right, "left").items() if key[0].startswith(prefix)}
    assert stored == {
        (name, partition): offsets(right, f"left.{name}", partition)[1]
        for name, count in ((first, 3), (second, 2))
        for partition in range(count)
    }
    assert "stopping (SIGTERM)" in process.log
    assert "Traceback" not in process.log


def test_interrupted_while_it_starts(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, topic_name: str
) -> None:
    left, right = clusters
    create_topic(left, topic_name)
    process = run_twinlog("left, right", flow_properties("left->right", left, right, {"topics": topic_name}))
    process.wait_for_line("created remote topic")

    code = stop(process, signal.SIGINT)

    assert code == 0, process.log
    assert "stopping (SIGINT)" in process.log
    assert "Traceback" not in process.log


def test_a_record_too_large_holds_its_partition_and_a_wrong_password_stops_its_flows(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    left, right = clusters
    large, back = new_name("t"), new_name("t")
    create_topic(left, large)
    create_topic(right, f"left.{large}", config={"max.message.bytes": "10000"})
    create_topic(right, back)
    produce(left, large, [NewRecord(b"small"), NewRecord(b"." * 20_000)])
    produce(right, back, numbered(10))
    # The right password of the other cluster.
    barred = sasl_properties({"barred": left}, "mirrormaker").replace("mirrormaker1-secret", "mirrormaker2-secret")
    assert "mirrormaker2-secret" in barred
    process = run_twinlog(
        "left, right, barred",
        flow_properties("left->right", left, right, {"topics": large, "sync.topic.configs.enabled": "false"})
        + flow_properties("right->left", right, left, {"topics": back})
        + flow_properties("barred->right", left, right, {"topics": back})
        + flow_properties("right->barred", right, left, {"topics": back})
        + barred,
    )

    lines = [process.wait_for_line(f"{flow}: FAILED") for flow in ("barred->right", "right->barred")]
    reasons = [line for line in lines if ", for the same reason as " not in line]
    assert len(reasons) == 1, lines
    for word in ("cluster barred", "login was refused", "check sasl.jaas.config"):
        assert word in reasons[0]

    line = process.wait_for_line(r"TW-RECORD-\d\d: left->right: ", COPY_S)
    for word in (
        f"{large}-0 is held",
        "source offset 1",
        "10000",
        "max.message.bytes",
        "twinlog.oversized.record.policy",
    ):
        assert word in line
    wait_until_copied(process, left, f"right.{back}", 10)
    produce(right, back, numbered(10, start=10))
    wait_until_copied(process, left, f"right.{back}", 20)

    code = stop(process, signal.SIGINT)

    assert code == 1, process.log
    assert process.log.count("login was refused") == 1
    assert positions(left, "right")[back, 0] == 20
    assert "-secret" not in process.log
    assert "Traceback" not in process.log


def test_an_unknown_key_is_refused_before_anything_is_contacted(run_twinlog: RunTwinlog) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        process = run_twinlog(
            "left, right",
            f"left.bootstrap.servers = {address}\n"
            f"right.bootstrap.servers = {address}\n"
            "left->right.enabled = true\n"
            "left->right.topic = orders\n"
            "left->right.tasks.max = many\n",
        )

        assert process.wait(COPY_S) == 2

        assert f"{process.file}:5: error: left->right.topic: " in process.log
        assert f"{process.file}:6: error: left->right.tasks.max: " in process.log
        assert "no cluster was contacted" in process.log
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
