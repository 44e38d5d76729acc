"""A change waits until this worker is the only leader that may write."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.connect.group.member import Assignment
from twinlog.connect.permission import GROUP_S, Permission
from twinlog.errors import ClusterError, RefusedError, RequestError

LEADS = Assignment(1, "http://leader", leads=True, connectors=frozenset(), owners={})


def permission(errors: list[ClusterError], done: list[str]) -> Permission:
    started = threading.Event()
    started.set()

    def fence(_: Assignment) -> None:
        if errors:
            raise errors.pop()
        done.append("fenced")

    group = SimpleNamespace(
        assignment=LEADS, term=1, reason=None, leads_for_s=lambda: 5.0, confirm=lambda term: term == 1
    )
    thread = SimpleNamespace(
        group=group,
        started=started,
        left=False,
        changing=threading.Lock(),
        duties=SimpleNamespace(fence_earlier_leaders=fence),
    )
    state = SimpleNamespace(read_configs=lambda: done.append("read"))
    return Permission(cast(Any, state), cast(Any, thread), VirtualClock())


def test_a_change_waits_while_earlier_leaders_cannot_be_fenced_yet() -> None:
    """A cluster makes its topic of transactions when somebody asks for the first."""
    done: list[str] = []
    with permission([ClusterError("no coordinator yet")] * 3, done).leading():
        done.append("changed")
    assert done == ["fenced", "read", "changed"]


@pytest.mark.parametrize("errors", [[RefusedError("no right")], [ClusterError("down")] * round(GROUP_S * 100)])
def test_it_does_not_wait_for_ever(errors: list[ClusterError]) -> None:
    done: list[str] = []
    with pytest.raises(RequestError) as refused, permission(errors, done).leading():
        done.append("changed")
    assert (refused.value.status, done) == (500, [])
