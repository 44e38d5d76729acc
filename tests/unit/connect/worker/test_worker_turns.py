"""How often a worker takes a turn."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.connect.worker_thread import CALM_S, IDLE_TICK_S, TICK_S, WorkerThread


class Turns:
    """A worker in virtual time, woken at some of its waits; ends after `CALM_S` four times."""

    def __init__(self, *, woken: set[int], has_spark: bool) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self._woken = woken
        worker: Any = object.__new__(WorkerThread)
        worker._stopping, worker._wake = threading.Event(), threading.Event()
        worker._running, worker._clock = SimpleNamespace(has_spark=has_spark), self
        worker.begin, worker.process_assignment, worker.end = (lambda: True), (lambda: None), (lambda: None)
        self._worker = worker
        worker._run()

    def monotonic(self) -> float:
        return self.now

    def wait(self, _: threading.Event, timeout_s: float) -> bool:
        self.waits.append(timeout_s)
        self.now += timeout_s
        if self.now > 4 * CALM_S:
            self._worker._stopping.set()
        return len(self.waits) in self._woken


@pytest.mark.parametrize(("has_spark", "idle_s"), [(False, IDLE_TICK_S), (True, TICK_S)])
def test_a_worker_that_nothing_wakes_takes_fewer_turns_unless_it_polls_spark(has_spark: bool, idle_s: float) -> None:
    waits = Turns(woken=set(), has_spark=has_spark).waits
    often = int(CALM_S / TICK_S) - 1
    assert set(waits[:often]) == {TICK_S}
    assert set(waits[often + 2 :]) == {idle_s}


def test_a_woken_worker_takes_turns_often_again() -> None:
    first = int(CALM_S / TICK_S) + 10
    waits = Turns(woken={first}, has_spark=False).waits
    assert waits[first - 1] == IDLE_TICK_S
    often = int(CALM_S / TICK_S) - 1
    assert set(waits[first : first + often]) == {TICK_S}
    assert waits[-1] == IDLE_TICK_S
