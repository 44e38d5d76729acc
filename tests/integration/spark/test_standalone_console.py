"""The page of a flow on a real standalone Spark: its tasks, and the hosts and executors on which they run."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.ports import claim_port, release_port
from harness.produce import numbered, produce
from harness.spark.cluster import SparkCluster, SparkWorker, can_name_hosts
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.mirror_process import flow_properties
from tests.integration.running import RunTwinlog
from tests.integration.ui.visitor import Visitor

PARTITIONS = 4
DEADLINE_S = 200.0
FLOW = "left->right"


@pytest.fixture
def port() -> Iterator[int]:
    found = claim_port()
    yield found
    release_port(found)


@pytest.fixture
def spark() -> Iterator[SparkCluster]:
    with SparkCluster(hosts=("rack-a", "rack-b") if can_name_hosts() else ()) as cluster:
        yield cluster


def place_of(worker: SparkWorker) -> tuple[str, str]:
    """The host of a worker, and Spark's id of its only executor, by the command line of the executor."""
    (process,) = worker.executors
    words = process.cmdline()
    return worker.host or socket.gethostname(), words[words.index("--executor-id") + 1]


def shown_places(visitor: Visitor) -> dict[tuple[str, str | None], int]:
    """The hosts and executors on the page, each with the partitions of its task."""
    tasks: list[dict[str, Any]] = visitor.json("/flow", flow=FLOW)["tasks"]["first"]
    return {(one["host"], one["executor"]): one["partitions"] for one in tasks if not one["bridge"]}


def wait_until_shown(visitor: Visitor, workers: list[SparkWorker]) -> None:
    """Wait until the page has a task on the executor of each worker, and no other, with all partitions."""

    def shown() -> bool:
        if not all(len(worker.executors) == 1 for worker in workers):
            return False
        places = shown_places(visitor)
        return set(places) == {place_of(worker) for worker in workers} and sum(places.values()) == PARTITIONS

    wait_for(shown, DEADLINE_S, f"the page has the executors of {len(workers)} workers", every_s=0.5)


@pytest.mark.scenario
def test_the_page_of_a_flow_has_each_task_with_its_host_and_its_executor(
    clusters: tuple[KafkaCluster, KafkaCluster],
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    spark: SparkCluster,
    port: int,
) -> None:
    left, right = clusters
    topic = create_topic(left, new_name("t"), PARTITIONS)
    for partition in range(PARTITIONS):
        produce(left, topic, numbered(10), partition=partition)
    spark.have(2)
    file = flow_properties(FLOW, left, right, {"topics": topic, "tasks.max": "2"})
    file += f"twinlog.metrics.listeners = http://127.0.0.1:{port}\n"
    process = run_twinlog("left, right", file, *spark.options)
    process.wait_for_line(f"{FLOW}: Spark's tasks copy now", DEADLINE_S)
    visitor = Visitor(port)
    wait_for(visitor.is_served, DEADLINE_S, "the console is served", every_s=0.5)
    wait_until_shown(visitor, spark.workers)
    first, second = (place_of(worker) for worker in spark.workers)
    assert first[1] != second[1]
    assert (first[0] != second[0]) == can_name_hosts()
    # And so for a reader of the page.
    page = visitor.page("/flow", flow=FLOW)
    table = page[page.index('id="tasks-title"') : page.index('id="processes-title"')]
    for host, executor in (first, second):
        assert f"<td>{host}</td>\n        <td>{executor}</td>" in table
    assert table.count('<th scope="row">') == 2

    # Another executor follows the one that died, on the same worker; then a worker goes with its machine.
    left_alone, leaving = spark.workers
    leaving.executors[0].kill()
    wait_for(
        lambda: len(leaving.executors) == 1 and place_of(leaving) != second, DEADLINE_S, "another executor", every_s=0.5
    )
    wait_until_shown(visitor, [left_alone, leaving])
    spark.drop(leaving)
    wait_until_shown(visitor, [left_alone])
    assert process.terminate() == 0
    for partition in range(PARTITIONS):
        assert len(consume(right, f"left.{topic}", partitions=[partition])) == 10
    assert "Traceback" not in process.log
