"""The Spark that flows share: started before the first of them is there."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from harness.wait import wait_for
from twinlog.driver import spark_flows as module
from twinlog.driver.spark_flows import SparkFlows, SparkOptions
from twinlog.errors import EngineError
from twinlog.spark.session import local_master


def test_a_spark_without_a_flow_yet_gets_the_cores_that_are_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark does not start with none."""
    made: list[tuple[str, str]] = []

    def engine(master: str, settings: Mapping[str, str], *, given: Mapping[str, str]) -> None:
        made.append((master, settings["spark.cores.max"]))
        raise EngineError("never")

    monkeypatch.setattr(module, "SparkEngine", engine)
    flows = SparkFlows(SparkOptions(least_slots=16), wake=threading.Event())
    flows.start(20)
    wait_for(lambda: made, 60, "it is started")
    flows.shut_down()
    assert made[0] == (local_master(20), "20")
