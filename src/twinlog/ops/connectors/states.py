"""The states of connectors and their tasks, by a worker's answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinlog.errors import RequestError, TwinlogError
from twinlog.ops.connectors.rest import ConnectRest, plain

FAILED, RUNNING = "FAILED", "RUNNING"
_IDLE = {"PAUSED", "STOPPED"}
_STABLE = {RUNNING, FAILED} | _IDLE
STAYS_S = 5.0
"""How long a connector must be paused, stopped or empty of tasks before this counts as its lasting state: a command
takes effect a moment later."""
LOOK_EVERY_S = 0.5

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConnectorStatuses:
    """A look at some connectors: the statuses, and the names of connectors that still lack a status."""

    statuses: Mapping[str, Row]
    without: tuple[str, ...]

    @property
    def failed(self) -> bool:
        return any(state == FAILED for status in self.statuses.values() for state in states(status))


def states(status: Row) -> list[str]:
    """The states of a connector and of its tasks."""
    return [str(part["state"]) for part in (status["connector"], *status["tasks"])]


def look(rest: ConnectRest, names: Sequence[str]) -> ConnectorStatuses:
    """Look at `names`, or at all connectors if `names` is empty. Raises RequestError for a missing connector."""
    if not names:
        known = rest.get("connectors")
        found = rest.get("connectors", expand="status")
        return ConnectorStatuses(
            {name: found[name]["status"] for name in sorted(known) if "status" in found.get(name, {})},
            tuple(sorted(name for name in known if "status" not in found.get(name, {}))),
        )
    statuses, without = {}, []
    for name in dict.fromkeys(names):
        try:
            statuses[name] = rest.get("connectors", name, "status")
        except RequestError as error:
            if error.status != 404:
                raise
            # Right after its creation a connector lacks a status.
            rest.get("connectors", name)
            without.append(name)
    return ConnectorStatuses(statuses, tuple(without))


def wait(rest: ConnectRest, names: Sequence[str], timeout_s: float) -> ConnectorStatuses:
    """Look until everything is RUNNING, or some part FAILED, or the state is lasting. Raises TwinlogError when that
    takes longer."""
    clock = rest.clock
    began = clock.monotonic()
    stays: dict[str, tuple[str, float]] = {}
    noted = ""
    while True:
        seen = look(rest, names)
        now = clock.monotonic()
        waits = [f"{name} has no status yet" for name in seen.without]
        for name, status in seen.statuses.items():
            pending = sorted({state for state in states(status) if state not in _STABLE})
            idle = sorted(set(states(status)) & _IDLE)
            text = f"{name} is {', '.join(pending or idle)}" if pending or idle else f"{name} has no tasks yet"
            if pending:
                waits.append(text)
            elif idle or not status["tasks"]:
                before, since = stays.get(name, ("", now))
                stays[name] = text, since if before == text else now
                if now - stays[name][1] < STAYS_S:
                    waits.append(text)
            else:
                stays.pop(name, None)
        if seen.failed or not waits:
            return seen
        if now - began >= timeout_s:
            raise TwinlogError(f"after {timeout_s:g} s {'; '.join(waits)}")
        if waits[0] != noted:
            noted = waits[0]
            rest.note(f"waiting: {noted}")
        clock.sleep(LOOK_EVERY_S)


def reasons(statuses: Iterable[Row], *, whole: bool) -> list[str]:
    """A line or some for each connector and task that has failed."""
    lines = []
    for status in statuses:
        for part in (status["connector"], *status["tasks"]):
            if part.get("trace"):
                who = f"{status['name']}, task {part['id']}" if "id" in part else status["name"]
                lines.append(f"{who}: {plain(part['trace'] if whole else in_short(part['trace']))}")
    return lines


def in_short(trace: str) -> str:
    """The reason of a failure, reduced by the places in Java's code: the exception, and its first cause."""
    lines = [line.rstrip() for line in trace.strip().splitlines()]
    if not any(line.startswith("\tat ") for line in lines):
        return trace.strip()
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return "\n  ".join([lines[0], *causes[-1:]])
