"""Figures of Spark's JVM come soon or not at all: whoever scrapes does not wait for a JVM that hangs."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.worker.metrics.measured import JVM
from twinlog.errors import EngineError
from twinlog.spark import engine as module
from twinlog.spark.engine import FRESH_S, OLD_S, JvmSampler


def test_it_is_asked_again_only_when_what_it_said_is_old() -> None:
    clock, asked = VirtualClock(), []

    def figures() -> Any:
        asked.append(clock.now)
        return JVM

    sampler = JvmSampler(lambda: SimpleNamespace(figures=figures), clock)  # type: ignore[arg-type, return-value]
    assert [sampler.latest(), sampler.latest()] == [JVM, JVM]
    assert len(asked) == 1
    clock.now += FRESH_S + 1
    assert sampler.latest() is JVM
    assert len(asked) == 2


def test_one_that_hangs_is_not_waited_for_and_its_figures_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, go_on = VirtualClock(), threading.Event()
    hangs = False

    def figures() -> Any:
        if hangs:
            go_on.wait(60)
        return JVM

    sampler = JvmSampler(lambda: SimpleNamespace(figures=figures), clock)  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(module, "WAIT_S", 60.0)
    assert sampler.latest() is JVM
    monkeypatch.setattr(module, "WAIT_S", 0.05)
    hangs = True
    clock.now += FRESH_S + 1
    assert sampler.latest() is JVM
    clock.now += OLD_S
    assert sampler.latest() is None
    go_on.set()


def test_without_an_engine_there_is_nothing() -> None:
    def lost() -> None:
        raise EngineError("it will not start")

    assert JvmSampler(lambda: None, VirtualClock()).latest() is None
    assert JvmSampler(lost, VirtualClock()).latest() is None
