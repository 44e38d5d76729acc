"""A flow on a real standalone Spark, with nothing but `--master`: executors and workers die under it.

That another JVM follows one that has died is the same on a cluster as without: `make test` sees it in `test_engine`.
"""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from harness.checks.checker import SLOW_TICK_S, Load
from harness.child import send
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.spark.cluster import SparkCluster
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.connect_worker import ConnectWorker, connector
from tests.integration.flows.arriving import LoadedFlow, require_true_copies, wait_until_copied
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.integration.running import RunTwinlog
from twinlog.spark.session import SparkEngine

PARTITIONS = 4
RATE = 300
LEASE = re.compile(rf"left->right: lease \d+: {PARTITIONS} partitions in (\d+) tasks?$", re.MULTILINE)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkCluster]:
    """For all tests of this module; each says how many workers it needs."""
    with SparkCluster() as cluster:
        yield cluster


@pytest.fixture
def flow(clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str]) -> LoadedFlow:
    """The flow left->right of a new topic; its load has not begun."""
    left, right = clusters
    topic = create_topic(left, new_name("t"), PARTITIONS)
    return LoadedFlow(left, right, f"left.{topic}", Load(left, topic, PARTITIONS, rate=RATE, tick_s=SLOW_TICK_S))


def file_of(flow: LoadedFlow, tasks: int = 1) -> str:
    settings = {"topics": flow.load.topic, "tasks.max": str(tasks)}
    return flow_properties("left->right", flow.source, flow.target, settings)


def require_good_end(process: MirrorProcess, flow: LoadedFlow) -> None:
    """Wait until all records are copied, end the process, and judge the copies and the log."""
    wait_until_copied(process, [flow])
    assert process.terminate() == 0
    require_true_copies([flow])
    assert "Traceback" not in process.log


@pytest.mark.scenario
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


@pytest.mark.scenario
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
    # It fails, as a cluster cannot be mirrored to itself while topics keep their names.
    file += f"twin.bootstrap.servers = {near.bootstrap}\nnear->twin.enabled = true\n"
    file += "near->twin.offset.storage.replication.factor = 1\n"
    file += "near->twin.replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
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
    send(signal.SIGSTOP, frozen)
    other.wait_for_line(r"near->far: this process .* runs the flow", 200)
    send(signal.SIGCONT, frozen)
    runner.wait_for_line("standing by without executors", 200)
    goes_on()

    other.kill()
    runner.wait_for_line(r"near->far: this process .* runs the flow", 200, times=2)
    goes_on()
    assert runner.terminate() == 1
    assert sorted(int(record.value or b"") for record in consume(far, remote)) == list(range(total))


@pytest.mark.scenario
def test_executors_and_workers_die(
    flow: LoadedFlow,
    run_twinlog: RunTwinlog,
    chance: random.Random,
    spark: SparkCluster,
) -> None:
    """Two tasks, for which fewer and fewer slots are left."""
    spark.have(2)
    process = run_twinlog("left, right", file_of(flow, tasks=2), *spark.options)

    def has_tasks(count: int) -> None:
        """Its newest lease has so many, and the flow goes on."""
        wait_for(lambda: LEASE.findall(process.log)[-1:] == [str(count)], 200, f"a lease in {count} tasks")
        wait_until_copied(process, [flow], RATE)

    def kill_worker() -> None:
        # Its machine does not come back.
        worker = chance.choice(spark.workers)
        spark.workers.remove(worker)
        worker.kill()

    with flow.load:
        process.wait_for_line("left->right: the bridge copies until Spark has a task for the flow")
        process.wait_for_line("left->right: Spark's tasks copy now", 200)
        has_tasks(2)
        worker = chance.choice(spark.workers)
        dead = worker.executors[0]
        dead.kill()
        # Its worker starts another. Until then there is one slot.
        wait_for(lambda: worker.executors and dead not in worker.executors, 200, "another executor")
        has_tasks(2)
        kill_worker()
        has_tasks(1)
    require_good_end(process, flow)


@pytest.mark.scenario
def test_the_drivers_jvm_dies(
    flow: LoadedFlow,
    run_twinlog: RunTwinlog,
    spark: SparkCluster,
) -> None:
    """Its application is gone for the master, and comes back as another one."""
    spark.have(1)
    process = run_twinlog("left, right", file_of(flow), *spark.options)
    with flow.load:
        process.wait_for_line("left->right: Spark's tasks copy now", 200)
        wait_until_copied(process, [flow], RATE)
        process.jvm().kill()
        process.wait_for_line(r"Spark's JVM was killed by SIGKILL", 200)
        process.wait_for_line("left->right: the bridge copies until Spark has a task for the flow", 200, times=2)
        wait_until_copied(process, [flow], RATE)
        process.wait_for_line("left->right: Spark's tasks copy now", 200, times=2)
    require_good_end(process, flow)


@pytest.mark.scenario
def test_a_worker_that_is_decommissioned_is_drained_before_its_executor_goes(
    flow: LoadedFlow,
    run_twinlog: RunTwinlog,
    spark: SparkCluster,
) -> None:
    spark.have(2)
    leaving, other = spark.workers
    process = run_twinlog("left, right", file_of(flow, tasks=2), *spark.options)
    with flow.load:
        wait_for(lambda: leaving.executors and other.executors, 200, "both have an executor")
        process.wait_for_line("left->right: Spark's tasks copy now", 200)
        wait_for(lambda: LEASE.findall(process.log)[-1:] == ["2"], 200, "both copy")
        wait_until_copied(process, [flow], RATE)
        leaving.decommission()
        process.wait_for_line(r"left->right: \d+ partitions move: Spark decommissions their executors", 200)
        wait_for(lambda: not leaving.executors, 200, "its executor has ended by itself")
        assert leaving.process.alive
        wait_until_copied(process, [flow], RATE)
        # And another comes.
        spark.drop(leaving)
        spark.have(2)
        wait_for(lambda: all(worker.executors for worker in spark.workers), 200, "another worker copies, too")
        wait_until_copied(process, [flow], RATE)
    require_good_end(process, flow)
    assert "is gone, other copiers take over" not in process.log, "no copier was cut off with its executor"


@pytest.mark.scenario
def test_workers_of_a_connect_group_take_over_on_one_spark_cluster(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], spark: SparkCluster, tmp_path: Path
) -> None:
    source, target = clusters
    spark.have(2)
    group, topics_of = new_name("workers"), {f"c{number}": new_name("t") for number in range(2)}
    workers = [
        ConnectWorker(tmp_path / f"worker-{number}", target, group, arguments=spark.options) for number in range(2)
    ]
    total = 0

    def has(remote: str, count: int) -> bool:
        return remote in topics(target) and offsets(target, remote)[1] >= count

    def goes_on() -> None:
        nonlocal total
        for name, topic in topics_of.items():
            produce(source, topic, numbered(10, start=total))
            remote = f"{name}.{topic}"
            try:
                wait_for(
                    partial(has, remote, total + 10),
                    200,
                    f"{remote} has {total + 10} records",
                )
            except TimeoutError as late:
                raise AssertionError("\n\n".join([str(late), *(one.log for one in workers)])) from late
        total += 10

    try:
        first, second = (one.start() for one in workers)
        for name, topic in topics_of.items():
            create_topic(source, topic)
            assert first.put(name, connector("Source", source, target, f"{name}->t", topics=topic))[0] == 201
        goes_on()
        owners = {first.wait_for_state(name, "RUNNING", tasks=1)["connector"]["worker_id"] for name in topics_of}
        assert len(owners) == 2, "each has one of those that copy"
        second.process.kill()
        goes_on()
        for name in topics_of:
            first.wait_until_it_has(name)
        assert first.process.terminate()
        assert "Traceback" not in first.log
    finally:
        for one in workers:
            one.close()
    for name, topic in topics_of.items():
        assert [int(record.value or b"") for record in consume(target, f"{name}.{topic}")] == list(range(total))
