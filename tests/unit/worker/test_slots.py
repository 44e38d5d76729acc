"""Tasks follow the slots of Spark: without a slot a task would keep partitions waiting for a whole lease."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.clock import LONG_AGO
from twinlog.model.types import Alias
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.settings.transform import TransformSettings
from twinlog.spark.warm_up import SETTINGS
from twinlog.worker import spark_flows as module
from twinlog.worker.flow_tasks import first_tasks
from twinlog.worker.placement.tasks import SlotDemand, SlotSharing, group_flows, share_out
from twinlog.worker.spark_flows import SparkFlows, SparkOptions

CLIENT = ClientSettings(("127.0.0.1:1",))


class Engine:
    """As much of a SparkEngine as is asked about slots."""

    executor_memory = "512m"
    host = "10.0.0.1"
    web_url = None
    own = True

    def __init__(self, *, local: bool = False) -> None:
        self.local = local
        self.slots = 0
        self.leaving: frozenset[int] = frozenset()
        self.executors: dict[int, str] = {}

    def leaving_tasks(self) -> frozenset[int]:
        return self.leaving

    def task_executors(self) -> dict[int, str]:
        return self.executors


@dataclass
class HostedFlow:
    """A flow of this process, see `ElectedFlow`."""

    occupied: bool = False
    stands_by: bool = False
    over: bool = False
    settings: FlowSettings = field(default_factory=lambda: settings("a"))


class Flow:
    """Remembers how many tasks it was given."""

    def __init__(self, name: str, limit: int = 8) -> None:
        self.settings = SimpleNamespace(name=name)
        self.demand = SlotDemand(limit)
        self.used: list[int] = []
        self.left: list[frozenset[int]] = []
        self.executors: Mapping[int, str] | None = None

    def use_executors(self, executors: Mapping[int, str] | None) -> None:
        self.executors = executors

    def leave_tasks(self, tasks: frozenset[int]) -> None:
        assert not tasks or self.used[-1] == 3, "it leaves before its slots are fewer"
        self.left.append(tasks)

    def use_slots(self, slots: int) -> None:
        self.used.append(slots)


def settings(source: str) -> FlowSettings:
    return FlowSettings(
        Alias(source),
        Alias("z"),
        ConsumerSettings(CLIENT),
        ProducerSettings(CLIENT),
        AdminSettings(CLIENT),
        AdminSettings(CLIENT),
    )


def follow(flows: SparkFlows, engine: Engine, slots: int, *of: Flow) -> None:
    engine.slots = slots
    flows._slots_at = LONG_AGO
    flows._follow_slots(engine)  # type: ignore[arg-type]
    used: list[Any] = list(of)
    flows._share_slots(used)


@pytest.fixture
def flows() -> SparkFlows:
    made = SparkFlows(SparkOptions("spark://m:7077"))
    hosted_flows: list[Any] = [HostedFlow(settings=settings(name)) for name in "ab"]
    made.hosted_flows = hosted_flows
    return made


def test_slots_are_shared_by_the_flows(flows: SparkFlows) -> None:
    engine, one, two = Engine(), Flow("a"), Flow("b")
    for slots in (5, 2, 1, 8):
        follow(flows, engine, slots, one, two)
    assert (one.used, two.used) == ([3, 1, 1, 4], [2, 1, 1, 4])
    follow(flows, engine, 8, two)
    assert two.used[-1] == 8, "the other one runs elsewhere"


def test_a_flow_leaves_tasks_whose_executors_go_before_it_has_fewer(flows: SparkFlows) -> None:
    engine, flow = Engine(), Flow("a")
    follow(flows, engine, 3, flow)
    engine.leaving = frozenset({7})
    follow(flows, engine, 2, flow)
    assert (flow.left[-1], flow.used) == (frozenset({7}), [3, 2])


def test_a_flow_leaves_no_task_of_another_spark_that_has_the_same_number(flows: SparkFlows) -> None:
    """A Spark that was started anew counts its tasks from 0."""
    first, flow = Engine(), Flow("a")
    follow(flows, first, 3, flow)
    first.leaving = frozenset({7})
    follow(flows, first, 3, flow)
    again = Engine()
    again.slots = 3
    flows._meet(again)  # type: ignore[arg-type]
    flows._share_slots([flow])  # type: ignore[list-item]
    assert flow.left[-1] == frozenset()
    first.leaving = frozenset()
    follow(flows, first, 3, flow)
    assert flow.left[-1] == frozenset()


def test_a_flow_knows_the_executors_of_tasks_and_that_a_local_spark_has_only_one(flows: SparkFlows) -> None:
    engine, flow = Engine(), Flow("a")
    engine.executors = {7: "2"}
    follow(flows, engine, 3, flow)
    assert flow.executors == {7: "2"}
    again = Engine()
    flows._meet(again)  # type: ignore[arg-type]
    flows._share_slots([flow])  # type: ignore[list-item]
    assert flow.executors == {}
    follow(flows, Engine(local=True), 3, flow)
    assert flow.executors is None


def test_a_flow_gets_what_another_cannot_use(flows: SparkFlows) -> None:
    one, two = Flow("a", 1), Flow("b", 8)
    follow(flows, Engine(), 6, one, two)
    assert (one.used, two.used) == ([1], [5])


def test_without_any_slot_the_plan_stays_and_a_warning_names_the_reason(
    flows: SparkFlows, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, flow = Engine(), Flow("a")
    with caplog.at_level(logging.WARNING):
        follow(flows, engine, 0, flow)
        follow(flows, engine, 0, flow)
        (record,) = caplog.records
        for word in ("spark://m:7077", "no executor", "512m", "10.0.0.1"):
            assert word in record.getMessage()
        monkeypatch.setattr(module, "AGAIN_S", 0.0)
        follow(flows, engine, 0, flow)
    assert len(caplog.records) == 2
    assert flow.used == []
    # What copies here shows it, too, as long as it lasts.
    assert flows.trouble == caplog.messages[-1]
    follow(flows, engine, 2, flow)
    assert flows.trouble is None


def test_the_slots_of_a_local_spark_are_looked_at_once(flows: SparkFlows, caplog: pytest.LogCaptureFixture) -> None:
    engine, flow = Engine(local=True), Flow("a")
    engine.slots = 1
    flows._meet(engine)  # type: ignore[arg-type]
    follow(flows, engine, 3, flow)
    assert flow.used == [1]
    assert "Spark has 1 slot for 2 tasks" in caplog.text


def test_who_only_stands_by_holds_no_executors(flows: SparkFlows, caplog: pytest.LogCaptureFixture) -> None:
    engine, asked = Engine(), list[int]()
    one, two = HostedFlow(), HostedFlow(stands_by=True)
    elected_flows: list[Any] = [one, two]
    flows.hosted_flows = elected_flows
    engine.take_executors, engine.cores = asked.append, "2"  # type: ignore[attr-defined]

    def hold(*, warmed_up: bool = True) -> list[int]:
        flows._warmed_up = engine if warmed_up else None  # type: ignore[assignment]
        with caplog.at_level(logging.INFO):
            flows._hold_executors(engine)  # type: ignore[arg-type]
            follow(flows, engine, 0)
        return asked

    flows._meet(engine)  # type: ignore[arg-type]
    assert hold() == [], "who runs the first flow is not known yet"
    one.stands_by = True
    assert hold(warmed_up=False) == []
    assert hold() == hold() == [0]
    assert "standing by without executors; Spark at spark://m:7077 is asked for 2 cores" in caplog.text
    caplog.clear()
    hold()
    assert "no executor" not in caplog.text
    two.occupied = True
    assert hold() == hold() == [0, 2]
    two.occupied = False
    assert hold() == [0, 2, 0]
    # Another one after that was lost, and a local Spark.
    flows._meet(engine)  # type: ignore[arg-type]
    assert hold() == [0, 2, 0, 0]
    engine.local = True
    two.occupied = True
    assert hold() == [0, 2, 0, 0]


@pytest.mark.parametrize(
    ("hosted", "at_once"),
    [
        pytest.param(HostedFlow(over=True), True, id="a flow that failed"),
        # Its target is away, or this process is cut off from it.
        pytest.param(HostedFlow(), False, id="a flow of which nobody knows who runs it"),
    ],
)
def test_no_flow_keeps_executors_from_who_runs_the_others(
    flows: SparkFlows, monkeypatch: pytest.MonkeyPatch, hosted: HostedFlow, at_once: bool
) -> None:
    engine, asked = Engine(), list[int]()
    elected_flows: list[Any] = [hosted, HostedFlow(stands_by=True)]
    flows.hosted_flows = elected_flows
    engine.take_executors, engine.cores = asked.append, "2"  # type: ignore[attr-defined]
    flows._meet(engine)  # type: ignore[arg-type]
    flows._warmed_up = engine  # type: ignore[assignment]
    flows._hold_executors(engine)  # type: ignore[arg-type]
    assert asked == ([0] if at_once else [])
    monkeypatch.setattr(module, "HOLD_S", 0.0)
    flows._hold_executors(engine)  # type: ignore[arg-type]
    assert asked == [0]


def test_a_failed_flow_does_not_stop_the_warm_up_of_a_standby(
    flows: SparkFlows, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, warmed_up = Engine(), threading.Event()
    engine.slots = 2
    elected_flows: list[Any] = [HostedFlow(over=True), HostedFlow(stands_by=True)]
    flows.hosted_flows = elected_flows
    monkeypatch.setattr(module, "run_warm_up", lambda *_, **__: warmed_up.set())
    flows._meet(engine)  # type: ignore[arg-type]
    flows._warm_up(engine, None)  # type: ignore[arg-type]
    assert warmed_up.wait(60)


def test_slots_are_dealt_evenly_within_the_limits() -> None:
    assert share_out(0, [3, 3]) == [1, 1]
    assert share_out(5, [3, 3]) == [3, 2]
    assert share_out(9, [1, 9, 2]) == [1, 6, 2]
    assert share_out(100, [3, 3]) == [3, 3]
    assert share_out(3, []) == []


def test_flows_share_tasks_only_when_they_must() -> None:
    assert group_flows(["a", "b"], 2) == [["a"], ["b"]]
    assert group_flows(["a", "b", "c"], 2) == [["a", "c"], ["b"]]
    assert group_flows(["a", "b"], 9, [["a", "b"]]) == [["a"], ["b"]]
    assert group_flows([], 3) == []
    assert group_flows([], 3, [["a"]]) == [[]]


def test_a_flow_stays_where_it_is_as_far_as_possible() -> None:
    assert group_flows(["a", "b", "c"], 1, [["a"], ["b", "c"]]) == [[], ["b", "c", "a"]]
    assert group_flows(["a", "b", "c", "d"], 3, [["a", "b"], ["c", "d"]]) == [["a"], ["c", "d"], ["b"]]
    assert group_flows(["a", "c", "d", "e"], 2, [["a", "b"], ["c", "d"]]) == [["a", "e"], ["c", "d"]]
    assert group_flows(["b", "c"], 2, [["a"], ["b"]]) == [[], ["b"], ["c"]]


def test_a_quiet_flow_makes_room_until_it_needs_its_share() -> None:
    sharing = SlotSharing()
    calm, quiet, hungry = SlotDemand(8), SlotDemand(8, quiet=True), SlotDemand(8, hungry=True)
    assert sharing.share_out(8, {"a": calm, "b": quiet}) == {"a": 4, "b": 4}, "nobody needs more"
    assert sharing.share_out(8, {"a": hungry, "b": quiet}) == {"a": 7, "b": 1}
    assert sharing.share_out(8, {"a": calm, "b": calm}) == {"a": 7, "b": 1}, "it stays so while that does"
    assert sharing.share_out(8, {"a": calm, "b": hungry}) == {"a": 4, "b": 4}
    assert sharing.share_out(8, {"a": hungry, "b": hungry}) == {"a": 4, "b": 4}
    assert sharing.share_out(8, {"a": quiet, "b": hungry}) == {"a": 1, "b": 7}
    assert sharing.share_out(8, {"b": hungry}) == {"b": 8}


def test_a_local_flow_begins_with_one_task_and_with_two_where_records_are_changed() -> None:
    changed = replace(SETTINGS, transform=TransformSettings(function="package.module:function"))
    assert first_tasks(SETTINGS, local=True) == 1
    assert first_tasks(changed, local=True) == 2


def test_a_flow_on_a_cluster_begins_with_all_tasks_that_it_may_have() -> None:
    assert first_tasks(SETTINGS, local=False) is None
