"""More flows than Spark runs tasks at once: every flow copies all the same, in tasks that it shares with others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.checker import Load, require_clean
from harness.cluster import KafkaCluster
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.mirror_process import flow_properties
from tests.integration.running import RunTwinlog
from tests.integration.test_engine import copied

PARTITIONS = 2
RATE = 300
ARRIVE_S = 150.0


@pytest.mark.timeout(500)
def test_two_flows_share_the_only_slot(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    left, right = clusters
    there, back = (create_topic(cluster, new_name("t"), PARTITIONS) for cluster in clusters)
    ways = ((left, there, right, f"left.{there}"), (right, back, left, f"right.{back}"))
    process = run_twinlog(
        "left, right",
        flow_properties("left->right", left, right, {"topics": f"{there}.*", "tasks.max": "4"})
        + flow_properties("right->left", right, left, {"topics": f"{back}.*"}),
        *("--master", "local[1]"),
    )

    def wait_until_copied(more: int = 0) -> None:
        for (_, _, target, remote), load in zip(ways, loads, strict=True):
            count = load.total + more

            def arrived(target: KafkaCluster = target, remote: str = remote, count: int = count) -> bool:
                assert process.alive, process.log
                return copied(target, remote) >= count

            try:
                wait_for(arrived, ARRIVE_S, f"{count} records are in {remote}")
            except TimeoutError as late:
                raise AssertionError(f"{late}, {copied(target, remote)} are\n{process.log}") from late

    with Load(left, there, PARTITIONS, rate=RATE) as first, Load(right, back, PARTITIONS, rate=RATE) as second:
        loads = (first, second)
        wait_until_copied(RATE)
        # A new topic of one flow gives the task something else to do.
        create_topic(left, f"{there}-new")
        process.wait_for_line(r"left->right: lease \d+: 3 partitions in 1 task")
        wait_until_copied(RATE)
    wait_until_copied()
    assert process.terminate() == 0
    for (source, topic, target, remote), load in zip(ways, loads, strict=True):
        assert require_clean(source, topic, target, remote) == load.total
    assert "Traceback" not in process.log
    assert "does not let go" not in process.log
    assert "the query is started again" not in process.log
