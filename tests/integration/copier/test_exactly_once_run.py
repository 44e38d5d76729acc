"""`twinlog run` on its way from plain copying to exactly once, with kills on the way."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

import psutil
import pytest

from harness.checks.checker import SLOW_TICK_S, Load, require_clean
from harness.cluster import KafkaCluster
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.consuming import Count
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.integration.running import RunTwinlog

PARTITIONS = 3
RATE = 500
COPY_S = 120.0


def copiers(process: MirrorProcess, target: KafkaCluster) -> list[psutil.Process]:
    """The processes below one that are connected to the target."""
    port = target.brokers[1].ports.plaintext
    found = []
    for child in process.descendants():
        try:
            if any(one.raddr and one.raddr.port == port for one in child.net_connections("tcp")):
                found.append(child)
        except psutil.Error:
            continue
    return found


@pytest.mark.scenario
def test_the_two_steps_to_exactly_once(
    clusters: tuple[KafkaCluster, KafkaCluster],
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    chance: random.Random,
) -> None:
    left, right = clusters
    topic = create_topic(left, new_name("t"), PARTITIONS)
    remote = f"step.{topic}"
    plain = flow_properties("step->on", left, right, {"topics": topic, "tasks.max": "2"})
    plain += "step.consumer.isolation.level = read_committed\n"

    copied = Count(right, remote, PARTITIONS)

    def run(mode: str, *options: str) -> MirrorProcess:
        """Start, and wait until it has copied something that came after its start."""
        switch = f"on.exactly.once.source.support = {mode}\n" if mode else ""
        process = run_twinlog("step, on", plain + switch, *options)
        if not options:
            # The copiers of a driver that was killed go on for a moment, so the first records may be theirs.
            process.wait_for_line(r"lease \d+: 3 partitions", COPY_S)
            sent = load.total
            wait_for(lambda: not process.alive or copied() > sent, COPY_S, f"{mode or 'plain'}: it copies")
            assert process.alive, process.log
            time.sleep(chance.uniform(0.2, 1.2))
        return process

    with Load(left, topic, PARTITIONS, rate=RATE, tick_s=SLOW_TICK_S) as load:
        os.killpg(run("").pid, signal.SIGKILL)
        assert run("preparing").terminate() == 0
        process = run("enabled")
        killed = chance.choice(copiers(process, right))
        killed.kill()
        behind = load.total
        wait_for(lambda: copied() > behind, COPY_S, "it goes on without the copier that was killed")
        os.killpg(process.pid, signal.SIGKILL)
    last = run("enabled", "--until", "caught-up")
    assert last.wait(COPY_S) == 0, last.log
    assert require_clean(left, topic, right, remote) == load.total
    assert "foreign" not in last.log
    assert "Traceback" not in last.log
