"""Connectors begin, fail, pause, end and begin anew in a process; what they do is pretended."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from harness.wait import wait_for
from tests.unit.connect.one_connector import C, attend, flow, have, shown, states
from twinlog.config.connector import ConnectorFlow
from twinlog.connect import running as module
from twinlog.connect.running import RunningConnectors
from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.settings.flow import (
    FlowSettings,
)
from twinlog.worker.connectors.model import ConnectorName, ConnectorState, RestartRequest, TargetState, TaskId
from twinlog.worker.spark_flows import SparkOptions

ALL = RestartRequest(C, include_tasks=True)


class Groups:
    """In the place of a GroupsFlow."""

    made: list[Groups]
    error: ClusterError | None
    groups: tuple[str, ...] | None = ("g",)

    def __init__(self, settings: FlowSettings, *_: object, **__: object) -> None:
        if self.error is not None:
            raise self.error
        self.settings = settings
        self.failure: str | None = None
        self.trouble: str | None = None
        self.done: list[str] = []
        self.made.append(self)

    def start(self) -> None:
        self.done.append("started")

    def poll_flow(self) -> None: ...

    def take_written(self) -> set[str]:
        return set(self.settings.topics)

    def stop(self) -> None:
        self.done.append("stopped")

    def close(self) -> None:
        self.done.append("closed")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Groups]:
    monkeypatch.setattr(module, "GroupsFlow", Groups)
    Groups.made, Groups.error = [], None
    return Groups.made


@pytest.fixture
def allowed() -> list[float]:
    return [5.0]


@pytest.fixture
def running(made: list[Groups], allowed: list[float]) -> RunningConnectors:
    return RunningConnectors(SparkOptions(), lambda _: allowed[0], list)


def test_what_will_not_work_beside_the_others_is_logged_once(
    running: RunningConnectors, caplog: pytest.LogCaptureFixture
) -> None:
    running.set_connector(C, flow(), TargetState.STARTED, None)
    for text in ("no syncs", "no syncs", None, "no syncs", "another separator"):
        running.remark(C, text)
    running.remark(ConnectorName("elsewhere"), "no syncs")
    assert caplog.messages == [
        f"TW-WORKER-11: connector c: {text}" for text in ("no syncs", "no syncs", "another separator")
    ]


def test_a_connector_runs_and_follows_its_configuration(running: RunningConnectors, made: list[Groups]) -> None:
    for _ in range(3):
        have(running)
    attend(running)
    assert [one.done for one in made] == [["started"]]
    assert states(running) == (ConnectorState.RUNNING, [ConnectorState.RUNNING])
    have(running, flow=flow("b"))
    attend(running)
    assert [one.done for one in made] == [["started", "stopped", "closed"], ["started"]]
    assert made[1].settings.topics == ("b",)
    running.restart(ALL)
    attend(running)
    assert len(made) == 3


def test_what_has_ended_wrote_to_its_topics_all_the_same(running: RunningConnectors, made: list[Groups]) -> None:
    have(running)
    one = running.connectors[C]
    assert one.take_written(running=False) == set()
    have(running, flow=flow("b"))
    assert one.take_written(running=False) == {"a"}
    have(running, TargetState.STOPPED, flow=flow("b"))
    assert one.take_written(running=True) == {"b"}
    assert one.take_written(running=True) == set()


@pytest.mark.usefixtures("made")
def test_what_is_doubtful_in_a_configuration_is_logged_once(
    running: RunningConnectors, caplog: pytest.LogCaptureFixture
) -> None:
    doubtful = replace(flow(), warnings=("connector c: topic: an unknown key, ignored",))
    for _ in range(2):
        have(running, flow=doubtful)
    assert caplog.messages == ["TW-FILE-21: connector c: topic: an unknown key, ignored"]
    have(running, flow=replace(doubtful, warnings=("connector c: topik: an unknown key, ignored",)))
    assert caplog.messages[1:] == [
        "connector c: its configuration was updated",
        "TW-FILE-21: connector c: topik: an unknown key, ignored",
    ]


def test_a_paused_connector_has_tasks_and_a_stopped_one_has_none(
    running: RunningConnectors, made: list[Groups]
) -> None:
    have(running)
    attend(running)
    have(running, TargetState.PAUSED)
    assert states(running) == (ConnectorState.PAUSED, [ConnectorState.PAUSED])
    assert made[0].done[-1] == "closed"
    have(running, TargetState.STOPPED)
    assert states(running) == (ConnectorState.STOPPED, [])
    have(running)
    attend(running)
    assert states(running) == (ConnectorState.RUNNING, [ConnectorState.RUNNING])
    assert len(made) == 2


def test_its_tasks_are_made_of_what_it_is_given_and_known_when_that_is(
    running: RunningConnectors, made: list[Groups], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Groups, "groups", None)
    config = {"name": C, "tasks.max": "2"}
    have(running)
    one = running.connectors[C]
    assert (one.task_configs(config), states(running)) == (None, (ConnectorState.RUNNING, []))
    made[0].groups = ("g", "h")
    attend(running)
    (task,) = one.task_configs(config) or ()
    assert task["task.assigned.groups"] == "g,h"
    assert task["task.class"].endswith("MirrorCheckpointTask")
    assert one.task_configs(config) is one.task_configs(config)
    made[0].groups = ()
    assert one.task_configs(config) == []
    have(running, TargetState.PAUSED)
    assert one.task_configs(config) is None


def test_a_paused_connector_keeps_the_tasks_that_it_had_elsewhere(running: RunningConnectors) -> None:
    running.set_connector(C, flow(), TargetState.PAUSED, None, 3)
    attend(running)
    assert states(running) == (ConnectorState.PAUSED, [ConnectorState.PAUSED] * 3)


def test_a_failed_task_is_begun_anew_when_it_is_asked_for(running: RunningConnectors, made: list[Groups]) -> None:
    have(running)
    made[0].failure = "no permission"
    attend(running)
    assert states(running) == (ConnectorState.RUNNING, [ConnectorState.FAILED])
    assert running.connectors[C].task_states("w", 1)[0].trace == "TW-FLOW-01: no permission"
    # Pausing fixes nothing, as in Connect.
    have(running, TargetState.PAUSED)
    assert states(running) == (ConnectorState.PAUSED, [ConnectorState.FAILED])
    have(running)
    assert states(running) == (ConnectorState.RUNNING, [ConnectorState.FAILED])
    running.restart(RestartRequest(C, only_failed=True))
    attend(running)
    assert len(made) == 1
    running.restart(RestartRequest(C, include_tasks=True, only_failed=True))
    attend(running)
    assert shown(running) == (ConnectorState.RUNNING, [ConnectorState.RESTARTING])
    assert shown(running) == (ConnectorState.RUNNING, [ConnectorState.RUNNING])
    assert len(made) == 2


def test_only_what_is_asked_for_is_restarted(running: RunningConnectors, made: list[Groups]) -> None:
    have(running)
    attend(running)
    running.restart(RestartRequest(C))
    assert shown(running) == (ConnectorState.RESTARTING, [ConnectorState.RUNNING])
    attend(running)
    assert shown(running) == (ConnectorState.RUNNING, [ConnectorState.RUNNING])
    running.restart(RestartRequest(C, include_tasks=True, only_failed=True))
    attend(running)
    assert shown(running) == (ConnectorState.RUNNING, [ConnectorState.RUNNING])
    assert len(made) == 1
    running.restart_task(TaskId(C, 0))
    assert shown(running) == (ConnectorState.RUNNING, [ConnectorState.RESTARTING])
    attend(running)
    wait_for(lambda: shown(running) == (ConnectorState.RUNNING, [ConnectorState.RUNNING]), 60, "the task runs")
    assert len(made) == 2


def test_nothing_is_paused_or_stopped_before_it_has_ended(
    running: RunningConnectors, made: list[Groups], monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(Groups, "stop", lambda self: goes_on.wait(60))
    have(running)
    attend(running)
    running.set_connector(C, flow(), TargetState.STOPPED, None)
    running.poll_connectors()
    assert states(running) == (ConnectorState.RUNNING, [ConnectorState.RUNNING])
    running.set_connector(C, flow(), TargetState.PAUSED, None)
    assert states(running) == (ConnectorState.RUNNING, [ConnectorState.RUNNING])
    running.set_connector(C, flow(), TargetState.STOPPED, None)
    goes_on.set()
    attend(running)
    assert states(running) == (ConnectorState.STOPPED, [])


def test_what_cannot_begin_fails_with_its_reason(running: RunningConnectors, made: list[Groups]) -> None:
    have(running, flow=None, refused="tasks.max: many")
    assert states(running) == (ConnectorState.FAILED, [])
    assert running.connectors[C].connector_state("w", 1).trace == "TW-FILE-22: tasks.max: many"
    Groups.error = ClusterError("no such host")
    have(running)
    assert states(running) == (ConnectorState.FAILED, [])
    assert running.connectors[C].connector_state("w", 1).trace == "TW-FLOW-01: no such host"
    # Nobody asked for another try.
    Groups.error = None
    have(running)
    assert made == []
    running.restart(ALL)
    attend(running)
    assert shown(running) == (ConnectorState.RESTARTING, [ConnectorState.RUNNING])
    assert states(running) == (ConnectorState.RUNNING, [ConnectorState.RUNNING])


def test_nothing_begins_while_another_worker_may_run_it(
    running: RunningConnectors, made: list[Groups], allowed: list[float]
) -> None:
    allowed[0] = 0.0
    have(running)
    assert made == []
    allowed[0] = 5.0
    attend(running)
    assert len(made) == 1


def test_what_is_removed_ends(running: RunningConnectors, made: list[Groups]) -> None:
    have(running)
    running.remove(C)
    attend(running)
    assert running.connectors == {}
    assert made[0].done[-1] == "closed"
    have(running, flow=flow(idle=True))
    attend(running)
    assert states(running) == (ConnectorState.RUNNING, [])
    running.stop()
    assert running.connectors == {}


def test_what_a_connector_waits_for_is_told_until_it_begins(made: list[Groups]) -> None:
    reasons: list[TwinlogError | None] = [ClusterError("the target does not answer"), None]

    def may_begin(_: ConnectorFlow) -> bool:
        if isinstance(reasons[0], TwinlogError):
            raise reasons[0]
        return reasons[0] is None

    running = RunningConnectors(SparkOptions(), lambda _: 5.0, list, may_begin=may_begin)
    have(running)
    status = running.connectors[C].connector_state("w", 1)
    assert (status.state, status.trace, made) == (ConnectorState.RUNNING, "TW-NET-14: the target does not answer", [])
    del reasons[0]
    attend(running)
    status = running.connectors[C].connector_state("w", 1)
    assert (status.state, status.trace, len(made)) == (ConnectorState.RUNNING, None, 1)

    reasons[:] = [RefusedError("it lacks READ")]
    have(running, TargetState.STOPPED)
    have(running)
    status = running.connectors[C].connector_state("w", 1)
    assert (status.state, status.trace) == (ConnectorState.FAILED, "TW-RIGHT-02: it lacks READ")


def test_what_ends_does_so_without_a_thread_for_it(
    running: RunningConnectors, made: list[Groups], monkeypatch: pytest.MonkeyPatch
) -> None:
    have(running)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        have(running, TargetState.PAUSED)
        assert shown(running) == (ConnectorState.PAUSED, [ConnectorState.PAUSED])
        have(running)
        running.stop()
    assert [one.done for one in made] == [["started", "stopped", "closed"]] * 2


def test_what_will_not_work_and_what_does_not_just_now_is_told_of_what_runs(
    running: RunningConnectors, made: list[Groups]
) -> None:
    have(running)
    made[0].trouble = "the source does not answer"
    attend(running)
    running.remark(C, "nobody writes offset syncs")
    connector = running.connectors[C]
    assert connector.task_states("w", 1)[0].trace is None
    connector.update_trouble(float("inf"))
    told = connector.connector_state("w", 1), connector.task_states("w", 1)[0]
    assert [one.state for one in told] == [ConnectorState.RUNNING, ConnectorState.RUNNING]
    assert [one.trace for one in told] == [
        "TW-WORKER-11: nobody writes offset syncs",
        "TW-WAIT-05: the source does not answer",
    ]
    made[0].trouble = None
    attend(running)
    assert connector.task_states("w", 1)[0].trace is None
