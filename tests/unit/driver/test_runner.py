"""A process that may have no more threads still ends in order."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.unit.driver.test_slots import settings
from twinlog.driver.outcome import Outcome
from twinlog.driver.runner import CLUSTER_HUNG_S, HUNG_S, Runner, RunOptions
from twinlog.driver.spark_flows import SparkOptions, all_at_once
from twinlog.scratch import PREFIX


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


def test_steps_are_done_one_after_the_other(no_threads: None, caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def fails() -> None:
        raise OSError("this one fails")

    steps: list[Any] = [lambda: done.append("one"), fails, lambda: done.append("two")]
    all_at_once(steps)
    assert done == ["one", "two"]
    assert "this one fails" in caplog.text


def test_a_signal_stops_the_run(no_threads: None) -> None:
    runner = Runner([settings("a")], RunOptions())
    runner.stop()
    assert runner._finished()


@pytest.mark.parametrize(("master", "waits_s"), [(None, HUNG_S), ("k8s://https://east", CLUSTER_HUNG_S)])
def test_a_jvm_that_may_only_be_slow_is_not_killed_on_a_cluster(
    master: str | None, waits_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[float] = []

    class Timer:
        daemon = False

        def __init__(self, seconds: float, _: object) -> None:
            timers.append(seconds)

        def start(self) -> None: ...

    monkeypatch.setattr(threading, "Timer", Timer)
    Runner([settings("a")], RunOptions(spark=SparkOptions(master))).stop()
    assert timers == [waits_s]


def test_a_run_begins_with_removing_what_killed_runs_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TWINLOG_CACHE", str(tmp_path))
    dead = tmp_path / f"{PREFIX}dead"
    dead.mkdir()
    assert Runner([], RunOptions(until_caught_up=True)).run() is Outcome.DONE
    assert not dead.exists()
