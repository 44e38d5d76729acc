"""Connectors begin, fail, pause, end and begin anew in a process; what they do is pretended."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from harness.wait import wait_for
from twinlog.config.connector import ConnectorFlow
from twinlog.connect import running as module
from twinlog.connect.model import ConnectorName, Restart, State, TargetState, TaskId
from twinlog.connect.running import RunningConnectors
from twinlog.driver import spark_flows
from twinlog.driver.spark_flows import SparkOptions
from twinlog.errors import ClusterError, EngineError, RefusedError, TwinlogError
from twinlog.model.types import Alias
from twinlog.settings.flow import (
    AdminSettings,
    ClientSettings,
    ConsumerSettings,
    FlowSettings,
    ProducerSettings,
)

CLIENT = ClientSettings(("127.0.0.1:1",))
C = ConnectorName("c")
ALL = Restart(C, include_tasks=True)


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

    def attend(self) -> None: ...

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


def flow(topics: str = "a", *, idle: bool = False) -> ConnectorFlow:
    settings = FlowSettings(
        Alias("a"), Alias("b"), ConsumerSettings(CLIENT), ProducerSettings(CLIENT), AdminSettings(CLIENT),
        AdminSettings(CLIENT), topics=(topics,), kind="checkpoint", connector_name=C,
    )  # fmt: skip
    return ConnectorFlow(C, settings, idle)


def test_what_will_not_work_beside_the_others_is_logged_once(
    running: RunningConnectors, caplog: pytest.LogCaptureFixture
) -> None:
    running.set(C, flow(), TargetState.STARTED, None)
    for text in ("no syncs", "no syncs", None, "no syncs", "another separator"):
        running.remark(C, text)
    running.remark(ConnectorName("elsewhere"), "no syncs")
    assert caplog.messages == ["connector c: no syncs", "connector c: no syncs", "connector c: another separator"]


def states(running: RunningConnectors) -> Any:
    one = running.connectors[C]
    tasks = one.task_states("w:1", 7)
    return one.connector_state("w:1", 7).state, [status.state for status in tasks.values()]


def shown(running: RunningConnectors) -> Any:
    """The states as they are written, which is what a restart waits for."""
    found = states(running)
    running.connectors[C].shown()
    return found


def attend(running: RunningConnectors) -> None:
    """Until what is being ended has ended, and what begins has begun."""

    def ended() -> bool:
        running.attend()
        return not any(one.again for one in running.connectors.values())

    wait_for(ended, 60, "what ends has ended")
    running.attend()
    running.attend()


def have(running: RunningConnectors, target: TargetState = TargetState.STARTED, **more: Any) -> None:
    running.set(C, more.get("flow", flow()), target, more.get("refused"))
    attend(running)


def test_a_connector_runs_and_follows_its_configuration(running: RunningConnectors, made: list[Groups]) -> None:
    for _ in range(3):
        have(running)
    attend(running)
    assert [one.done for one in made] == [["started"]]
    assert states(running) == (State.RUNNING, [State.RUNNING])
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
    assert caplog.messages == ["connector c: topic: an unknown key, ignored"]
    have(running, flow=replace(doubtful, warnings=("connector c: topik: an unknown key, ignored",)))
    assert caplog.messages[1:] == [
        "connector c: its configuration was updated",
        "connector c: topik: an unknown key, ignored",
    ]


def test_a_paused_connector_has_tasks_and_a_stopped_one_has_none(
    running: RunningConnectors, made: list[Groups]
) -> None:
    have(running)
    attend(running)
    have(running, TargetState.PAUSED)
    assert states(running) == (State.PAUSED, [State.PAUSED])
    assert made[0].done[-1] == "closed"
    have(running, TargetState.STOPPED)
    assert states(running) == (State.STOPPED, [])
    have(running)
    attend(running)
    assert states(running) == (State.RUNNING, [State.RUNNING])
    assert len(made) == 2


def test_its_tasks_are_made_of_what_it_is_given_and_known_when_that_is(
    running: RunningConnectors, made: list[Groups], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Groups, "groups", None)
    config = {"name": C, "tasks.max": "2"}
    have(running)
    one = running.connectors[C]
    assert (one.task_configs(config), states(running)) == (None, (State.RUNNING, []))
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
    running.set(C, flow(), TargetState.PAUSED, None, 3)
    attend(running)
    assert states(running) == (State.PAUSED, [State.PAUSED] * 3)


def test_a_failed_task_is_begun_anew_when_it_is_asked_for(running: RunningConnectors, made: list[Groups]) -> None:
    have(running)
    made[0].failure = "no permission"
    attend(running)
    assert states(running) == (State.RUNNING, [State.FAILED])
    assert running.connectors[C].task_states("w", 1)[0].trace == "no permission"
    # Pausing mends nothing, as in Connect.
    have(running, TargetState.PAUSED)
    assert states(running) == (State.PAUSED, [State.FAILED])
    have(running)
    assert states(running) == (State.RUNNING, [State.FAILED])
    running.restart(Restart(C, only_failed=True))
    attend(running)
    assert len(made) == 1
    running.restart(Restart(C, include_tasks=True, only_failed=True))
    attend(running)
    assert shown(running) == (State.RUNNING, [State.RESTARTING])
    assert shown(running) == (State.RUNNING, [State.RUNNING])
    assert len(made) == 2


def test_only_what_is_asked_for_is_restarted(running: RunningConnectors, made: list[Groups]) -> None:
    have(running)
    attend(running)
    running.restart(Restart(C))
    assert shown(running) == (State.RESTARTING, [State.RUNNING])
    attend(running)
    assert shown(running) == (State.RUNNING, [State.RUNNING])
    running.restart(Restart(C, include_tasks=True, only_failed=True))
    attend(running)
    assert shown(running) == (State.RUNNING, [State.RUNNING])
    assert len(made) == 1
    running.restart_task(TaskId(C, 0))
    assert shown(running) == (State.RUNNING, [State.RESTARTING])
    attend(running)
    wait_for(lambda: shown(running) == (State.RUNNING, [State.RUNNING]), 60, "the task runs")
    assert len(made) == 2


def test_nothing_is_paused_or_stopped_before_it_has_ended(
    running: RunningConnectors, made: list[Groups], monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(Groups, "stop", lambda self: goes_on.wait(60))
    have(running)
    attend(running)
    running.set(C, flow(), TargetState.STOPPED, None)
    running.attend()
    assert states(running) == (State.RUNNING, [State.RUNNING])
    running.set(C, flow(), TargetState.PAUSED, None)
    assert states(running) == (State.RUNNING, [State.RUNNING])
    running.set(C, flow(), TargetState.STOPPED, None)
    goes_on.set()
    attend(running)
    assert states(running) == (State.STOPPED, [])


def test_what_cannot_begin_fails_with_its_reason(running: RunningConnectors, made: list[Groups]) -> None:
    have(running, flow=None, refused="tasks.max: many")
    assert states(running) == (State.FAILED, [])
    assert running.connectors[C].connector_state("w", 1).trace == "tasks.max: many"
    Groups.error = ClusterError("no such host")
    have(running)
    assert states(running) == (State.FAILED, [])
    assert running.connectors[C].connector_state("w", 1).trace == "no such host"
    # Nobody asked for another try.
    Groups.error = None
    have(running)
    assert made == []
    running.restart(ALL)
    attend(running)
    assert shown(running) == (State.RESTARTING, [State.RUNNING])
    assert states(running) == (State.RUNNING, [State.RUNNING])


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
    assert states(running) == (State.RUNNING, [])
    running.stop()
    assert running.connectors == {}


class Spark:
    """In the place of SparkFlows; it cannot start while there is a reason."""

    made: list[Spark]
    reason: str | None
    trouble: str | None = None
    no_threads = 0
    """How often it cannot even begin to start."""

    def __init__(self, *_: object) -> None:
        self.places: list[object] = []
        self.queries = SimpleNamespace(take_out=None)
        self.ended = threading.Event()
        self.starts: list[int] = []
        self.made.append(self)

    def start(self, expected: int) -> None:
        if self.no_threads:
            self.no_threads -= 1
            raise RuntimeError("can't start new thread")
        self.starts.append(expected)

    def attend(self) -> bool:
        if self.reason is not None:
            raise EngineError(self.reason)
        return True

    def shut_down(self) -> None:
        self.ended.set()


def test_a_spark_that_cannot_start_is_started_again_with_what_copies(
    monkeypatch: pytest.MonkeyPatch, allowed: list[float]
) -> None:
    monkeypatch.setattr(module, "SparkFlows", Spark)
    Spark.made, Spark.reason = [], "no Java"
    running = RunningConnectors(SparkOptions(), lambda _: allowed[0], list)
    source = flow()
    source = replace(source, settings=replace(source.settings, kind="source"))
    have(running, flow=source)
    attend(running)
    assert states(running) == (State.RUNNING, [State.FAILED])
    assert running.connectors[C].task_states("w", 1)[0].trace == "no Java"
    assert Spark.made[0].ended.wait(60)
    # Only when it is asked for.
    attend(running)
    assert len(Spark.made) == 1
    Spark.reason = None
    running.restart(Restart(C, include_tasks=True, only_failed=True))

    def runs() -> bool:
        running.attend()
        return bool(shown(running) == (State.RUNNING, [State.RUNNING]))

    wait_for(runs, 60, "it runs again")
    assert len(Spark.made) == 2
    assert len(Spark.made[1].places) == 1
    running.stop()
    assert Spark.made[1].ended.is_set()


@pytest.mark.parametrize("ahead", [True, False])
def test_what_copies_fails_with_sparks_own_reason_where_spark_refuses_to_start(
    ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it had refused before the connector came: it is asked once more, and then fails that one, too."""
    reason = "Spark refuses: spark.driver.memory = 256m (--conf): System memory must be at least 471859200"
    started: list[object] = []

    class Refused:
        local = True

        def __init__(self, *_: object, **__: object) -> None: ...

        def start(self) -> None:
            started.append(self)
            raise EngineError(reason)

        def stop(self, timeout_s: float) -> None: ...

    def no_flow(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(spark_flows, "SparkEngine", Refused)
    monkeypatch.setattr(module, "FlowRunner", no_flow)
    running = RunningConnectors(SparkOptions(ahead=ahead, warm_up=False), lambda _: 5.0, list)

    def given_up() -> bool:
        running.attend()
        return running._spark_ending is not None

    if ahead:
        wait_for(given_up, 60, "Spark was given up before anything came")
    running.set(C, replace(flow(), settings=replace(flow().settings, kind="source")), TargetState.STARTED, None)

    def failed() -> bool:
        running.attend()
        return bool(states(running) == (State.RUNNING, [State.FAILED]))

    wait_for(failed, 60, "its task has failed")
    assert running.connectors[C].task_states("w", 1)[0].trace == reason
    assert len(started) == 1 + ahead
    running.stop()


def test_a_spark_that_is_just_being_ended_has_the_time_that_a_cluster_needs() -> None:
    waited: list[float] = []

    class Ending:
        def is_alive(self) -> bool:
            return True

        def join(self, timeout: float) -> None:
            waited.append(timeout)

    for master in (None, "k8s://https://east"):
        running = RunningConnectors(SparkOptions(master), lambda _: 5.0, list)
        running._spark_ending = Ending()
        running.stop()
    assert waited == [spark_flows.STOP_S, spark_flows.CLUSTER_STOP_S]


def test_a_spark_that_was_lost_takes_with_it_what_was_just_being_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connector that had failed by itself when Spark went can be restarted, and the worker is not ready any more."""
    monkeypatch.setattr(module, "SparkFlows", Spark)
    Spark.made, Spark.reason = [], None
    running = RunningConnectors(SparkOptions(), lambda _: 5.0, list)
    source = replace(flow(), settings=replace(flow().settings, kind="source"))
    have(running, flow=source)
    attend(running)
    assert running.ready
    part: Any = running.connectors[C].part
    # It is being ended by a thread that whoever attends to its place would see at its end.
    part.place.failure, part.place.over, part.place._place._clearing = "no such topic", True, lambda: None
    Spark.reason = "killed too often"
    attend(running)
    assert not running.ready
    assert running.connectors[C].task_states("w", 1)[0].trace == "no such topic"
    assert Spark.made[0].ended.wait(60)
    Spark.reason = None
    running.restart(Restart(C, include_tasks=True, only_failed=True))

    def again() -> bool:
        running.attend()
        return len(Spark.made) == 2 and len(Spark.made[1].places) == 1

    wait_for(again, 60, "it begins again")
    running.stop()


def test_what_keeps_spark_from_copying_is_told_of_what_it_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SparkFlows", Spark)
    Spark.made, Spark.reason = [], None
    running = RunningConnectors(SparkOptions(), lambda _: 5.0, list)
    have(running, flow=replace(flow(), settings=replace(flow().settings, kind="source")))
    running.connectors[C].tasks = 1
    monkeypatch.setattr(Spark, "trouble", "Spark's JVM was killed by SIGKILL")
    attend(running)
    connector = running.connectors[C]
    connector.look(float("inf"))
    status = connector.task_states("w", 1)[0]
    assert (status.state, status.trace) == (State.RUNNING, "Spark's JVM was killed by SIGKILL")
    monkeypatch.setattr(Spark, "trouble", None)
    attend(running)
    assert connector.task_states("w", 1)[0].trace is None
    running.stop()


@pytest.mark.parametrize("prepared", [True, False])
def test_a_connector_that_copies_begins_once_however_often_there_are_no_threads(
    monkeypatch: pytest.MonkeyPatch, prepared: bool
) -> None:
    monkeypatch.setattr(module, "SparkFlows", Spark)
    monkeypatch.setattr(Spark, "no_threads", 3)
    Spark.made, Spark.reason = [], None
    source = replace(flow(), settings=replace(flow().settings, kind="source"))
    coming = [source.settings] if prepared else []
    running = RunningConnectors(SparkOptions(), lambda _: 5.0, list, to_copy=lambda: coming)
    running.set(C, source, TargetState.STARTED, None)
    running.attend()
    waits = running.connectors[C].connector_state("w", 1)
    assert (waits.state, waits.trace) == (State.RUNNING, "it begins later: can't start new thread")
    for _ in range(3):
        attend(running)
    assert running.connectors[C].connector_state("w", 1).trace is None
    spark = Spark.made[0]
    assert spark.starts == [1]
    assert len(spark.places) == 1
    running.stop()


def test_connectors_agree_which_of_them_writes_a_topic_that_both_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sources whose topics keep their names: each connector knows the other one, and both their order."""
    monkeypatch.setattr(module, "SparkFlows", Spark)
    monkeypatch.setattr(module, "FlowRunner", lambda settings, **given: [one.name for one in given["flows"]])
    Spark.made, Spark.reason = [], None

    def copies(name: str) -> ConnectorFlow:
        more: dict[str, Any] = {"source": Alias(name), "policy": "identity", "connector_name": name, "kind": "source"}
        return ConnectorFlow(name, replace(flow().settings, **more), idle=False)

    flows = {name: copies(name) for name in ("z", "y")}
    known = [flows["z"]]
    running = RunningConnectors(SparkOptions(), lambda _: 5.0, lambda: [one.settings for one in known])

    def begun() -> dict[str, Any]:
        for one in known:
            running.set(ConnectorName(one.name), one, TargetState.STARTED, None)
        attend(running)
        return {name: one.part for name, one in running.connectors.items()}

    alone = begun()["z"]
    known.append(flows["y"])
    alone.place.over = True
    parts = begun()
    assert parts["z"] is not alone
    assert {name: part.place._place._build(lambda: 5.0, None) for name, part in parts.items()} == {
        "z": ["y", "z"],
        "y": ["y", "z"],
    }
    again = begun()
    assert all(again[name] is part for name, part in parts.items())
    running.stop()


def test_what_a_connector_waits_for_is_told_until_it_begins(made: list[Groups]) -> None:
    reasons: list[TwinlogError | None] = [ClusterError("the target does not answer"), None]

    def may_begin(_: ConnectorFlow) -> bool:
        if isinstance(reasons[0], TwinlogError):
            raise reasons[0]
        return reasons[0] is None

    running = RunningConnectors(SparkOptions(), lambda _: 5.0, list, may_begin=may_begin)
    have(running)
    status = running.connectors[C].connector_state("w", 1)
    assert (status.state, status.trace, made) == (State.RUNNING, "the target does not answer", [])
    del reasons[0]
    attend(running)
    status = running.connectors[C].connector_state("w", 1)
    assert (status.state, status.trace, len(made)) == (State.RUNNING, None, 1)

    reasons[:] = [RefusedError("it lacks READ")]
    have(running, TargetState.STOPPED)
    have(running)
    status = running.connectors[C].connector_state("w", 1)
    assert (status.state, status.trace) == (State.FAILED, "it lacks READ")


def test_what_ends_does_so_without_a_thread_for_it(
    running: RunningConnectors, made: list[Groups], monkeypatch: pytest.MonkeyPatch
) -> None:
    have(running)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        have(running, TargetState.PAUSED)
        assert shown(running) == (State.PAUSED, [State.PAUSED])
        have(running)
        running.stop()
    assert [one.done for one in made] == [["started", "stopped", "closed"]] * 2


@pytest.mark.parametrize(("master", "starts"), [(None, [5]), ("spark://elsewhere:7077", [])])
def test_spark_starts_where_a_connector_that_copies_may_come(
    monkeypatch: pytest.MonkeyPatch, master: str | None, starts: list[int]
) -> None:
    """In this process; on a cluster of its own it would hold what another worker needs."""
    monkeypatch.setattr(module, "SparkFlows", Spark)
    Spark.made, Spark.reason = [], None
    coming: list[FlowSettings] = []
    running = RunningConnectors(SparkOptions(master), lambda _: 0.0, list, to_copy=lambda: coming)
    running.attend()
    assert Spark.made[0].starts == []
    coming += [replace(flow().settings, kind="source", tasks_max=tasks) for tasks in (2, 3)]
    for _ in range(2):
        running.attend()
    assert Spark.made[0].starts == starts
    running.stop()


def test_spark_starts_ahead_of_the_first_connector_and_ends_where_none_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SparkFlows", Spark)
    Spark.made, Spark.reason = [], None
    others: list[FlowSettings] = []
    clock = VirtualClock()
    running = RunningConnectors(SparkOptions(ahead=True), lambda _: 5.0, lambda: others, clock)
    for _ in range(2):
        running.attend()
        clock.sleep(3600)
    assert [one.starts for one in Spark.made] == [[0]]
    assert not Spark.made[0].ended.is_set()
    others.append(flow().settings)
    running.attend()
    clock.sleep(module.NOT_WANTED_S - 1)
    running.attend()
    assert not Spark.made[0].ended.is_set()
    clock.sleep(1)
    running.attend()
    assert Spark.made[0].ended.wait(60)
    # It comes back with one that copies.
    source = replace(flow(), settings=replace(flow().settings, kind="source"))

    def copies() -> bool:
        have(running, flow=source)
        attend(running)
        return len(Spark.made) > 1

    wait_for(copies, 60, "it copies")
    assert Spark.made[1].starts == [1]
    running.stop()


def test_what_will_not_work_and_what_does_not_just_now_is_told_of_what_runs(
    running: RunningConnectors, made: list[Groups]
) -> None:
    have(running)
    made[0].trouble = "the source does not answer"
    attend(running)
    running.remark(C, "nobody writes offset syncs")
    connector = running.connectors[C]
    assert connector.task_states("w", 1)[0].trace is None
    connector.look(float("inf"))
    told = connector.connector_state("w", 1), connector.task_states("w", 1)[0]
    assert [one.state for one in told] == [State.RUNNING, State.RUNNING]
    assert [one.trace for one in told] == ["nobody writes offset syncs", "the source does not answer"]
    made[0].trouble = None
    attend(running)
    assert connector.task_states("w", 1)[0].trace is None
