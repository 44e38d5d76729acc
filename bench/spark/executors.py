"""Measures what a lost executor costs: for how long its partitions stand still, on a standalone Spark of three workers.

Load goes on meanwhile, and the end of every remote partition is looked at: a partition stands still from one record on
the target to the next.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from bench.items.kinds import ExecutorItem
from harness.checks.checker import Load, require_clean
from harness.child import Child
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.spark.cluster import SparkCluster, SparkWorker
from harness.topics import create_topic
from harness.wait import wait_for

SOURCE, TARGET = "src", "dst"
WORKERS = 3
LOOK_S = 0.05
DEADLINE_S = 300.0
STEADY_S = 5.0
"""So long every partition has to move before something is done to an executor, and afterwards."""
GAP_S = 1.0
"""A partition that stands still for less than this moves."""


@dataclass(frozen=True, slots=True)
class ExecutorFigures:
    """The longest time for which any partition stood still, in seconds: without an event, and after each kind of one.

    `executor_s`: the executor's JVM is killed, and its worker starts another. `drained_s`: the worker is told to
    decommission, which its executor survives until it is drained. `worker_s`: everything of one worker is killed, so
    that connections break. `silent_s`: everything of one worker is suspended, as a machine that is cut off.
    """

    steady_s: float
    executor_s: float
    drained_s: float
    worker_s: float
    silent_s: float


class Ends:
    """Looks at the ends of all partitions of a topic again and again; remembers when each of them moved last."""

    def __init__(self, cluster: KafkaCluster, topic: str, partitions: int) -> None:
        self._admin = cluster.clients.admin()
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        self._wanted = {TopicPartition(topic, number): latest for number in range(partitions)}
        self._ends = [0] * partitions
        self._lock = threading.Lock()
        self._moved = [time.monotonic()] * partitions
        self._worst = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Ends:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()

    def begin(self) -> None:
        """Forget what was so far."""
        with self._lock:
            self._worst = 0.0

    @property
    def worst_s(self) -> float:
        """For how long any partition stood still at most since then, one that still does included."""
        with self._lock:
            return max(self._worst, time.monotonic() - min(self._moved))

    @property
    def all_move(self) -> bool:
        with self._lock:
            return time.monotonic() - min(self._moved) < GAP_S

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            found = self._admin.list_offsets(self._wanted, request_timeout=30)
            now = time.monotonic()
            ends = {where.partition: future.result().offset for where, future in found.items()}
            with self._lock:
                for number, end in ends.items():
                    if end > self._ends[number]:
                        self._worst = max(self._worst, now - self._moved[number])
                        self._ends[number], self._moved[number] = end, now


def measure_executors(
    item: ExecutorItem, source: KafkaCluster, target: KafkaCluster, work: Path, say: Callable[[str], None]
) -> ExecutorFigures:
    """Raises HarnessError, TimeoutError, or AssertionError where the copy is not whole at the end."""
    topic = create_topic(source, item.name, item.partitions)
    work.mkdir(parents=True, exist_ok=True)
    file = work / "flow.properties"
    file.write_text(_properties(item, source, target), encoding="utf-8")
    load = Load(source, topic, item.partitions, rate=item.per_second, tick_s=LOOK_S / item.partitions)
    with SparkCluster() as spark, load:
        spark.have(WORKERS)
        command = [sys.executable, "-m", "twinlog", "run", str(file), "--clusters", TARGET, *spark.options]
        process = Child("twinlog", command, work / "twinlog.log")
        process.start()
        remote = f"{SOURCE}.{topic}"
        try:
            wait_for(lambda: _leases(process, item) > 0, DEADLINE_S, "it copies in three tasks")
            with Ends(target, remote, item.partitions) as ends:
                figures = _all(item, spark, process, ends, say)
            load.stop()
            wait_for(lambda: _copied(target, remote, item.partitions) >= load.total, DEADLINE_S, "all is copied")
            require_clean(source, topic, target, remote)
            return figures
        except TimeoutError as late:
            raise HarnessError(f"{late}. The log of twinlog ends:\n{process.log_tail(60)}") from late
        finally:
            process.terminate(40)


def _all(
    item: ExecutorItem, spark: SparkCluster, process: Child, ends: Ends, say: Callable[[str], None]
) -> ExecutorFigures:
    found = {}
    acts: dict[str, Callable[[SparkWorker], object]] = {
        "steady_s": lambda worker: None,
        "executor_s": lambda worker: worker.executors[0].kill(),
        "drained_s": SparkWorker.decommission,
        "worker_s": SparkWorker.kill,
        "silent_s": SparkWorker.suspend,
    }
    for name, act in acts.items():
        say(f"{name}: waiting until {WORKERS} workers copy")
        _settle(item, spark, process, ends)
        ends.begin()
        act(spark.workers[0])
        time.sleep(STEADY_S)
        wait_for(lambda: ends.all_move, DEADLINE_S, f"{name}: every partition is copied again")
        time.sleep(STEADY_S)
        found[name] = ends.worst_s
        say(f"{name}: a partition stood still for {found[name]:.1f} s at most")
        if act not in (acts["steady_s"], acts["executor_s"]):
            spark.drop(spark.workers[0])
    return ExecutorFigures(**found)


def _settle(item: ExecutorItem, spark: SparkCluster, process: Child, ends: Ends) -> None:
    """Wait until there are three workers whose executors copy."""
    spark.have(WORKERS)
    still = time.monotonic()

    def steady() -> bool:
        nonlocal still
        process.require_alive()
        busy = all(len(worker.executors) == 1 for worker in spark.workers)
        if not (busy and _tasks(process) == WORKERS and ends.all_move):
            still = time.monotonic()
        return time.monotonic() - still > STEADY_S

    wait_for(steady, DEADLINE_S, "three executors copy")


def _leases(process: Child, item: ExecutorItem) -> int:
    return process.log.read_text(errors="replace").count(f"{item.partitions:,} partitions in {WORKERS} tasks")


def _tasks(process: Child) -> int:
    """In how many tasks the flow was copied when that was logged last."""
    found = re.findall(r"partitions in (\d+) task", process.log.read_text(errors="replace"))
    return int(found[-1]) if found else 0


def _copied(cluster: KafkaCluster, topic: str, partitions: int) -> int:
    return sum(cluster.clients.watermarks(TopicPartition(topic, number), 30)[1] for number in range(partitions))


def _properties(item: ExecutorItem, source: KafkaCluster, target: KafkaCluster) -> str:
    flow = f"{SOURCE}->{TARGET}"
    lines = {
        "clusters": f"{SOURCE}, {TARGET}",
        f"{SOURCE}.bootstrap.servers": source.bootstrap,
        f"{TARGET}.bootstrap.servers": target.bootstrap,
        f"{flow}.enabled": "true",
        f"{flow}.topics": item.name,
        f"{flow}.tasks.max": str(WORKERS),
        "replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "emit.heartbeats.enabled": "false",
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())
