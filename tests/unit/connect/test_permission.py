"""A change waits until this worker is the only leader that may write."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import BEGIN, VirtualClock
from twinlog.connect.group.member import Assignment
from twinlog.connect.requests import FENCE_S, GROUP_S, OWNER_S, RequestGuard
from twinlog.connectors.model import ConnectorName
from twinlog.errors import ClusterError, NotOwnerError, RefusedError, RequestError, UnavailableError

LEADS = Assignment(1, "http://leader", leads=True, connectors=frozenset(), owners={})


def permission(errors: list[ClusterError], done: list[str]) -> RequestGuard:
    started = threading.Event()
    started.set()

    def fence(_: Assignment) -> None:
        if errors:
            raise errors.pop()
        done.append("fenced")

    group = SimpleNamespace(
        assignment=LEADS, term=1, reason=None, leads_for_s=lambda: 5.0, confirm_membership=lambda term: term == 1
    )
    thread = SimpleNamespace(
        group=group,
        started=started,
        left=False,
        changing=threading.Lock(),
        duties=SimpleNamespace(fence_earlier_leaders=fence),
    )
    state = SimpleNamespace(read_configs=lambda: done.append("read"))
    return RequestGuard(cast(Any, state), cast(Any, thread), VirtualClock())


def test_a_change_waits_while_earlier_leaders_cannot_be_fenced_yet() -> None:
    """A cluster makes its topic of transactions when somebody asks for the first."""
    done: list[str] = []
    with permission([ClusterError("no coordinator yet")] * 3, done).as_leader():
        done.append("changed")
    assert done == ["fenced", "read", "changed"]


@pytest.mark.parametrize("errors", [[RefusedError("no right")], [ClusterError("down")] * round(FENCE_S * 100)])
def test_it_does_not_wait_for_ever(errors: list[ClusterError]) -> None:
    done: list[str] = []
    with pytest.raises(RequestError) as refused, permission(errors, done).as_leader():
        done.append("changed")
    assert (refused.value.status, done) == (500, [])


class Starting:
    """A worker that starts, or is outside its group, while requests wait; `after` changes it once time has passed."""

    def __init__(self, assignment: Assignment | None = None, *, started: bool = False) -> None:
        self.clock = VirtualClock()
        self.group = SimpleNamespace(assignment=assignment, leads_for_s=lambda: 5.0)
        self.thread = SimpleNamespace(group=self.group, started=threading.Event(), left=False, stage="It reads.")
        if started:
            self.thread.started.set()
        state = SimpleNamespace(has_connector=lambda name: name == "known")
        self.may = RequestGuard(cast(Any, state), cast(Any, self.thread), self.clock)
        self._left: list[tuple[float, Callable[[], object]]] = []
        self._sleep = self.clock.sleep
        self.clock.sleep = self._pass  # type: ignore[method-assign]

    def after(self, seconds: float, change: Callable[[], object]) -> None:
        self._left.append((self.clock.now + seconds, change))

    def _pass(self, seconds: float) -> None:
        self._sleep(seconds)
        for at, change in self._left:
            if at <= self.clock.now:
                change()

    @property
    def waited_s(self) -> float:
        return round(self.clock.now - BEGIN)


def test_a_request_waits_for_the_state_and_a_change_for_the_group_too() -> None:
    worker = Starting()
    worker.after(20, worker.thread.started.set)
    worker.may.require_started()
    assert worker.waited_s == 20
    worker.after(30, lambda: setattr(worker.group, "assignment", LEADS))
    assert worker.may.wait_assignment() is LEADS
    assert worker.waited_s == 50


def test_who_waited_in_vain_hears_what_the_worker_does() -> None:
    for wait in (RequestGuard.require_started, RequestGuard.wait_assignment):
        worker = Starting()
        with pytest.raises(RequestError, match=r"^Request timed out\. It reads\.$") as late:
            wait(worker.may)
        assert late.value.status == 500
        assert worker.waited_s == GROUP_S


def test_who_waits_for_a_worker_that_stops_is_sent_away_at_once() -> None:
    worker = Starting(started=True)
    worker.after(2, lambda: setattr(worker.thread, "left", True))
    with pytest.raises(UnavailableError):
        worker.may.wait_assignment()
    assert worker.waited_s == 2


def test_a_request_waits_for_the_worker_that_gets_a_new_connector() -> None:
    name = ConnectorName("known")
    mine = replace(LEADS, connectors=frozenset({name}))
    theirs = replace(LEADS, owners={name: "http://other"})
    for found in (mine, theirs):
        worker = Starting(LEADS, started=True)
        worker.after(3, partial(setattr, worker.group, "assignment", found))
        if found is mine:
            worker.may.require_own(name)
        else:
            with pytest.raises(NotOwnerError) as owner:
                worker.may.require_own(name)
            assert owner.value.url == "http://other"
        assert worker.waited_s == 3


@pytest.mark.parametrize(("name", "waits_s"), [("known", OWNER_S), ("unknown", 0.0)])
def test_a_connector_that_nobody_gets_is_not_waited_for_for_ever(name: str, waits_s: float) -> None:
    worker = Starting(LEADS, started=True)
    with pytest.raises(NotOwnerError) as nobody:
        worker.may.require_own(ConnectorName(name))
    assert (nobody.value.url, worker.waited_s) == ("", waits_s)
