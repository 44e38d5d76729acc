"""What a batch job asks of a Spark cluster: executors for its tasks, with the memory that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.console.spark_batch import SparkSignalHandler, run_in_spark
from twinlog.errors import EngineError
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.replay.job import need_of_replay
from twinlog.ops.replay.model import PartitionToReplay, ReplayRules
from twinlog.ops.replay.planner import ReplayPlan
from twinlog.ops.verify.job import need_of_verification
from twinlog.ops.verify.model import PartitionToVerify, VerifyRules
from twinlog.ops.verify.planner import VerifyPlan
from twinlog.spark.settings import TaskResources

MB = 1 << 20
PARTS = [TopicPartition(TopicName("t"), number) for number in range(10)]


class NoSpark:
    """Is given the settings, and does not start."""

    conf: Mapping[str, str]

    def __init__(self, master: str, conf: Mapping[str, str], *, given: Mapping[str, str]) -> None:
        NoSpark.conf = conf
        self.given = given

    def start(self) -> None:
        raise EngineError("no Spark here")

    def stop(self, seconds: float) -> None:
        pass


def conf_of(monkeypatch: pytest.MonkeyPatch, master: str | None, **conf: str) -> Mapping[str, str]:
    monkeypatch.setattr("twinlog.spark.session.SparkEngine", NoSpark)
    with pytest.raises(EngineError, match="no Spark here"):
        run_in_spark(
            lambda *_: None, master, conf, SparkSignalHandler(), need=TaskResources(6, 64 * MB), doing="x", offsets=1
        )
    return NoSpark.conf


def test_executors_are_sized_where_a_cluster_gives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    found = conf_of(monkeypatch, "k8s://https://api:443")
    assert (found["spark.executor.instances"], found["spark.executor.cores"]) == ("2", "3")
    assert found["spark.executor.memoryOverhead"] == "1088m"
    found = conf_of(monkeypatch, "yarn", **{"spark.executor.cores": "2"})
    assert (found["spark.executor.instances"], found["spark.executor.cores"]) == ("3", "2")
    assert conf_of(monkeypatch, "spark://master:7077")["spark.cores.max"] == "6"
    assert conf_of(monkeypatch, None) == {}


def test_a_job_needs_as_many_tasks_as_its_flows_may_have_and_no_more_than_partitions() -> None:
    flow = replace(SETTINGS, tasks_max=4)
    fetch = flow.consumer.max_partition_fetch_bytes
    rules = VerifyRules(flow.consumer, flow.consumer, "a", "b")
    parts = tuple(PartitionToVerify("a->b", part, part) for part in PARTS)
    plan = VerifyPlan(rules, parts, tasks=4)
    assert need_of_verification([plan, plan]) == TaskResources(8, 4 * fetch + 32 * MB)
    assert need_of_verification([replace(plan, parts=parts[:3])]).tasks == 3
    ranges = tuple(PartitionToReplay(part, part, 0, 1) for part in PARTS)
    replay = ReplayPlan(ReplayRules(flow), ranges, (), {})
    assert need_of_replay(replay) == TaskResources(4, 5 * fetch + 32 * MB)
    assert need_of_replay(replace(replay, parts=ranges[:2])).tasks == 2
