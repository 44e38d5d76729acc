"""What a task does with copiers of one flow or of several; the copiers only pretend."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import astuple
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from harness.wait import wait_for
from twinlog.copier.reporter import CopiedRange
from twinlog.errors import TwinlogError
from twinlog.spark import task as module
from twinlog.spark.source import SCHEMA
from twinlog.spark.task import copy_under_lease

COPIED = CopiedRange("t", 3, 10, 15, 20, 25, 5, 500, 7)


class Copier:
    """In place of a CopierThread."""

    made: ClassVar[list[Copier]] = []
    joined = 0

    def __init__(self, ticket: Any, *, bridge: bool = False) -> None:
        self.name = f"{ticket.flow}-{len(self.made)}"
        self.ended = threading.Event()
        self.error: TwinlogError | None = None
        self.lease: int | None = None
        self.left: list[int] = []
        self.reporter = SimpleNamespace(
            ranges=SimpleNamespace(take_ranges=lambda: [CopiedRange("t", 3, 10, 15, 20, 25, 5, 500, 7)])
        )
        self.made.append(self)

    def join_lease(self, ticket: Any, over: threading.Event, task: int) -> bool:
        if self.ended.is_set():
            return False
        self.lease, self.over = ticket.lease, over
        Copier.joined += 1
        return True

    def works_under(self, lease: int) -> bool:
        return not self.ended.is_set() and self.lease == lease

    def leave_lease(self, lease: int) -> None:
        if self.works_under(lease):
            self.left.append(lease)

    def break_down(self, error: TwinlogError) -> None:
        self.error = error
        self.ended.set()
        self.over.set()


def end(copier: Copier) -> None:
    """Its lease is over."""
    copier.lease = None
    copier.over.set()


@pytest.fixture(autouse=True)
def copiers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Copier]]:
    monkeypatch.setattr(module, "CopierThread", Copier)
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    # It would take what all tests have left.
    monkeypatch.setattr(module.gc, "collect", lambda: None)
    monkeypatch.setattr(module.gc, "freeze", lambda: None)
    Copier.made.clear()
    yield Copier.made
    module._copiers._copiers.clear()


PROGRAM = """
import gc, threading, weakref
from types import SimpleNamespace
from twinlog.spark import task

class Copier:
    def __init__(self, ticket, *, bridge):
        self.ended = threading.Event()
        # A copier and its parts know each other.
        self.part = SimpleNamespace(copier=self)

    def join_lease(self, ticket, over, task):
        return not self.ended.is_set()

task.CopierThread = Copier
process = task.ProcessCopiers()
ticket = SimpleNamespace(flow="f", address=SimpleNamespace(port=1), share=0)
made = []
for _ in range(5):
    copier = process.join_lease(ticket, threading.Event())
    copier.ended.set()
    made.append(weakref.ref(copier))
    del copier
process.forget_ended()
gc.collect()
print(sum(one() is not None for one in made))
"""


def test_a_process_keeps_no_memory_of_ended_copiers_except_the_first() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300)
    assert int(done.stdout) == 1


def tickets(*leases: tuple[str, int]) -> Any:
    address = SimpleNamespace(port=1)
    return [SimpleNamespace(flow=name, address=address, lease=lease, share=0) for name, lease in leases]


def run(shared: Any, step: Callable[[], None]) -> list[tuple[Any, ...]]:
    """Run a task to its end; a step is taken once its copiers have joined."""
    joined = Copier.joined + len(shared)

    def take() -> None:
        wait_for(lambda: Copier.joined == joined, 60, "all have joined", every_s=0.005)
        step()

    taking = threading.Thread(target=take)
    taking.start()
    rows = [row for some in copy_under_lease(shared) for row in some]
    taking.join()
    return rows


def test_a_task_ends_with_its_lease_and_keeps_its_copier(copiers: list[Copier]) -> None:
    rows = run(tickets(("a->b", 1)), lambda: end(copiers[0]))
    assert rows == [("a->b", 1, 0, "a->b-0", *astuple(COPIED))]
    assert len(rows[0]) == len(SCHEMA.split(", "))
    assert copiers[0].left == []
    run(tickets(("a->b", 2)), lambda: end(copiers[0]))
    assert len(copiers) == 1


def test_when_one_lease_ends_the_copiers_of_others_leave_theirs(copiers: list[Copier]) -> None:
    both = tickets(("a->b", 1), ("b->a", 7))
    rows = run(both, lambda: end(copiers[1]))
    assert [row[:2] for row in rows] == [("a->b", 1), ("b->a", 7)]
    assert [copier.left for copier in copiers] == [[1], []]
    run(tickets(("a->b", 1), ("b->a", 8)), lambda: end(copiers[0]))
    assert len(copiers) == 2
    assert copiers[1].left == [8]


def test_what_stops_the_only_copier_of_a_task_fails_it(copiers: list[Copier]) -> None:
    with pytest.raises(TwinlogError, match="broken"):
        run(tickets(("a->b", 1)), lambda: copiers[0].break_down(TwinlogError("broken")))


def test_what_stops_one_copier_leaves_the_others_of_its_task_alone(
    copiers: list[Copier], caplog: pytest.LogCaptureFixture
) -> None:
    run(tickets(("a->b", 1), ("b->a", 7)), lambda: copiers[0].break_down(TwinlogError("broken")))
    assert "broken" in caplog.text
    assert copiers[1].left == [7]
    run(tickets(("a->b", 1), ("b->a", 7)), lambda: end(copiers[2]))
    assert [copier.name for copier in copiers] == ["a->b-0", "b->a-1", "a->b-2"]
    assert [*map(id, module._copiers._copiers.values())] == [id(copiers[1]), id(copiers[2])], (
        "what has ended is forgotten"
    )
