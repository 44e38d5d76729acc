"""What a task does with copiers of one flow or of several; the copiers only pretend."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from harness.wait import wait_for
from twinlog.errors import TwinlogError
from twinlog.spark import task as module
from twinlog.spark.task import copy_under_lease


class Host:
    """In place of a CopierHost."""

    made: ClassVar[list[Host]] = []
    joined = 0

    def __init__(self, ticket: Any) -> None:
        self.name = f"{ticket.settings.name}-{len(self.made)}"
        self.ended = threading.Event()
        self.error: TwinlogError | None = None
        self.lease: int | None = None
        self.left: list[int] = []
        self.reporter = SimpleNamespace(partitions=3, more=lambda: (5, 500))
        self.made.append(self)

    def join(self, ticket: Any, over: threading.Event) -> bool:
        if self.ended.is_set():
            return False
        self.lease, self.over = ticket.lease, over
        Host.joined += 1
        return True

    def works_under(self, lease: int) -> bool:
        return not self.ended.is_set() and self.lease == lease

    def leave(self, lease: int) -> None:
        if self.works_under(lease):
            self.left.append(lease)

    def break_down(self, error: TwinlogError) -> None:
        self.error = error
        self.ended.set()
        self.over.set()


def end(host: Host) -> None:
    """Its lease is over."""
    host.lease = None
    host.over.set()


@pytest.fixture(autouse=True)
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Host]]:
    monkeypatch.setattr(module, "CopierThread", Host)
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    monkeypatch.setattr(module.gc, "freeze", lambda: None)
    Host.made.clear()
    yield Host.made
    module._hosts.clear()


def tickets(*leases: tuple[str, int]) -> Any:
    address = SimpleNamespace(port=1)
    return [
        SimpleNamespace(settings=SimpleNamespace(name=name), address=address, lease=lease, share=0)
        for name, lease in leases
    ]


def run(shared: Any, step: Callable[[], None]) -> list[tuple[Any, ...]]:
    """Run a task to its end; a step is taken once its copiers have joined."""
    joined = Host.joined + len(shared)

    def take() -> None:
        wait_for(lambda: Host.joined == joined, 60, "all have joined", every_s=0.005)
        step()

    taking = threading.Thread(target=take)
    taking.start()
    rows = list(copy_under_lease(shared))
    taking.join()
    return rows


def test_a_task_ends_with_its_lease_and_keeps_its_copier(hosts: list[Host]) -> None:
    rows = run(tickets(("a->b", 1)), lambda: end(hosts[0]))
    assert rows == [("a->b", 1, 0, "a->b-0", 3, 5, 500)]
    assert hosts[0].left == []
    run(tickets(("a->b", 2)), lambda: end(hosts[0]))
    assert len(hosts) == 1


def test_when_one_lease_ends_the_copiers_of_others_leave_theirs(hosts: list[Host]) -> None:
    both = tickets(("a->b", 1), ("b->a", 7))
    rows = run(both, lambda: end(hosts[1]))
    assert [row[:2] for row in rows] == [("a->b", 1), ("b->a", 7)]
    assert [host.left for host in hosts] == [[1], []]
    run(tickets(("a->b", 1), ("b->a", 8)), lambda: end(hosts[0]))
    assert len(hosts) == 2
    assert hosts[1].left == [8]


def test_what_stops_the_only_copier_of_a_task_fails_it(hosts: list[Host]) -> None:
    with pytest.raises(TwinlogError, match="broken"):
        run(tickets(("a->b", 1)), lambda: hosts[0].break_down(TwinlogError("broken")))


def test_what_stops_one_copier_leaves_the_others_of_its_task_alone(
    hosts: list[Host], caplog: pytest.LogCaptureFixture
) -> None:
    run(tickets(("a->b", 1), ("b->a", 7)), lambda: hosts[0].break_down(TwinlogError("broken")))
    assert "broken" in caplog.text
    assert hosts[1].left == [7]
    run(tickets(("a->b", 1), ("b->a", 7)), lambda: end(hosts[2]))
    assert [host.name for host in hosts] == ["a->b-0", "b->a-1", "a->b-2"]
    assert [*map(id, module._hosts.values())] == [id(hosts[1]), id(hosts[2])], "what has ended is forgotten"
