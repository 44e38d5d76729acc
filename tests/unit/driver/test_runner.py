"""A process that may have no more threads still ends in order."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.unit.driver.test_slots import settings
from twinlog.driver.runner import Runner, RunOptions, _all_at_once


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
    _all_at_once(steps)
    assert done == ["one", "two"]
    assert "this one fails" in caplog.text


def test_a_signal_stops_the_run(no_threads: None) -> None:
    runner = Runner([settings("a")], RunOptions())
    runner.stop()
    assert runner._finished()
