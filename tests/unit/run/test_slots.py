"""Tasks follow the slots of a Spark cluster: without a slot a task would keep partitions waiting for a whole lease."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from twinlog.run import runner as module
from twinlog.run.runner import Runner, RunOptions
from twinlog.settings import AdminSettings, ClientSettings, ConsumerSettings, FlowSettings, ProducerSettings
from twinlog.types import Alias

CLIENT = ClientSettings(("127.0.0.1:1",))


class Engine:
    """As much of a SparkEngine as the runner asks about slots."""

    local = False
    executor_memory = "512m"
    host = "10.0.0.1"

    def __init__(self) -> None:
        self.slots = 0


class Flow:
    """Remembers how many tasks it was told to use."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def use_slots(self, slots: int) -> None:
        self.told.append(slots)


def settings(source: str) -> FlowSettings:
    return FlowSettings(
        Alias(source),
        Alias("z"),
        ConsumerSettings(CLIENT),
        ProducerSettings(CLIENT),
        AdminSettings(CLIENT),
        AdminSettings(CLIENT),
    )


def follow(runner: Runner, engine: Engine, slots: int) -> None:
    engine.slots = slots
    runner._slots_at = 0.0
    runner._follow_slots(engine)  # type: ignore[arg-type]


@pytest.fixture
def runner() -> Runner:
    runner = Runner([settings("a"), settings("b")], RunOptions("spark://m:7077"))
    flows: list[Any] = [Flow(), Flow()]
    runner.flows = flows
    return runner


def test_slots_are_shared_by_the_flows(runner: Runner) -> None:
    engine = Engine()
    for slots in (5, 2, 1, 8):
        follow(runner, engine, slots)
    assert [flow.told for flow in runner.flows] == [[2, 1, 1, 4]] * 2  # type: ignore[attr-defined]


def test_without_any_slot_the_plan_stays_and_a_warning_says_why(
    runner: Runner, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine()
    with caplog.at_level(logging.WARNING):
        follow(runner, engine, 0)
        follow(runner, engine, 0)
        (record,) = caplog.records
        for word in ("spark://m:7077", "no executor", "512m", "10.0.0.1"):
            assert word in record.getMessage()
        monkeypatch.setattr(module, "SAY_AGAIN_S", 0.0)
        follow(runner, engine, 0)
    assert len(caplog.records) == 2
    assert [flow.told for flow in runner.flows] == [[], []]  # type: ignore[attr-defined]


def test_a_local_spark_has_as_many_slots_as_it_was_given(runner: Runner) -> None:
    engine = Engine()
    engine.local = True
    follow(runner, engine, 3)
    assert [flow.told for flow in runner.flows] == [[], []]  # type: ignore[attr-defined]
