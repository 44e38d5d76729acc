"""The supervisor of Spark when engines die at any moment, and its pauses; engines are fakes."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as some

from harness.wait import wait_for
from twinlog.errors import EngineError, EngineLostError
from twinlog.spark import supervisor as module
from twinlog.spark.supervisor import WAITS_S, WINDOW_S, Restarts, SupervisedEngine

DEADLINE_S = 60.0
STOP_S = 60.0


def killed() -> EngineLostError:
    return EngineLostError("Spark's JVM was killed by SIGKILL")


class Engine:
    """As much of a SparkEngine as its supervisor asks for; dies of `error`. Its start waits for `go`."""

    local = own = True

    def __init__(self, error: EngineError | None = None, *, slow: bool = False) -> None:
        self.error = error
        self.go = threading.Event()
        self.quiet = False
        self.started = threading.Event()
        self.stopped = threading.Event()
        if not slow:
            self.go.set()

    def start(self) -> None:
        self.started.set()
        self.go.wait(DEADLINE_S)
        self.require_alive()

    def require_alive(self) -> None:
        if self.error is not None:
            raise self.error

    def expect_end(self) -> None:
        self.quiet = True

    def interrupt(self) -> None:
        self.error = EngineLostError("asked to end")
        self.go.set()

    def stop(self, timeout_s: float) -> None:
        assert timeout_s > 0
        self.stopped.set()


def supervise(*engines: Engine, waits_s: tuple[float, ...] = (0.0, 0.0)) -> SupervisedEngine:
    """A supervisor that gets these engines one after the other, and must not ask for more."""
    waiting = list(engines)

    def build() -> Engine:
        engine = waiting.pop(0)
        assert all(before.stopped.is_set() for before in engines[: engines.index(engine)])
        return engine

    supervised = SupervisedEngine(build, lambda: None, Restarts(waits_s))  # type: ignore[arg-type]
    supervised.start()
    return supervised


def current(supervised: SupervisedEngine) -> object:
    return supervised.engine


def wait_until_it_runs(supervised: SupervisedEngine, engine: Engine) -> None:
    wait_for(lambda: current(supervised) is engine, DEADLINE_S, "the engine runs")


def wait_until_given_up(supervised: SupervisedEngine) -> str:
    def reason() -> str | None:
        try:
            current(supervised)
        except EngineError as error:
            return str(error)
        return None

    return wait_for(reason, DEADLINE_S, "no engine is to be had any more") or ""


@pytest.mark.parametrize("moment", ["while it runs", "while it starts"])
def test_one_that_was_killed_is_followed_by_another(moment: str, caplog: pytest.LogCaptureFixture) -> None:
    first, second = Engine(killed() if moment == "while it starts" else None), Engine()
    with caplog.at_level(logging.INFO):
        supervised = supervise(first, second)
        if moment == "while it runs":
            wait_until_it_runs(supervised, first)
            first.error = killed()
        wait_until_it_runs(supervised, second)
        supervised.stop(STOP_S)
    assert second.stopped.is_set()
    loss, again = caplog.messages
    assert loss == (
        "TW-SPARK-03: Spark's JVM was killed by SIGKILL: Spark is started again now (1 of 2 times within 10 min), "
        "and nothing is copied meanwhile"
    )
    assert again.startswith("Spark runs again after")


def test_what_runs_none_says_why_until_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Engine(killed()), Engine(slow=True)
    supervised = supervise(first, second)
    assert second.started.wait(DEADLINE_S)
    assert supervised.trouble == (
        "TW-SPARK-03: Spark's JVM was killed by SIGKILL: Spark is started again, and nothing is copied meanwhile"
    )
    second.go.set()
    wait_until_it_runs(supervised, second)
    assert supervised.trouble is None
    supervised.stop(STOP_S)

    slow = Engine(slow=True)
    supervised = supervise(slow)
    assert supervised.trouble is None
    monkeypatch.setattr(module, "SLOW_S", 0.0)
    assert str(supervised.trouble).startswith("TW-SPARK-04: Spark has not started within 0 s")
    slow.error = EngineError("no Java")
    slow.go.set()
    assert wait_until_given_up(supervised) == "no Java"
    assert supervised.trouble is None


def test_an_engine_that_another_thread_found_lost_is_replaced_once() -> None:
    first, second = Engine(), Engine()
    supervised = supervise(first, second)
    wait_until_it_runs(supervised, first)
    for _ in range(2):
        supervised.report_loss(first, killed())  # type: ignore[arg-type]
    assert current(supervised) is not first
    wait_until_it_runs(supervised, second)
    supervised.report_loss(first, killed())  # type: ignore[arg-type]
    assert current(supervised) is second
    supervised.stop(STOP_S)


def test_too_many_losses_end_it() -> None:
    engines = [Engine(killed()) for _ in range(3)]
    assert wait_until_given_up(supervise(*engines)) == (
        "Spark's JVM was killed by SIGKILL, again after its restart 2 times within 10 min"
    )
    assert all(engine.stopped.is_set() for engine in engines)


def test_what_never_worked_is_not_tried_again() -> None:
    engine = Engine(EngineError("no Java"))
    assert wait_until_given_up(supervise(engine)) == "no Java"
    assert engine.stopped.is_set()


def test_what_worked_before_is_tried_again() -> None:
    first, second, third = Engine(), Engine(EngineError("no memory just now")), Engine()
    supervised = supervise(first, second, third)
    wait_until_it_runs(supervised, first)
    first.error = killed()
    wait_until_it_runs(supervised, third)
    supervised.stop(STOP_S)


def test_a_stop_ends_one_that_is_just_starting() -> None:
    engine = Engine(slow=True)
    supervised = supervise(engine)
    assert engine.started.wait(DEADLINE_S)
    began = time.monotonic()
    supervised.stop(STOP_S)
    assert engine.stopped.is_set()
    assert time.monotonic() - began < STOP_S


@pytest.mark.parametrize("hangs", [False, True])
def test_one_that_waits_for_its_first_executor_ends_in_order(hangs: bool) -> None:
    """A JVM that is killed then leaves the executors behind that it has asked for, unless it does not answer."""
    waits = threading.Event()

    class Waiting(Engine):
        local, killed = False, False

        def wait_for_slot(self, timeout_s: float, over: threading.Event) -> None:
            waits.set()
            assert over.wait(DEADLINE_S)

        def interrupt(self) -> None:
            self.killed = True

    engine = Waiting()
    supervised = supervise(engine)
    assert waits.wait(DEADLINE_S)
    if hangs:
        supervised.interrupt()
    supervised.stop(STOP_S)
    assert engine.stopped.is_set()
    assert engine.quiet
    assert engine.killed is hangs


def test_a_stop_ends_the_wait_for_the_next_start() -> None:
    first, never = Engine(killed()), Engine()
    supervised = supervise(first, never, waits_s=(60.0,))
    assert first.stopped.wait(DEADLINE_S)
    began = time.monotonic()
    supervised.stop(STOP_S)
    assert time.monotonic() - began < STOP_S
    assert not never.started.is_set()


def test_closed_it_keeps_what_runs_and_starts_nothing() -> None:
    engine = Engine()
    supervised = supervise(engine)
    wait_until_it_runs(supervised, engine)
    supervised.close()
    assert current(supervised) is engine
    # What Spark logs of its end is nothing to worry about.
    assert engine.quiet
    engine.error = killed()
    assert engine.stopped.wait(DEADLINE_S)
    supervised.stop(STOP_S)


@pytest.mark.parametrize("slow", [False, True])
def test_an_engine_that_does_not_answer_can_be_ended(slow: bool) -> None:
    engine = Engine(slow=slow)
    supervised = supervise(engine)
    assert engine.started.wait(DEADLINE_S)
    if not slow:
        wait_until_it_runs(supervised, engine)
    supervised.interrupt()
    assert engine.stopped.wait(DEADLINE_S)
    assert current(supervised) is None
    supervised.stop(STOP_S)


def test_every_loss_waits_longer_until_there_were_too_many() -> None:
    restarts = Restarts((0.0, 1.0, 5.0), 600.0)
    assert [restarts.count_loss(10.0 * number) for number in range(5)] == [0.0, 1.0, 5.0, None, None]
    assert restarts.rule == "3 times within 10 min"


def test_what_is_long_ago_does_not_count() -> None:
    restarts = Restarts((0.0, 1.0), 60.0)
    assert [restarts.count_loss(at) for at in (0.0, 30.0)] == [0.0, 1.0]
    assert (restarts.count_loss(61.0), restarts.count) == (1.0, 2)
    assert (restarts.count_loss(62.0), restarts.count) == (None, 3)
    assert (restarts.count_loss(200.0), restarts.count) == (0.0, 1)


def test_five_times_within_ten_minutes() -> None:
    assert (len(WAITS_S), WINDOW_S) == (5, 600.0)
    assert list(WAITS_S) == sorted(WAITS_S)
    # The first time records should go on within fifteen seconds, and Spark needs most of them.
    assert WAITS_S[0] == 0


@given(some.lists(some.floats(0, 300), max_size=30))
def test_it_goes_on_as_long_as_no_window_has_more_than_the_limit(gaps: list[float]) -> None:
    restarts = Restarts((0.0, 1.0, 2.0), 600.0)
    at, times = 0.0, []
    for gap in gaps:
        at += gap
        times.append(at)
        within = [one for one in times if at - one < 600.0]
        assert (restarts.count_loss(at) is None) == (len(within) > 3)
