"""The Spark that flows share: started before the first of them is there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.virtual.clock import VirtualClock
from harness.wait import wait_for
from tests.unit.worker.election.electing import elected_flow_of
from twinlog.errors import EngineError
from twinlog.model.types import Alias
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.settings.transform import TransformSettings
from twinlog.spark.session import local_master
from twinlog.worker import spark_flows as module
from twinlog.worker.spark_flows import SparkFlows, SparkOptions


def started_with(options: SparkOptions, expected: int, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, str]]:
    """The master and the settings that Spark is started with."""
    made: list[tuple[str, dict[str, str]]] = []

    def engine(master: str, settings: Mapping[str, str], **_: object) -> None:
        made.append((master, dict(settings)))
        raise EngineError("never")

    monkeypatch.setattr(module, "SparkEngine", engine)
    flows = SparkFlows(options, wake=threading.Event())
    flows.start(expected)
    wait_for(lambda: made, 60, "it is started")
    flows.shut_down()
    return made[0]


@pytest.mark.parametrize(("expected", "slots", "cores"), [(20, 20, "20"), (0, 16, "1")])
def test_a_spark_without_a_flow_yet_gets_the_cores_that_are_expected(
    expected: int, slots: int, cores: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark does not start with none."""
    assert started_with(SparkOptions(least_slots=16), expected, monkeypatch)[0] == local_master(slots)
    settings = started_with(SparkOptions("spark://m:7077", least_slots=16), expected, monkeypatch)[1]
    assert settings["spark.cores.max"] == cores


def test_what_works_against_a_cluster_is_logged_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The file of all programs on this machine sizes executors; it does not have them come and go."""
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.executor.instances 2\nspark.executor.cores 1\nspark.dynamicAllocation.enabled true\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    conf = {"spark.speculation": "true"}
    with caplog.at_level(logging.WARNING):
        settings = started_with(SparkOptions("k8s://api", conf), 5, monkeypatch)[1]
    assert "spark.executor.instances" not in settings
    assert settings["spark.dynamicAllocation.enabled"] == "false"
    slots, speculation = caplog.messages
    assert "2 slots for 5 tasks" in slots
    assert "spark.speculation = false" in speculation


class Engine:
    """Starts at once."""

    local, slots, web_url, error = True, 4, None, None

    def __init__(self, *_: object, **__: object) -> None: ...

    def start(self) -> None: ...

    def stop(self, timeout_s: float) -> None: ...

    def require_alive(self) -> None: ...

    def expect_end(self) -> None: ...


@pytest.mark.parametrize("expects", [True, False])
def test_a_spark_is_warmed_up_for_flows_that_may_come_from_other_processes(
    expects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[object] = []
    monkeypatch.setattr(module, "SparkEngine", Engine)
    monkeypatch.setattr(module, "run_warm_up", lambda engine, *_, **__: warmed.append(engine))
    flows = SparkFlows(SparkOptions(bridge=False), wake=threading.Event())
    flows.start(1)
    flows.expects_flows = expects
    wait_for(lambda: flows._spark.engine, 60, "it is started")
    for _ in range(3):
        flows.poll_flows()
    thread = flows._warm_up_thread
    if thread is not None:
        thread.join()
    flows.shut_down()
    assert len(warmed) == expects


@pytest.mark.parametrize("begun", [True, False])
def test_a_fault_of_a_flow_leaves_the_other_flows_running(
    *, begun: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> None:
        raise KeyError("a value of the file")

    well: list[str] = []
    unwell: list[str] = []
    healthy, faulty = elected_flow_of(well)[0], elected_flow_of(unwell)[0]
    flows = SparkFlows(SparkOptions(bridge=False), wake=threading.Event())
    flows.hosted_flows = [faulty] if begun else []
    flows.poll_flows()
    monkeypatch.setattr(faulty, "poll_flow", broken)
    flows.hosted_flows = [faulty, healthy]
    for _ in range(2):
        flows.poll_flows()
    assert well == ["start"]
    ended = ["start", "stop", "leave", "end the query", "close"] if begun else ["leave"]
    wait_for(lambda: unwell == ended, 60, "it is left to other processes")
    assert (faulty.failure, faulty.over) == ("TW-FAULT-01: internal error: KeyError", True)
    assert caplog.text.count("TW-FAULT-01: flow a->z") == 1
    healthy.stop()
    assert flows._lease_server is not None
    flows._lease_server.close()


class Planned:
    """A flow, before anything of it runs."""

    def __init__(self, transform: TransformSettings | None) -> None:
        client = ClientSettings(("x:1",))
        clients = ConsumerSettings(client), ProducerSettings(client), AdminSettings(client), AdminSettings(client)
        self.settings = FlowSettings(Alias("a"), Alias("b"), *clients, transform=transform)


@pytest.mark.parametrize(
    ("transforms", "any_flow", "numpy"),
    [((None,), False, False), ((None, TransformSettings("m:f")), False, True), ((), True, True)],
)
def test_local_tasks_have_numpy_for_arrow_where_a_flow_changes_records(
    transforms: tuple[TransformSettings | None, ...], any_flow: bool, numpy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other tasks, which have no use for it; and a worker does not know what connectors will come."""
    given: list[bool] = []

    def engine(*_: object, numpy: bool, **__: object) -> Engine:
        given.append(numpy)
        return Engine()

    monkeypatch.setattr(module, "SparkEngine", engine)
    flows = SparkFlows(SparkOptions(any_flow=any_flow, bridge=False), wake=threading.Event())
    flows.hosted_flows = [Planned(transform) for transform in transforms]  # type: ignore[misc]
    flows.start(1)
    wait_for(lambda: flows._spark.engine, 60, "it is started")
    flows.hosted_flows = []
    flows.shut_down()
    assert given == [numpy]


class Still(VirtualClock):
    """Spark's own thread waits without moving it on."""

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        return event.wait(0.01)


class Slow:
    """A flow that takes a second to end."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def stop(self) -> None:
        self._clock.sleep(1.0)

    def close(self) -> None: ...


@pytest.mark.parametrize(("master", "left_s"), [(None, 4.0), ("local[2]", 4.0), ("k8s://https://east", 29.0)])
def test_a_clusters_manager_has_time_to_end_the_executors(
    master: str | None, left_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM that is killed before it has asked for that leaves pods behind."""
    given: list[float] = []

    class Ending(Engine):
        local = master is None or master.startswith("local")

        def wait_for_slot(self, timeout_s: float, over: threading.Event) -> None: ...

        def stop(self, timeout_s: float) -> None:
            given.append(timeout_s)

    monkeypatch.setattr(module, "SparkEngine", Ending)
    clock = Still()
    flows = SparkFlows(SparkOptions(master), clock, threading.Event())
    flows.start(1)
    wait_for(lambda: flows._spark.engine, 60, "it is started")
    flows.hosted_flows = [Slow(clock)]
    flows.shut_down()
    assert given == [left_s]
