"""What is logged once, what again, and what only when it lasts."""

from __future__ import annotations

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.process import log_once
from twinlog.process.log_once import LogOnce


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def once(clock: VirtualClock) -> LogOnce:
    return LogOnce(clock)


def test_each_thing_is_new_once(once: LogOnce, clock: VirtualClock) -> None:
    assert [once.is_new(what) for what in ("a", "b", "a")] == [True, True, False]
    clock.now = 1e9
    assert not once.is_new("a")


def test_what_lasts_is_new_again_after_a_while(once: LogOnce, clock: VirtualClock) -> None:
    found = []
    for clock.now in (0.0, 59.0, 60.0, 61.0, 120.0):
        found.append(once.is_new("a", 60.0))
    assert found == [True, False, True, False, True]


def test_the_oldest_is_forgotten_when_there_is_too_much(once: LogOnce, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_once, "MOST", 2)
    assert [once.is_new(what) for what in "abcba"] == [True, True, True, False, True]


def test_so_is_the_oldest_state(once: LogOnce, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job could not do may have another text each time, and never end."""
    monkeypatch.setattr(log_once, "MOST", 2)
    assert [once.is_due(text) for text in "abcba"] == [True, True, True, False, True]
    assert not once.end_condition("b")


def test_a_state_is_logged_once_it_has_lasted(once: LogOnce, clock: VirtualClock) -> None:
    found = []
    for clock.now in (0.0, 4.9, 5.0, 100.0):
        found.append(once.is_due("down", 5.0))
    assert found == [False, False, True, False]
    assert once.end_condition("down")
    # The next time it is another one, which passes too soon.
    assert not once.is_due("down", 5.0)
    clock.now = 104.0
    assert not once.is_due("down", 5.0)
    assert not once.end_condition("down")


def test_a_state_that_goes_on_is_logged_more_and_more_seldom(once: LogOnce, clock: VirtualClock) -> None:
    logged = []
    for clock.now in range(400):
        if once.is_due("down", 3.0, 10.0, 60.0):
            logged.append(clock.now)
    assert logged == [3, 13, 33, 73, 133, 193, 253, 313, 373]


def test_a_state_that_begins_anew_is_logged_already(once: LogOnce, clock: VirtualClock) -> None:
    once.is_due("down")
    once.restart_condition("down")
    clock.now = 1.0
    assert not once.is_due("down", 2.0)
    assert once.all_over()
    assert not once.all_over()
