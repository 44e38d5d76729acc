"""Spark's JVM dies under `twinlog run`: its flows go on with another one, and nothing is lost or twice."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import psutil
import pytest
from confluent_kafka import KafkaException

from harness.checker import Load, require_clean
from harness.cluster import KafkaCluster
from harness.topics import create_topic, offsets
from harness.wait import wait_for
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.integration.running import RunTwinlog, wait_until_gone

PARTITIONS = 2
RATE = 1000
COPY_S = 150.0
CLEAN_STOP_S = 6.0
"""Five seconds are promised; one more for a busy machine."""

KILLED = r"Spark's JVM was killed by SIGKILL: nothing is copied until it is started again"


def copied(cluster: KafkaCluster, remote: str) -> int:
    try:
        return sum(offsets(cluster, remote, partition)[1] for partition in range(PARTITIONS))
    except KafkaException:
        return 0


def kill_jvm(process: MirrorProcess) -> list[psutil.Process]:
    """SIGKILL; returns what ran for that JVM, itself included."""
    family = process.descendants()
    (jvm,) = (one for one in family if one.name() == "java")
    jvm.kill()
    return family


def require_gone(family: list[psutil.Process]) -> None:
    _, left = psutil.wait_procs(family, timeout=20)
    assert not left


@pytest.mark.timeout(600)
def test_flows_outlive_the_jvm(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    left, right = clusters
    there, back = (create_topic(cluster, new_name("t"), PARTITIONS) for cluster in clusters)
    ways = ((left, there, right, f"left.{there}"), (right, back, left, f"right.{back}"))
    process = run_twinlog(
        "left, right",
        flow_properties("left->right", left, right, {"topics": f"{there}.*"})
        + flow_properties("right->left", right, left, {"topics": back}),
    )

    def wait_until_copied(more: int = 100) -> None:
        for (_, _, target, remote), load in zip(ways, loads, strict=True):
            count = load.total + more

            def arrived(target: KafkaCluster = target, remote: str = remote, count: int = count) -> bool:
                assert process.alive, process.log
                return copied(target, remote) >= count

            try:
                wait_for(arrived, COPY_S, f"{count} records are in {remote}")
            except TimeoutError as late:
                raise AssertionError(f"{late}\n{process.log}") from late

    with Load(left, there, PARTITIONS, rate=RATE) as first, Load(right, back, PARTITIONS, rate=RATE) as second:
        loads = (first, second)
        wait_until_copied()
        family = kill_jvm(process)
        process.wait_for_line(KILLED)
        wait_until_copied()
        require_gone(family)

        # A new topic is a new plan, and so a new lease.
        leases = process.log.count("left->right: lease ")
        create_topic(left, f"{there}-new")
        process.wait_for_line(r"left->right: lease ", times=leases + 1)
        family = kill_jvm(process)
        process.wait_for_line(KILLED, times=2)
        wait_until_copied()
        require_gone(family)
    wait_until_copied(0)

    group = process.pid
    family = kill_jvm(process)
    process.wait_for_line(KILLED, times=3)
    began = time.monotonic()
    psutil.Process(group).send_signal(signal.SIGTERM)
    assert process.wait(3 * CLEAN_STOP_S) == 0
    assert time.monotonic() - began < CLEAN_STOP_S
    wait_until_gone(group, CLEAN_STOP_S)
    require_gone(family)
    for (source, topic, target, remote), load in zip(ways, loads, strict=True):
        assert require_clean(source, topic, target, remote) == load.total
    assert "Traceback" not in process.log
