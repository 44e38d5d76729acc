"""The worker that runs a connector has its tasks written: by itself where it leads, or else by the leader."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from harness.wait import wait_for
from twinlog.connect.group.member import Assignment
from twinlog.connect.group.state import GroupState
from twinlog.connect.reports import TaskReports
from twinlog.connect.running import RunningConnectors
from twinlog.connect.storage.cluster_state import ClusterState
from twinlog.connect.storage.config_records import CommitRecord, ConnectorRecord, TargetStateRecord, TaskRecord
from twinlog.errors import RequestError
from twinlog.kafka.retry import TASK_CONFIGS
from twinlog.worker.connectors.model import Config, ConnectorName, TargetState, TaskId

C = ConnectorName("c")
LEADER = Assignment(1, "http://leader", True, frozenset({C}), {})
FOLLOWER = Assignment(1, "http://leader", False, frozenset({C}), {})


class Stage:
    """In the place of a group's topics and of what runs here."""

    def __init__(self) -> None:
        self.cluster = ClusterState()
        self.cluster.apply_records([ConnectorRecord(C, {"name": "c"})])
        self.connectors = {C: self}
        self.configs: Sequence[Config] | None = None
        self.written = 0

    def query_state(self, question: Any) -> Any:
        return question(self.cluster, None)

    def task_configs(self, config: Config) -> Sequence[Config] | None:
        assert config == {"name": "c"}
        return self.configs

    def put_tasks(self, name: ConnectorName, configs: Sequence[Config]) -> None:
        self.written += 1
        tasks = [TaskRecord(TaskId(name, number), config) for number, config in enumerate(configs)]
        self.cluster.apply_records([*tasks, CommitRecord(name, len(configs))])


@pytest.fixture
def stage() -> Stage:
    return Stage()


def reports(stage: Stage, clock: VirtualClock, ask: Any = None) -> TaskReports:
    return TaskReports(
        cast(GroupState, stage), cast(RunningConnectors, stage), threading.Lock(), ask or pytest.fail, clock
    )


def test_the_leader_writes_tasks_that_are_others_now(stage: Stage) -> None:
    tasks = reports(stage, VirtualClock())
    tasks.write(LEADER)
    assert stage.written == 0
    for number, configs in enumerate(([{"a": "1"}, {"a": "2"}], [{"a": "3"}], []), start=1):
        stage.configs = configs
        tasks.write(LEADER)
        tasks.write(LEADER)
        assert stage.written == number
        assert list(stage.cluster.connectors[C].tasks) == configs
    # Compaction left a part of them, as a worker sees that begins.
    stage.cluster.apply_records([CommitRecord(C, 2)])
    assert not stage.cluster.connectors[C].consistent
    tasks.write(LEADER)
    assert stage.cluster.connectors[C].consistent


@pytest.mark.parametrize("state", [TargetState.PAUSED, TargetState.STOPPED])
def test_nothing_is_written_of_what_is_not_to_run(stage: Stage, state: TargetState) -> None:
    stage.configs = [{"a": "1"}]
    stage.cluster.apply_records([TargetStateRecord(C, state)])
    reports(stage, VirtualClock()).write(LEADER)
    assert stage.written == 0


def test_another_worker_asks_the_leader_until_it_has_written(stage: Stage) -> None:
    asked: list[tuple[str, ConnectorName]] = []

    def ask(url: str, name: ConnectorName, configs: Sequence[Config]) -> None:
        asked.append((url, name))
        if len(asked) == 1:
            raise RequestError(503, "it is starting")
        stage.put_tasks(name, configs)

    clock = VirtualClock()
    tasks = reports(stage, clock, ask)
    stage.configs = [{"a": "1"}]

    def turn() -> bool:
        tasks.write(FOLLOWER)
        clock.now += TASK_CONFIGS.first_s / 4
        return stage.written > 0

    wait_for(turn, 30, "the leader wrote")
    for _ in range(9):
        turn()
    assert asked == [("http://leader", C)] * 2
