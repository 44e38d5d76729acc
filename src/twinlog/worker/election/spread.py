"""Spreads flows over the processes that share a file: which process gets an idle flow, and when a flow moves."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

FlowName = str
ProcessName = str


@dataclass(frozen=True, slots=True)
class FlowMembers:
    """Who runs a flow, and which processes could: whether each is ready to."""

    runner: ProcessName
    ready: Mapping[ProcessName, bool]


def loads(crews: Mapping[FlowName, FlowMembers]) -> dict[ProcessName, int]:
    """How many of these flows each process runs that is there; 0 for those that only stand by."""
    counts = {process: 0 for crew in crews.values() for process in crew.ready}
    for crew in crews.values():
        if crew.runner in counts:
            counts[crew.runner] += 1
    return counts


def choose(
    flow: FlowName, processes: Iterable[ProcessName], counts: Mapping[ProcessName, int], *, pack: bool = False
) -> ProcessName:
    """Which of these processes is to run a flow: one that runs the fewest, or with `pack` the most.

    Among equals it is another one from flow to flow, so that flows which are given away by several at once spread; with
    `pack` it is the same one.
    """
    if pack:
        return min(processes, key=lambda process: (-counts.get(process, 0), process))
    return min(processes, key=lambda process: (counts.get(process, 0), _lot(flow, process), process))


def next_move(
    crews: Mapping[FlowName, FlowMembers], me: ProcessName, able: Container[FlowName], *, overlook: float = 0
) -> tuple[FlowName, ProcessName] | None:
    """Which flow this process hands over next, and to whom; None when it keeps what it runs.

    Nothing moves for less than two flows of difference, and only what is in `able`, the flows that can be handed over.
    Only the process that has the most to give moves one, so that there is one move at a time as long as all see the
    same. It does not wait for `overlook` of those that come first: these may have flows that cannot be handed over.
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
    """The same where flows are to be together: which flow goes from here to the process that runs the most of them.

    Processes that started at the same time may each have been given some.
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
    """The flow of a giver that goes to whom it outdoes the most, counted over flows that both may run."""
    surplus: dict[ProcessName, int] = {}
    for crew in crews.values():
        if giver in crew.ready:
            for process in crew.ready:
                surplus[process] = surplus.get(process, 0) + (crew.runner == giver) - (crew.runner == process)
    moves = [
        # A runner of another version may have no entry of its own.
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
