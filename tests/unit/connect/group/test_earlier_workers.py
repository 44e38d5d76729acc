"""Who becomes the leader of a group fences the leaders before it, once."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.connect.group.earlier_workers import EarlierLeaders
from twinlog.connect.group.member import Assignment
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.retry import LEADER_FENCING


def member(generation: int, *, leads: bool) -> Assignment:
    return Assignment(generation, "http://leader", leads, frozenset(), {})


class State:
    """Answers as it is told."""

    def __init__(self) -> None:
        self.claims = 0
        self.claimed = False
        self.error: ClusterError | None = None

    def claim_config_topic(self) -> None:
        self.claims += 1
        if self.error is not None:
            raise self.error
        self.claimed = True


@pytest.fixture
def state() -> State:
    return State()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def leaders(state: State, clock: VirtualClock) -> EarlierLeaders:
    return EarlierLeaders(cast(Any, state), threading.Lock(), clock)


def test_a_leader_fences_once_in_each_generation(leaders: EarlierLeaders, state: State) -> None:
    for assignment in (None, member(1, leads=False), member(2, leads=True), member(2, leads=True)):
        leaders.fence_when_due(assignment)
    leaders.fence_leaders(member(2, leads=True))
    assert state.claims == 1
    leaders.fence_when_due(member(3, leads=True))
    assert state.claims == 2


def test_a_write_that_was_not_answered_is_fenced_before_the_next(leaders: EarlierLeaders, state: State) -> None:
    leaders.fence_when_due(member(1, leads=True))
    state.claimed = False
    leaders.fence_leaders(member(1, leads=True))
    assert (state.claims, state.claimed) == (2, True)


def test_without_an_answer_it_is_tried_again(leaders: EarlierLeaders, state: State, clock: VirtualClock) -> None:
    state.error = ClusterError("it does not answer")
    leaders.fence_when_due(member(1, leads=True))
    leaders.fence_when_due(member(1, leads=True))
    assert state.claims == 1
    # Who wants to change something is told.
    with pytest.raises(ClusterError, match="it does not answer"):
        leaders.fence_leaders(member(1, leads=True))
    state.error = None
    clock.sleep(LEADER_FENCING.first_s)
    leaders.fence_when_due(member(1, leads=True))
    leaders.fence_when_due(member(1, leads=True))
    assert state.claims == 3


def test_without_the_right_that_is_told_once(
    leaders: EarlierLeaders, state: State, caplog: pytest.LogCaptureFixture
) -> None:
    state.error = RefusedError("no right")
    state.claimed = True
    for generation in (1, 1, 2):
        leaders.fence_when_due(member(generation, leads=True))
    assert state.claims == 2
    assert [record.getMessage() for record in caplog.records] == [
        "TW-WORKER-10: an earlier leader of the group may still write to the config topic: no right"
    ]
