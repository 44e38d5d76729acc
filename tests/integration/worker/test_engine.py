"""More flows than Spark runs tasks at once share one, and Spark's JVM dies under them: nothing is lost or twice."""

from __future__ import annotations

import signal
from collections.abc import Callable

import psutil

from harness.cluster import KafkaCluster
from harness.topics import create_topic
from tests.integration.flows.arriving import both_ways, require_true_copies, wait_until_copied
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.integration.running import RunTwinlog, wait_until_gone
from tests.integration.worker.test_bridge import BRIDGED

PARTITIONS = 2
RATE = 300
CLEAN_STOP_S = 60.0
"""Five seconds are promised; one more for a busy machine."""

KILLED = r"Spark's JVM was killed by SIGKILL: Spark is started again"


def kill_jvm(process: MirrorProcess) -> list[psutil.Process]:
    """SIGKILL; returns what ran for that JVM, itself included. The bridge does not run for it."""
    bridges = process.bridges()
    family = [one for one in process.descendants() if one not in bridges]
    process.jvm().kill()
    return family


def require_gone(family: list[psutil.Process]) -> None:
    _, left = psutil.wait_procs(family, timeout=60)
    assert not left


def test_two_flows_share_the_only_slot_and_outlive_the_jvm(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    left, right = clusters
    flows = both_ways(clusters, new_name, PARTITIONS, RATE)
    there, back = (flow.load.topic for flow in flows)
    process = run_twinlog(
        "left, right",
        flow_properties("left->right", left, right, {"topics": f"{there}.*", "tasks.max": "4"})
        + flow_properties("right->left", right, left, {"topics": f"{back}.*"}),
        *("--master", "local[1]"),
    )

    with flows[0].load, flows[1].load:
        process.wait_for_line(BRIDGED)
        for name in ("left->right", "right->left"):
            process.wait_for_tasks(name)
        wait_until_copied(process, flows, RATE)
        # A new topic of one flow gives the task something else to do.
        create_topic(left, f"{there}-new")
        process.wait_for_line(r"left->right: lease \d+: 3 partitions in 1 task")
        wait_until_copied(process, flows, RATE)
        assert "does not release its partitions" not in process.log
        assert "the query is started again" not in process.log

        family = kill_jvm(process)
        process.wait_for_line(KILLED)
        process.wait_for_line(BRIDGED, times=2)
        wait_until_copied(process, flows, RATE // 10)
        require_gone(family)

        # A new topic is a new plan, and so a new lease.
        leases = process.log.count("left->right: lease ")
        create_topic(left, f"{there}-newer")
        process.wait_for_line(r"left->right: lease ", times=leases + 1)
    wait_until_copied(process, flows)

    group = process.pid
    family = [*kill_jvm(process), *process.bridges()]
    process.wait_for_line(KILLED, times=2)
    psutil.Process(group).send_signal(signal.SIGTERM)
    assert process.wait(CLEAN_STOP_S) == 0
    wait_until_gone(group, CLEAN_STOP_S)
    require_gone(family)
    require_true_copies(flows)
    assert "Traceback" not in process.log
