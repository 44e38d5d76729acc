"""Heartbeats: of flows that copy and of those that do not, in MirrorMaker 2's bytes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

from harness.checks.internal_records import decode_heartbeat
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.jvm.tools import CONSOLE_CONSUMER, run_tool
from harness.topics import topic_config, topics
from harness.wait import wait_for
from tests.integration.running import RunTwinlog
from twinlog.mirror.records import Heartbeat
from twinlog.model.types import Alias

FORMATTER = "org.apache.kafka.connect.mirror.formatters.HeartbeatFormatter"


def heartbeats(cluster: KafkaCluster, source: str) -> list[tuple[Heartbeat, int]]:
    """Heartbeats from `source`, with the timestamp of the record."""
    if "heartbeats" not in topics(cluster):
        return []
    # Another test of these clusters produces records that no mirror wrote.
    written = [one for one in consume(cluster, "heartbeats") if one.key != b"a->b"]
    found = [decode_heartbeat(one) for one in written]
    return [
        (Heartbeat(Alias(one.source), Alias(one.target), one.timestamp_ms), one.stamped_ms)
        for one in found
        if one.source == source
    ]


def lines(far: str, near: str, source: KafkaCluster, target: KafkaCluster, *more: str) -> str:
    return "".join(
        f"{line}\n"
        for line in (
            f"{far}.bootstrap.servers = {source.bootstrap}",
            f"{near}.bootstrap.servers = {target.bootstrap}",
            "emit.heartbeats.enabled = true",
            *more,
        )
    )


def test_flows_that_are_not_enabled_write_heartbeats_without_spark(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
) -> None:
    far, near = new_name("far"), new_name("near")
    begun = int(time.time() * 1000)
    process = run_twinlog(f"{far}, {near}", lines(far, near, source_cluster, target_cluster))
    wait_for(lambda: len(heartbeats(target_cluster, far)) >= 5, 60, "five heartbeats")
    wait_for(lambda: len(heartbeats(source_cluster, near)) >= 1, 60, "a heartbeat the other way")
    assert process.terminate() == 0
    assert "Spark" not in process.log
    found = heartbeats(target_cluster, far)
    assert {(beat.source, beat.target) for beat, _ in found} == {(far, near)}
    assert all(beat.timestamp_ms == timestamp for beat, timestamp in found)
    assert begun <= found[0][1] <= time.time() * 1000
    gaps = [after - before for (_, before), (_, after) in pairwise(found)]
    # The first one also connects and creates the topic, and any may come late, with the next one in time after it.
    assert median(gaps[1:]) >= 500
    assert topics(target_cluster)["heartbeats"] == 1
    assert topic_config(target_cluster, "heartbeats")["cleanup.policy"] == "compact"
    options = ["--bootstrap-server", target_cluster.bootstrap, "--topic", "heartbeats", "--from-beginning"]
    options += ["--max-messages", str(len(consume(target_cluster, "heartbeats")))]
    options += ["--timeout-ms", "60000", "--formatter", FORMATTER]
    printed = run_tool(CONSOLE_CONSUMER, options, deadline_s=90)
    assert all(str(beat) in printed for beat, _ in found)


def test_flows_that_write_heartbeats_only_delay_no_end(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
) -> None:
    far, near = new_name("far"), new_name("near")
    process = run_twinlog(f"{far}, {near}", lines(far, near, source_cluster, target_cluster), "--until", "caught-up")
    assert process.wait(120) == 0


def test_a_target_that_cannot_be_reached_is_named_and_the_other_flow_goes_on(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    far, near = new_name("far"), new_name("near")
    # The last word of a key counts; nobody listens at port 1.
    properties = lines(far, near, source_cluster, target_cluster, f"{near}.bootstrap.servers = 127.0.0.1:1")
    process = run_twinlog(f"{far}, {near}", properties)
    process.wait_for_line(rf"{re.escape(f'{far}->{near}')}: cannot .*trying again.*127\.0\.0\.1:1")
    wait_for(lambda: heartbeats(source_cluster, near), 60, "a heartbeat to the cluster that can be reached")
    assert process.terminate() == 0
