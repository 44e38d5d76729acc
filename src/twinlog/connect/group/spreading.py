"""Which worker runs which connector: each has its share of what copies and of what does not, and few of them move."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from twinlog.connectors.model import ConnectorName

WorkerId = str
"""A worker as its group knows it."""

WORTH = 8
"""Nothing moves unless one worker has an eighth more than another, for what moves stands still for a moment."""


@dataclass(frozen=True, slots=True, order=True)
class ConnectorWeight:
    """What a connector asks of its worker: connectors of one `kind` compare by the tasks that they may have."""

    kind: str = ""
    tasks: int = 1


@dataclass(frozen=True, slots=True)
class PlannedAssignment:
    """What each worker is `given`. A connector that another worker has to end first is given to none; `planned` has the
    worker that gets it afterwards."""

    given: Mapping[WorkerId, frozenset[ConnectorName]]
    planned: Mapping[ConnectorName, WorkerId] = field(default_factory=dict)


def assign(
    owned: Mapping[WorkerId, Iterable[ConnectorName]],
    connectors: Mapping[ConnectorName, ConnectorWeight],
    planned: Mapping[ConnectorName, WorkerId] | None = None,
    unready: Container[WorkerId] = (),
) -> PlannedAssignment:
    """What each worker is to run, given what each still runs, and what was planned in the round before.

    Of workers that have as much of a kind the `unready` ones, whose Spark has just begun to start, come last.

    A connector that a worker has runs on there, unless it is taken away; then nobody gets it until that worker has
    ended it and joins again without it (KIP-415). Each kind is spread by itself: heartbeats do not outweigh a
    connector that copies.
    """
    if not owned:
        return PlannedAssignment({})
    owner: dict[ConnectorName, WorkerId] = {}
    for worker in sorted(owned):
        for name in owned[worker]:
            # Two of them own one only when one was cut off and does not know that yet.
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
    """Where the connectors of one kind are to run. `counts` are connectors of all kinds by worker."""

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
        """The worker that gets the connectors that no worker has."""

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
        """Move as long as two workers come closer to each other by that; each move makes the sum of squares less."""
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
                # The connector that leaves the smallest gap; among equals, one that does not run yet.
                yield min(movable, key=lambda name: (abs(gap - 2 * self._weights[name]), name in owner, name))
