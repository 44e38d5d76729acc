"""Spreads connectors over workers: each worker has its share of each kind of connector, and few connectors move."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from twinlog.connectors.model import ConnectorName

WorkerId = str
"""A worker as its group knows it."""

WORTH = 8
"""A connector moves only when the gap of two loads exceeds an eighth of the higher load: a moving connector pauses."""


@dataclass(frozen=True, slots=True, order=True)
class ConnectorWeight:
    """The load of a connector on its worker: connectors of a `kind` compare by their highest number of tasks."""

    kind: str = ""
    tasks: int = 1


@dataclass(frozen=True, slots=True)
class PlannedAssignment:
    """The connectors that each worker is `given`.

    A connector that another worker has to end first is missing there; `planned` has the worker that gets it afterwards.
    """

    given: Mapping[WorkerId, frozenset[ConnectorName]]
    planned: Mapping[ConnectorName, WorkerId] = field(default_factory=dict)


def assign(
    owned: Mapping[WorkerId, Iterable[ConnectorName]],
    connectors: Mapping[ConnectorName, ConnectorWeight],
    planned: Mapping[ConnectorName, WorkerId] | None = None,
    unready: Container[WorkerId] = (),
) -> PlannedAssignment:
    """Assign connectors to workers, from the connectors that each worker still runs and the plan of the round before.

    Among workers with an equal load of a kind, the `unready` workers, whose Spark has just begun to start, come last. A
    connector stays on its worker unless it is taken away. A connector that is taken away is assigned only after its
    worker has ended it and has joined again without it (KIP-415). Each kind is spread by itself, so that heartbeat
    connectors never outweigh a connector that copies.
    """
    if not owned:
        return PlannedAssignment({})
    owner: dict[ConnectorName, WorkerId] = {}
    for worker in sorted(owned):
        for name in owned[worker]:
            # Two workers own a connector only when either worker was cut off and is unaware of that.
            owner.setdefault(name, worker)
    counts = dict.fromkeys(owned, 0)
    final: dict[ConnectorName, WorkerId] = {}
    for kind in sorted({weight.kind for weight in connectors.values()}):
        weights = {name: max(1, weight.tasks) for name, weight in connectors.items() if weight.kind == kind}
        placement = _Placement(weights, counts, unready)
        for name in sorted(weights, key=lambda name: (name not in owner, -weights[name], name)):
            wanted = owner.get(name) or (planned or {}).get(name)
            placement.put(name, wanted if wanted in counts else placement.least)
        placement.even_out(owner)
        final |= placement.of
    given: dict[WorkerId, set[ConnectorName]] = {worker: set() for worker in owned}
    for name, worker in final.items():
        if owner.get(name, worker) == worker:
            given[worker].add(name)
    moves = {name: worker for name, worker in final.items() if owner.get(name, worker) != worker}
    return PlannedAssignment({worker: frozenset(names) for worker, names in given.items()}, moves)


class _Placement:
    """The workers of the connectors of a kind. `counts` are connectors of all kinds by worker."""

    def __init__(
        self, weights: Mapping[ConnectorName, int], counts: dict[WorkerId, int], unready: Container[WorkerId]
    ) -> None:
        self.of: dict[ConnectorName, WorkerId] = {}
        self._weights = weights
        self._counts = counts
        self._unready = unready
        self._loads = dict.fromkeys(counts, 0)

    @property
    def least(self) -> WorkerId:
        """The worker that gets the next connector that lacks a worker."""

        def order(worker: WorkerId) -> tuple[int, bool, int, WorkerId]:
            return self._loads[worker], worker in self._unready, self._counts[worker], worker

        return min(self._loads, key=order)

    def put(self, name: ConnectorName, worker: WorkerId) -> None:
        before = self.of.get(name)
        if before is not None:
            self._loads[before] -= self._weights[name]
            self._counts[before] -= 1
        self.of[name] = worker
        self._loads[worker] += self._weights[name]
        self._counts[worker] += 1

    def even_out(self, owner: Mapping[ConnectorName, WorkerId]) -> None:
        """Move connectors as long as a move brings two workers closer.

        Each move lowers the sum of the squared loads.
        """
        while (move := next(self._moves(owner), None)) is not None:
            self.put(move, self.least)

    def _moves(self, owner: Mapping[ConnectorName, WorkerId]) -> Iterator[ConnectorName]:
        least = self._loads[self.least]
        for most in sorted(self._loads, key=lambda worker: (-self._loads[worker], worker)):
            gap = self._loads[most] - least
            if WORTH * gap <= self._loads[most]:
                return
            movable = [name for name, at in self.of.items() if at == most and self._weights[name] < gap]
            if movable:
                # The connector that leaves the smallest gap; among equals, a connector that has still to begin.
                yield min(movable, key=lambda name: (abs(gap - 2 * self._weights[name]), name in owner, name))
