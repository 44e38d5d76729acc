"""Flows whose copiers share the tasks of a streaming query."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from twinlog.clock import SYSTEM, Clock
from twinlog.lease.grant import Share
from twinlog.lease.leases import Leases


class QueryFlows:
    """The flows of a query, as its planner asks for them; flows may come and go while the query runs.

    Usually a query has a single flow, with a task for each share of its lease. Several flows share a single task: Spark
    runs at most as many tasks at once as it has slots, and a task keeps its slot for a whole lease.
    """

    def __init__(self, name: str, flows: Iterable[Leases] = (), clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self.name = name
        self._flows: dict[str, Leases] = {}
        self._changed = threading.Event()
        self.refused: str | None = None
        """A refused planner of another version, or None."""
        for leases in flows:
            self.add(leases)

    def add(self, leases: Leases) -> None:
        """From the next micro-batch on, tasks run the copiers of this flow, too."""
        self._flows = {**self._flows, leases.flow: leases}
        leases.unclaimed_again = self._changed.set
        self._changed.set()

    def remove(self, leases: Leases) -> None:
        """The next micro-batch leaves this flow out."""
        self._flows = {name: other for name, other in self._flows.items() if other is not leases}

    @property
    def mismatch(self) -> str | None:
        """A process of Spark that is refused because of another version, or None."""
        return self.refused or next((flow.refused for flow in self._flows.values() if flow.refused is not None), None)

    def next_batch(self, after: int, timeout_s: float) -> int:
        """The number of the next micro-batch, or `after` if the time passes first.

        The planner asks between two micro-batches, while all tasks of this query have ended. A micro-batch is due when
        a share waits for a copier.
        """
        deadline = self._clock.monotonic() + timeout_s
        while True:
            self._changed.clear()
            if any(leases.unclaimed for leases in self._flows.values()):
                return after + 1
            if not self._clock.wait(self._changed, max(0.0, deadline - self._clock.monotonic())):
                return after

    def shares(self) -> list[list[Share]]:
        """The shares of each task of a micro-batch: the first task has the first share of each flow, and so on."""
        tasks: list[list[Share]] = []
        for leases in self._flows.values():
            lease, shares = leases.current()
            tasks += [[] for _ in range(shares - len(tasks))]
            for number in range(shares):
                tasks[number].append(Share(leases.flow, lease, number))
        return tasks
