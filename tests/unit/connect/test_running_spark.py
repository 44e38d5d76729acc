"""Connectors that copy share one Spark: when it starts and ends, and what they do without it. It is pretended."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.wait import wait_for
from tests.unit.connect.one_connector import C, attend, flow, have, shown, states
from twinlog.config.connector import ConnectorFlow
from twinlog.connect import running as module
from twinlog.connect.running import RunningConnectors
from twinlog.errors import EngineError
from twinlog.model.types import Alias
from twinlog.settings.flow import FlowSettings
from twinlog.settings.transform import TransformSettings
from twinlog.worker import spark_flows
from twinlog.worker.connectors.model import ConnectorName, ConnectorState, RestartRequest, TargetState
from twinlog.worker.flow import flow_host
from twinlog.worker.spark_flows import SparkOptions


class Spark:
    """In the place of SparkFlows; it cannot start while there is a reason."""

    made: list[Spark]
    reason: str | None
    trouble: str | None = None
    no_threads = 0
    """How often it cannot even begin to start."""

    def __init__(self, *_: object) -> None:
        self.hosted_flows: list[object] = []
        self.queries = SimpleNamespace(take_out=None)
        self.ended = threading.Event()
        self.starts: list[int] = []
        self.made.append(self)

    def start(self, expected: int) -> None:
        if self.no_threads:
            self.no_threads -= 1
            raise RuntimeError("can't start new thread")
        self.starts.append(expected)

    def poll_flows(self) -> bool:
        if self.reason is not None:
            raise EngineError(self.reason)
        return True

    def shut_down(self) -> None:
        self.ended.set()


def test_a_spark_that_cannot_start_is_started_again_with_what_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SparkFlows", Spark)
    Spark.made, Spark.reason = [], "no Java"
    running = RunningConnectors(SparkOptions(), lambda _: 5.0, list)
    source = flow()
    source = replace(source, settings=replace(source.settings, kind="source"))
    have(running, flow=source)
    attend(running)
    assert states(running) == (ConnectorState.RUNNING, [ConnectorState.FAILED])
    assert running.connectors[C].task_states("w", 1)[0].trace == "TW-FLOW-01: no Java"
    assert Spark.made[0].ended.wait(60)
    # Only when it is asked for.
    attend(running)
    assert len(Spark.made) == 1
    Spark.reason = None
    running.restart(RestartRequest(C, include_tasks=True, only_failed=True))

    def runs() -> bool:
        running.poll_connectors()
        return bool(shown(running) == (ConnectorState.RUNNING, [ConnectorState.RUNNING]))

    wait_for(runs, 60, "it runs again")
    assert len(Spark.made) == 2
    assert len(Spark.made[1].hosted_flows) == 1
    running.stop()
    assert Spark.made[1].ended.is_set()


@pytest.mark.parametrize("ahead", [True, False])
def test_what_copies_fails_with_sparks_own_reason_where_spark_refuses_to_start(
    ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it had refused for a connector of another worker: it is asked again, and then fails that one, too."""
    reason = "Spark refuses: spark.driver.memory = 256m (--conf): System memory must be at least 471859200"
    started: list[object] = []

    class Refused:
        local = own = True

        def __init__(self, *_: object, **__: object) -> None: ...

        def start(self) -> None:
            started.append(self)
            raise EngineError(reason)

        def stop(self, timeout_s: float) -> None: ...

    def no_flow(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(spark_flows, "SparkEngine", Refused)
    monkeypatch.setattr(flow_host, "FlowRunner", no_flow)
    elsewhere = [replace(flow().settings, kind="source")] if ahead else []
    running = RunningConnectors(SparkOptions(bridge=False), lambda _: 5.0, list, to_copy=lambda: elsewhere)

    def given_up() -> bool:
        running.poll_connectors()
        return running._spark_ending is not None

    if ahead:
        wait_for(given_up, 60, "Spark was given up before anything came")
    running.set_connector(
        C, replace(flow(), settings=replace(flow().settings, kind="source")), TargetState.STARTED, None
    )

    def failed() -> bool:
        running.poll_connectors()
        return bool(states(running) == (ConnectorState.RUNNING, [ConnectorState.FAILED]))

    wait_for(failed, 60, "its task has failed")
    assert running.connectors[C].task_states("w", 1)[0].trace == f"TW-FLOW-01: {reason}"
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
    instance: Any = running.connectors[C].instance
    # It is being ended by a thread that whoever attends to its flow would see at its end.
    instance.failure, instance.over, instance._clearing = "no such topic", True, lambda: None
    Spark.reason = "killed too often"
    attend(running)
    assert not running.ready
    assert running.connectors[C].task_states("w", 1)[0].trace == "TW-FLOW-01: no such topic"
    assert Spark.made[0].ended.wait(60)
    Spark.reason = None
    running.restart(RestartRequest(C, include_tasks=True, only_failed=True))

    def again() -> bool:
        running.poll_connectors()
        return len(Spark.made) == 2 and len(Spark.made[1].hosted_flows) == 1

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
    connector.update_trouble(float("inf"))
    status = connector.task_states("w", 1)[0]
    assert (status.state, status.trace) == (ConnectorState.RUNNING, "TW-WAIT-05: Spark's JVM was killed by SIGKILL")
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
    running = RunningConnectors(SparkOptions(bridge=not prepared), lambda _: 5.0, list, to_copy=lambda: coming)
    running.set_connector(C, source, TargetState.STARTED, None)
    running.poll_connectors()
    waits = running.connectors[C].connector_state("w", 1)
    assert (waits.state, waits.trace) == (
        ConnectorState.RUNNING,
        "TW-LEADER-06: it begins later: can't start new thread",
    )
    for _ in range(3):
        attend(running)
    assert running.connectors[C].connector_state("w", 1).trace is None
    spark = Spark.made[0]
    assert spark.starts == [1]
    assert len(spark.hosted_flows) == 1
    running.stop()


def test_connectors_agree_which_of_them_writes_a_topic_that_both_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sources whose topics keep their names: each connector knows the other one, and both their order."""
    monkeypatch.setattr(module, "SparkFlows", Spark)
    monkeypatch.setattr(flow_host, "FlowRunner", lambda settings, **given: [one.name for one in given["flows"]])
    Spark.made, Spark.reason = [], None

    def copies(name: str) -> ConnectorFlow:
        more: dict[str, Any] = {"source": Alias(name), "policy": "identity", "connector_name": name, "kind": "source"}
        return ConnectorFlow(name, replace(flow().settings, **more), idle=False)

    flows = {name: copies(name) for name in ("z", "y")}
    known = [flows["z"]]
    running = RunningConnectors(SparkOptions(), lambda _: 5.0, lambda: [one.settings for one in known])

    def begun() -> dict[str, Any]:
        for one in known:
            running.set_connector(ConnectorName(one.name), one, TargetState.STARTED, None)
        attend(running)
        return {name: one.instance for name, one in running.connectors.items()}

    alone = begun()["z"]
    known.append(flows["y"])
    alone.over = True
    instances = begun()
    assert instances["z"] is not alone
    runners = {
        name: one._builder.build_runner(one.settings, one._flows(), None, None) for name, one in instances.items()
    }
    assert runners == {
        "z": ["y", "z"],
        "y": ["y", "z"],
    }
    again = begun()
    assert all(again[name] is instance for name, instance in instances.items())
    running.stop()


@pytest.mark.parametrize(
    ("topics", "goes_on"), [(("b", "b.c"), True), (("b.*",), True), (("a", "b"), False), ((".*",), False)]
)
def test_a_connector_goes_on_when_one_comes_that_mirrors_none_of_its_topics(
    monkeypatch: pytest.MonkeyPatch, topics: tuple[str, ...], goes_on: bool
) -> None:
    """As one for each team does, of the same two clusters."""
    monkeypatch.setattr(module, "SparkFlows", Spark)
    Spark.made, Spark.reason = [], None

    def copies(name: str, topics: tuple[str, ...]) -> ConnectorFlow:
        more: dict[str, Any] = {"connector_name": name, "kind": "source", "topics": topics}
        return ConnectorFlow(name, replace(flow().settings, **more), idle=False)

    one, two = copies("one", ("a", "a.x")), copies("two", topics)
    known = [one]
    running = RunningConnectors(SparkOptions(), lambda _: 5.0, lambda: [one.settings for one in known])
    running.set_connector(C, one, TargetState.STARTED, None)
    attend(running)
    instance = running.connectors[C].instance
    known.append(two)
    running.poll_connectors()
    found = running.connectors[C]
    assert (found.instance is instance and not found.again) == goes_on
    running.stop()


@pytest.mark.parametrize(("master", "starts"), [(None, [5]), ("spark://elsewhere:7077", [])])
def test_spark_starts_where_a_connector_that_copies_may_come(
    monkeypatch: pytest.MonkeyPatch, master: str | None, starts: list[int]
) -> None:
    """In this process, without a bridge; on a cluster of its own it would hold what another worker needs."""
    monkeypatch.setattr(module, "SparkFlows", Spark)
    Spark.made, Spark.reason = [], None
    coming: list[FlowSettings] = []
    options = SparkOptions(master, bridge=False)
    running = RunningConnectors(options, lambda _: 0.0, list, to_copy=lambda: coming)
    running.poll_connectors()
    assert Spark.made[0].starts == []
    coming += [replace(flow().settings, kind="source", tasks_max=tasks) for tasks in (2, 3)]
    for _ in range(2):
        running.poll_connectors()
    assert Spark.made[0].starts == starts
    running.stop()


@pytest.mark.parametrize(
    ("transform", "starts"), [(None, []), (TransformSettings("m:f"), []), (TransformSettings(sql="SELECT 1"), [3])]
)
def test_spark_starts_for_another_workers_connector_only_where_the_bridge_cannot_copy_it(
    monkeypatch: pytest.MonkeyPatch, transform: TransformSettings | None, starts: list[int]
) -> None:
    monkeypatch.setattr(module, "SparkFlows", Spark)
    Spark.made, Spark.reason = [], None
    elsewhere = replace(flow().settings, kind="source", tasks_max=3, transform=transform)
    running = RunningConnectors(SparkOptions(), lambda _: 0.0, list, to_copy=lambda: [elsewhere])
    for _ in range(2):
        running.poll_connectors()
    assert Spark.made[0].starts == starts
    running.stop()
