"""More flows than Spark runs tasks at once: every flow copies all the same, in tasks that it shares with others."""

from __future__ import annotations

from collections.abc import Callable

from harness.cluster import KafkaCluster
from harness.topics import create_topic
from tests.integration.arriving import both_ways, require_true_copies, wait_until_copied
from tests.integration.mirror_process import flow_properties
from tests.integration.running import RunTwinlog

PARTITIONS = 2
RATE = 300


def test_two_flows_share_the_only_slot(
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
        wait_until_copied(process, flows, RATE)
        # A new topic of one flow gives the task something else to do.
        create_topic(left, f"{there}-new")
        process.wait_for_line(r"left->right: lease \d+: 3 partitions in 1 task")
        wait_until_copied(process, flows, RATE)
    wait_until_copied(process, flows)
    assert process.terminate() == 0
    require_true_copies(flows)
    assert "Traceback" not in process.log
    assert "does not release its partitions" not in process.log
    assert "the query is started again" not in process.log
