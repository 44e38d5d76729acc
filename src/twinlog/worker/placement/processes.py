"""Places the flows of a file, or the connectors of a group, on processes: evenly, and with few moves.

Processes that share a file move a flow at a time, and each process decides alone. The workers of a group have a leader,
which assigns all connectors at each rebalance, each kind of connector by itself and by weight.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

C = TypeVar("C", bound=str)
"""The name of a connector."""

FlowName = str
ProcessName = str


@dataclass(frozen=True, slots=True)
class FlowMembers:
    """The process that runs a flow, and the processes that could run it: whether each of them is ready."""

    runner: ProcessName
    ready: Mapping[ProcessName, bool]


def loads(crews: Mapping[FlowName, FlowMembers]) -> dict[ProcessName, int]:
    """The number of these flows that each present process runs; 0 for a process that is only on standby."""
    counts = {process: 0 for crew in crews.values() for process in crew.ready}
    for crew in crews.values():
        if crew.runner in counts:
            counts[crew.runner] += 1
    return counts


def choose_process(
    flow: FlowName, processes: Iterable[ProcessName], counts: Mapping[ProcessName, int], *, pack: bool = False
) -> ProcessName:
    """The process that shall run a flow: a process that runs the fewest flows, or with `pack` the most.

    Among equals the choice differs from flow to flow, so that flows spread which several processes give away at once.
    With `pack` the choice is the same for all flows.
    """
    if pack:
        return min(processes, key=lambda process: (-counts.get(process, 0), process))
    return min(processes, key=lambda process: (counts.get(process, 0), _lot(flow, process), process))


def next_move(
    crews: Mapping[FlowName, FlowMembers], me: ProcessName, able: Container[FlowName], *, overlook: float = 0
) -> tuple[FlowName, ProcessName] | None:
    """The next flow that this process hands over, and the receiver; None if it keeps its flows.

    A flow moves only for a difference of two flows, and only if it is in `able`, the flows that can be handed over. Of
    all processes that could move a flow, only the process with the most flows does so. So moves are sequential as long
    as all processes see the same state. A process ignores up to `overlook` processes that precede it, because their
    flows may be unable to move.
    """
    move = _best(crews, me, able)
    if move is None:
        return None
    givers = loads(crews)
    busier = [other for other, count in givers.items() if (count, other) > (givers.get(me, 0), me)]
    return None if sum(_best(crews, other, crews) is not None for other in busier) > overlook else move


def next_gathering(
    crews: Mapping[FlowName, FlowMembers], me: ProcessName, able: Container[FlowName]
) -> tuple[FlowName, ProcessName] | None:
    """The next move of flows that gather: a flow of this process, and the process that runs the most flows.

    Processes that started at the same time may each have got some flows.
    """
    counts = loads(crews)
    for flow, crew in sorted(crews.items()):
        if crew.runner == me and flow in able:
            candidates = {me, *(process for process, ready in crew.ready.items() if ready)}
            most = choose_process(flow, candidates, counts, pack=True)
            if most != me and counts[most]:
                return flow, most
    return None


def _best(
    crews: Mapping[FlowName, FlowMembers], giver: ProcessName, able: Container[FlowName]
) -> tuple[FlowName, ProcessName] | None:
    """A flow of the giver, for the process that it exceeds the most; the numbers are over flows that both may run."""
    surplus: dict[ProcessName, int] = {}
    for crew in crews.values():
        if giver in crew.ready:
            for process in crew.ready:
                surplus[process] = surplus.get(process, 0) + (crew.runner == giver) - (crew.runner == process)
    moves = [
        # A runner of another version may be missing here.
        (-surplus.get(process, 0), _lot(flow, process), flow, process)
        for flow, crew in crews.items()
        if crew.runner == giver and flow in able
        for process, ready in crew.ready.items()
        if ready and process != giver and surplus.get(process, 0) >= 2
    ]
    if not moves:
        return None
    _, _, flow, process = min(moves)
    return flow, process


def _lot(flow: FlowName, process: ProcessName) -> str:
    return hashlib.sha256(f"{flow} {process}".encode()).hexdigest()


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
class PlannedAssignment(Generic[C]):
    """The connectors that each worker is `given`.

    A connector that another worker has to end first is missing there; `planned` has the worker that gets it afterwards.
    """

    given: Mapping[WorkerId, frozenset[C]]
    planned: Mapping[C, WorkerId] = field(default_factory=dict)


def assign_connectors(
    owned: Mapping[WorkerId, Iterable[C]],
    connectors: Mapping[C, ConnectorWeight],
    planned: Mapping[C, WorkerId] | None = None,
    unready: Container[WorkerId] = (),
) -> PlannedAssignment[C]:
    """Assign connectors to workers, from the connectors that each worker still runs and the plan of the round before.

    Among workers with an equal load of a kind, the `unready` workers, whose Spark has just begun to start, come last. A
    connector stays on its worker unless it is taken away. A connector that is taken away is assigned only after its
    worker has ended it and has joined again without it (KIP-415). Each kind is spread by itself, so that heartbeat
    connectors never outweigh a connector that copies.
    """
    if not owned:
        return PlannedAssignment({})
    owner: dict[C, WorkerId] = {}
    for worker in sorted(owned):
        for name in owned[worker]:
            # Two workers own a connector only when either worker was cut off and is unaware of that.
            owner.setdefault(name, worker)
    counts = dict.fromkeys(owned, 0)
    final: dict[C, WorkerId] = {}
    for kind in sorted({weight.kind for weight in connectors.values()}):
        weights = {name: max(1, weight.tasks) for name, weight in connectors.items() if weight.kind == kind}
        placement = _Placement(weights, counts, unready)
        for name in sorted(weights, key=lambda name: (name not in owner, -weights[name], name)):
            wanted = owner.get(name) or (planned or {}).get(name)
            placement.put(name, wanted if wanted in counts else placement.least)
        placement.even_out(owner)
        final |= placement.of
    given: dict[WorkerId, set[C]] = {worker: set() for worker in owned}
    for name, worker in final.items():
        if owner.get(name, worker) == worker:
            given[worker].add(name)
    moves = {name: worker for name, worker in final.items() if owner.get(name, worker) != worker}
    return PlannedAssignment({worker: frozenset(names) for worker, names in given.items()}, moves)


class _Placement(Generic[C]):
    """The workers of the connectors of a kind. `counts` are connectors of all kinds by worker."""

    def __init__(self, weights: Mapping[C, int], counts: dict[WorkerId, int], unready: Container[WorkerId]) -> None:
        self.of: dict[C, WorkerId] = {}
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

    def put(self, name: C, worker: WorkerId) -> None:
        before = self.of.get(name)
        if before is not None:
            self._loads[before] -= self._weights[name]
            self._counts[before] -= 1
        self.of[name] = worker
        self._loads[worker] += self._weights[name]
        self._counts[worker] += 1

    def even_out(self, owner: Mapping[C, WorkerId]) -> None:
        """Move connectors as long as a move brings two workers closer.

        Each move lowers the sum of the squared loads.
        """
        while (move := next(self._moves(owner), None)) is not None:
            self.put(move, self.least)

    def _moves(self, owner: Mapping[C, WorkerId]) -> Iterator[C]:
        least = self._loads[self.least]
        for most in sorted(self._loads, key=lambda worker: (-self._loads[worker], worker)):
            gap = self._loads[most] - least
            if WORTH * gap <= self._loads[most]:
                return
            movable = [name for name, at in self.of.items() if at == most and self._weights[name] < gap]
            if movable:
                # The connector that leaves the smallest gap; among equals, a connector that has still to begin.
                yield min(movable, key=lambda name: (abs(gap - 2 * self._weights[name]), name in owner, name))
