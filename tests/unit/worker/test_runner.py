"""A process that may have no more threads still ends in order."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from harness.wait import wait_for
from tests.unit.worker.test_slots import settings
from twinlog.kafka.retry import FEW_THREADS
from twinlog.process.scratch import PREFIX
from twinlog.worker import runner as wanted_flows
from twinlog.worker.runner import CLUSTER_HUNG_S, HUNG_S, Outcome, Runner, RunOptions, outcome_of
from twinlog.worker.spark_flows import SparkOptions, all_at_once
from twinlog.worker.status.report import FlowState


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


class Spark:
    """Starts when it is told, and runs nothing."""

    web_url = None

    def __init__(self) -> None:
        self.hosted_flows: list[Any] = []
        self.done: list[str] = []

    def start(self) -> None:
        self.done.append(f"start for {len(self.hosted_flows)}")

    def poll_flows(self) -> bool:
        return False

    def shut_down(self) -> None:
        self.done.append("shut down")


class Elected:
    """A flow that stands by; only its comings and goings count."""

    def __init__(self, flow: Any) -> None:
        self.settings, self.gone, self.ended, self.failure = flow, False, False, None
        self.clearing = self.can_hand_over = self.changing = self.stands_by = False
        self.state = FlowState.STOPPED

    def start(self) -> None: ...

    def end(self) -> None:
        self.gone = True

    def close(self) -> None: ...


def test_a_run_without_a_flow_goes_on_until_one_comes_and_starts_spark_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(wanted_flows, "ElectedFlow", Elected)
    runner: Any = Runner([], RunOptions())
    runner.spark = spark = Spark()
    runner._wanted._make_elected = Elected
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(runner.run()))
    thread.start()
    assert runner.take_over([settings("a")], [settings("a")]).wait(60)
    wait_for(lambda: spark.hosted_flows, 60, "the flow is hosted")
    assert ([one.settings.name for one in runner.flows], spark.done) == (["a->z"], ["start for 1"])
    assert runner.take_over([], []).wait(60)
    wait_for(lambda: not spark.hosted_flows, 60, "the flow is gone")
    assert (runner.flows, thread.is_alive()) == ([], True)
    assert runner.take_over([settings("b")], [settings("b")]).wait(60)
    runner.stop()
    thread.join(60)
    assert (outcomes, spark.done) == ([Outcome.STOPPED], ["start for 1", "shut down"])


@pytest.mark.parametrize("until_caught_up", [True, False])
def test_a_run_lasts_until_a_flow_that_cannot_begin_yet_has_ended(
    until_caught_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its topics are not copied yet, though all flows that are there have ended."""
    monkeypatch.setattr(wanted_flows, "ElectedFlow", Elected)
    clock = VirtualClock()
    first, second = settings("a"), settings("b")
    runner: Any = Runner([first, second], RunOptions(until_caught_up=until_caught_up), clock=clock)
    runner.spark = Spark()
    limits = [OSError("too many open files")]

    def elected(flow: Any) -> Elected:
        if flow == second and limits:
            raise limits.pop()
        one = Elected(flow)
        one.ended = True
        return one

    runner._wanted._make_elected = elected
    runner._follow()
    assert ([one.settings for one in runner.flows], runner._finished()) == ([first], False)
    clock.sleep(FEW_THREADS.first_s)
    runner._follow()
    assert ([one.settings for one in runner.flows], runner._finished()) == ([first, second], True)


@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        ((), Outcome.DONE),
        ((FlowState.DONE, FlowState.DONE), Outcome.DONE),
        ((FlowState.DONE, FlowState.NOTHING), Outcome.NOTHING),
        ((FlowState.DONE, FlowState.STOPPED), Outcome.STOPPED),
        # Nothing was there for one, and nobody knows of the other.
        ((FlowState.NOTHING, FlowState.STARTING), Outcome.STOPPED),
        ((FlowState.FAILED, FlowState.NOTHING, FlowState.STOPPED), Outcome.FAILED),
    ],
)
def test_the_worst_counts(states: tuple[FlowState, ...], outcome: Outcome) -> None:
    assert outcome_of(states) is outcome
