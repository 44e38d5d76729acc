"""Spreads flows over the processes that share a file: chooses the process of a flow, and the time of a move."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

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


def choose(
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
            most = choose(flow, candidates, counts, pack=True)
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
