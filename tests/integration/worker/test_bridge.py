"""The bridge copies while Spark has no task, and hands over to Spark's tasks: no record is lost or twice."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable

import psutil
import pytest

from harness.cluster import KafkaCluster
from harness.ports import claim_port, release_port
from harness.wait import wait_for
from tests.integration.flows.arriving import both_ways, require_true_copies, wait_until_copied
from tests.integration.mirror_process import flow_properties
from tests.integration.running import RunTwinlog

PARTITIONS = 2
RATE = 200
BRIDGED = "left->right: the bridge copies until Spark has a task for the flow"
TASKS = "left->right: Spark's tasks copy now"
GONE_S = 15.0
"""A copier of the bridge ends once a task has its partitions."""
KILLED = r"Spark's JVM was killed by SIGKILL"


def broker_connections(processes: list[psutil.Process], clusters: tuple[KafkaCluster, KafkaCluster]) -> int:
    """The number of connections of these processes to the brokers of both clusters."""
    brokers = {port for cluster in clusters for pid in cluster.pids for port in listening(pid)}
    return sum(
        one.status == psutil.CONN_ESTABLISHED and one.raddr.port in brokers
        for process in processes
        for one in process.net_connections("tcp")
    )


def listening(pid: int) -> list[int]:
    """The ports at which a process listens."""
    return [one.laddr.port for one in psutil.Process(pid).net_connections("tcp") if one.status == psutil.CONN_LISTEN]


def bridged(url: str) -> float:
    """The flow's metric `twinlog_bridged`."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=20) as answer:
        found = re.search(r'^twinlog_bridged\{flow="left->right"\} (\S+)$', answer.read().decode(), re.MULTILINE)
    assert found is not None
    return float(found[1])


@pytest.mark.scenario
@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_the_bridge_copies_first_and_again_after_the_jvm_was_lost(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, new_name: Callable[[str], str], mode: str
) -> None:
    left, right = clusters
    port = claim_port()
    url = f"http://127.0.0.1:{port}"
    flow, _ = both_ways(clusters, new_name, PARTITIONS, RATE)
    process = run_twinlog(
        "left, right",
        flow_properties("left->right", left, right, {"topics": flow.load.topic})
        + f"exactly.once.source.support = {mode}\n",
        *("--metrics-listener", url),
    )
    with flow.load:
        process.wait_for_line(BRIDGED)
        wait_until_copied(process, [flow])
        assert TASKS not in process.log
        assert bridged(url) == 1.0
        assert len(process.bridges()) == 1
        process.wait_for_line(TASKS)
        wait_until_copied(process, [flow], RATE)
        assert bridged(url) == 0.0
        assert "does not release its partitions" not in process.log
        # From here on every record moves in Spark's tasks.
        wait_for(
            lambda: broker_connections(process.bridges(), clusters) == 0, GONE_S, "the bridge has left the brokers"
        )
        wait_until_copied(process, [flow], RATE)
        assert broker_connections(process.bridges(), clusters) == 0

        process.jvm().kill()
        process.wait_for_line(KILLED)
        process.wait_for_line(BRIDGED, times=2)
        wait_until_copied(process, [flow], RATE // 10)
        assert "Spark runs again" not in process.log
        process.wait_for_line(TASKS, times=2)
        wait_until_copied(process, [flow], RATE)
    wait_until_copied(process, [flow])
    left_over = process.bridges()
    assert process.terminate() == 0
    _, alive = psutil.wait_procs(left_over, timeout=30)
    assert alive == []
    require_true_copies([flow])
    assert "Traceback" not in process.log
    release_port(port)
