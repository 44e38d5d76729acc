"""A flow on a real standalone Spark, with nothing but `--master`: executors, workers and its own JVM die under it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.checker import SLOW_TICK_S, Load
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.spark_cluster import SparkCluster
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.arriving import LoadedFlow, both_ways, require_true_copies, wait_until_copied
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.integration.running import RunTwinlog
from twinlog.spark.session import SparkEngine

PARTITIONS = 4
RATE = 1000
SLOW_RATE = 300


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkCluster]:
    """For all tests of this module; each says how many workers it needs."""
    with SparkCluster() as cluster:
        yield cluster


def test_executors_are_given_back_while_a_process_stands_by(spark: SparkCluster) -> None:
    spark.have(1)
    (worker,) = spark.workers
    engine = SparkEngine(spark.master, {**spark.driver_settings, "spark.cores.max": "1"})
    try:
        engine.start()
        wait_for(lambda: engine.slots == 1, 150, "it has the only slot")
        engine.take_executors(0)
        # Free for others, and for as long as nobody asks again.
        wait_for(lambda: engine.slots == 0 and not worker.executors, 60, "the slot is free")
        engine.take_executors(1)
        wait_for(lambda: engine.slots == 1 and len(worker.executors) == 1, 150, "it has the slot again")
    finally:
        engine.stop(5.0)


def test_two_processes_on_one_slot_do_not_lock_each_other_out(
    clusters: tuple[KafkaCluster, KafkaCluster],
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    spark: SparkCluster,
) -> None:
    """Whoever runs the flow gets the slot, also while another flow has failed in both."""
    near, far = clusters
    topic = create_topic(near, new_name("t"))
    remote = f"near.{topic}"
    file = flow_properties("near->far", near, far, {"topics": topic})
    # It fails, as a cluster cannot be mirrored to itself.
    file += f"twin.bootstrap.servers = {near.bootstrap}\nnear->twin.enabled = true\n"
    file += "near->twin.offset.storage.replication.factor = 1\n"
    total = 0

    def goes_on() -> None:
        nonlocal total
        produce(near, topic, numbered(10, start=total))
        total += 10

        def there() -> bool:
            return remote in topics(far) and offsets(far, remote)[1] >= total

        try:
            wait_for(there, 200, f"{total} records are copied")
        except TimeoutError as late:
            raise AssertionError(f"{late}\n{first.log}\n\n{second.log}") from late

    spark.have(1)
    first, second = (run_twinlog("near, far, twin", file, *spark.options) for _ in range(2))
    for process in (first, second):
        process.wait_for_line("near->twin: FAILED", 200)
    goes_on()
    runner, other = (first, second) if "near->far: this process" in first.log else (second, first)
    other.wait_for_line(r"standing by without executors; .* is asked for 2 cores when", 200)

    # The runner falls silent, and finds on waking that the slot which it has is wanted elsewhere.
    frozen = [psutil.Process(runner.pid), *runner.descendants()]
    for one in frozen:
        one.suspend()
    other.wait_for_line(r"near->far: this process .* runs the flow", 200)
    for one in frozen:
        one.resume()
    runner.wait_for_line("standing by without executors", 200)
    goes_on()

    other.kill()
    runner.wait_for_line(r"near->far: this process .* runs the flow", 200, times=2)
    goes_on()
    assert runner.terminate() == 1
    assert sorted(int(record.value or b"") for record in consume(far, remote)) == list(range(total))


def test_executors_and_workers_die(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    new_name: Callable[[str], str],
    tmp_path: Path,
    chance: random.Random,
    spark: SparkCluster,
) -> None:
    topic = create_topic(source_cluster, new_name("t"), PARTITIONS)
    load = Load(source_cluster, topic, PARTITIONS, rate=RATE, tick_s=SLOW_TICK_S)
    flows = (LoadedFlow(source_cluster, target_cluster, f"lone.{topic}", load),)

    settings = {"topics": topic, "tasks.max": "2"}
    properties = flow_properties("lone->near", source_cluster, target_cluster, settings)
    spark.have(2)
    twinlog = MirrorProcess(tmp_path, "lone, near", properties, *spark.options)
    twinlog.start()
    try:
        with load:
            twinlog.wait_for_line(r"4 partitions in 2 tasks", 150)
            wait_until_copied(twinlog, flows)

            chance.choice(spark.workers).executors[0].kill()
            twinlog.wait_for_line(r"lease \d+: 4 partitions in 1 task$", 120)
            wait_until_copied(twinlog, flows)
            # Its worker starts another.
            twinlog.wait_for_line(r"lease \d+: 4 partitions in 2 tasks", 120, times=2)
            wait_until_copied(twinlog, flows, RATE)

            chance.choice(spark.workers).kill()
            twinlog.wait_for_line(r"lease \d+: 4 partitions in 1 task$", 120, times=2)
            wait_until_copied(twinlog, flows, 2 * RATE)

            # The driver's own; its application is gone for the master, and comes back as another one.
            twinlog.jvm().kill()
            twinlog.wait_for_line(r"Spark's JVM was killed by SIGKILL", 120)
            wait_until_copied(twinlog, flows, RATE)
        wait_until_copied(twinlog, flows)
        assert twinlog.terminate() == 0
    finally:
        if twinlog.alive:
            twinlog.kill()
    require_true_copies(flows)


def test_flows_share_the_slot_that_is_left(
    clusters: tuple[KafkaCluster, KafkaCluster],
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    spark: SparkCluster,
) -> None:
    left, right = clusters
    flows = both_ways(clusters, new_name, PARTITIONS, SLOW_RATE)
    there, back = (flow.load.topic for flow in flows)
    spark.have(2)
    process = run_twinlog(
        "left, right",
        flow_properties("left->right", left, right, {"topics": there})
        + flow_properties("right->left", right, left, {"topics": back}),
        *spark.options,
    )

    with flows[0].load, flows[1].load:
        process.wait_for_line(r"lease \d+: 4 partitions in 1 task$", 200, times=2)
        wait_until_copied(process, flows, SLOW_RATE)
        shared = process.log.count("share one")
        # Its machine does not come back.
        spark.workers[0].kill()
        process.wait_for_line(r"Spark runs 1 task at once for 2 flows: left->right, right->left share one", 120)
        assert process.log.count("share one") == shared + 1
        wait_until_copied(process, flows, SLOW_RATE)
    wait_until_copied(process, flows)
    assert process.terminate() == 0
    require_true_copies(flows)
    assert "Traceback" not in process.log
