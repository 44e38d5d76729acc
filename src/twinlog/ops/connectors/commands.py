"""The commands of `twinlog connectors` that show connectors and the states of their tasks, and change these states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from twinlog.console.command_class import CommandApp
from twinlog.console.command_log import print_error
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import FOUND
from twinlog.console.options import DryRun, Output, Yes
from twinlog.console.table import table
from twinlog.errors import RequestError, TwinlogError
from twinlog.ops.connectors.create import create
from twinlog.ops.connectors.offsets import offsets
from twinlog.ops.connectors.options import Names, asks_worker, confirm, each
from twinlog.ops.connectors.rest import LOGIN_HELP, ConnectRest, plain

FAILED, RUNNING = "FAILED", "RUNNING"
_IDLE = {"PAUSED", "STOPPED"}
_STABLE = {RUNNING, FAILED} | _IDLE
STAYS_S = 5.0
"""How long a connector must be paused, stopped or empty of tasks before this counts as its lasting state: a command
takes effect a moment later."""
LOOK_EVERY_S = 0.5

Row = Mapping[str, Any]

_NO_STATUS = "(no status yet)"


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


def wait_for_states(rest: ConnectRest, names: Sequence[str], timeout_s: float) -> ConnectorStatuses:
    """Look until everything is RUNNING, or some part FAILED, or the state is lasting. Raises TwinlogError when that
    takes longer."""
    clock = rest.clock
    began = clock.monotonic()
    stays: dict[str, tuple[str, float]] = {}
    noted = ""
    while True:
        seen = look(rest, names)
        now = clock.monotonic()
        waits = [f"the status of {name} is still missing" for name in seen.without]
        for name, status in seen.statuses.items():
            pending = sorted({state for state in states(status) if state not in _STABLE})
            idle = sorted(set(states(status)) & _IDLE)
            text = (
                f"{name} is {', '.join(pending or idle)}"
                if pending or idle
                else f"the tasks of {name} are still missing"
            )
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


app = CommandApp(no_args_is_help=True)
"""`twinlog connectors`."""


@app.callback(epilog=LOGIN_HELP)
def connectors() -> None:
    """List, create and steer the connectors of a Connect worker over its REST API: of `twinlog connect`, or Kafka's.

    Exit codes: 0 the request was fulfilled; 1 the worker refused it, or something has failed; 2 an option, a variable
    or FILE is wrong, or the worker finds a configuration wrong: nothing was changed; 3 the worker is out of reach, or
    refuses the login; 4.

    Example: TWINLOG_CONNECT_URL=https://connect:8083 twinlog connectors list
    """


@app.command("list", epilog=LOGIN_HELP)
@asks_worker
def list_(rest: ConnectRest, output: Output = DataFormat.TABLE) -> None:
    """List the connectors with their states.

    Example: twinlog connectors list --url http://connect:8083
    """
    known = rest.get("connectors", expand="info")
    found = rest.get("connectors", expand="status")
    rows = [_row(name, known[name]["info"], found.get(name, {}).get("status")) for name in sorted(known)]
    print_result(output, lambda: rows, lambda: _list_lines(rows))


def _list_lines(rows: Sequence[Row]) -> list[str]:
    lines = [("NAME", "CLASS", "STATE", "TASKS", "WORKER")]
    for row in rows:
        counts: Counter[str] = Counter(row["tasks"])
        tasks = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"
        lines.append(
            (row["name"], row["class"].rpartition(".")[2], row["state"] or _NO_STATUS, tasks, row["worker_id"] or "-")
        )
    return table(lines) if rows else ["there are no connectors"]


def _row(name: str, info: dict[str, Any], status: dict[str, Any] | None) -> dict[str, Any]:
    """A connector as a row; `tasks` are the states of its tasks."""
    connector = {} if status is None else status["connector"]
    return {
        "name": name,
        "class": info["config"].get("connector.class") or "",
        "state": connector.get("state"),
        "worker_id": connector.get("worker_id"),
        "tasks": [] if status is None else [task["state"] for task in status["tasks"]],
    }


@app.command(epilog=LOGIN_HELP)
@asks_worker
def status(
    rest: ConnectRest,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Connectors; all by default.", show_default=False)
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until everything is RUNNING, or something has FAILED.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long --wait waits, in seconds.")
    ] = 120.0,
    trace: Annotated[bool, typer.Option("--trace", help="Print why something failed with Java's stack.")] = False,
    output: Output = DataFormat.TABLE,
) -> None:
    """Print connectors and tasks with their states and workers, and why any failed.

    Exit codes: 0; 1 a connector or a task has failed, with --wait also when anything differs from RUNNING at the end;
    2; 3; 4.

    Example: twinlog connectors status 'east->west.Source' --wait
    """
    seen = wait_for_states(rest, names or [], timeout) if wait else look(rest, names or [])
    statuses = list(seen.statuses.values())
    print_result(output, lambda: statuses, lambda: _status_lines(seen, whole=trace))
    idle = [one["name"] for one in statuses if set(states(one)) & {"PAUSED", "STOPPED"}]
    if wait and idle and not seen.failed:
        print_error(f"TW-WORKER-23: not running: {', '.join(idle)}; `twinlog connectors resume` starts them")
    if seen.failed or (wait and idle):
        raise typer.Exit(FOUND)


def _status_lines(seen: ConnectorStatuses, *, whole: bool) -> list[str]:
    statuses = list(seen.statuses.values())
    if not statuses and not seen.without:
        return ["there are no connectors"]
    rows = [("NAME", "TASK", "STATE", "WORKER"), *((name, "-", _NO_STATUS, "-") for name in seen.without)]
    for one in statuses:
        parts = [("-", one["connector"]), *((str(task["id"]), task) for task in one["tasks"])]
        rows += [(one["name"], task, part["state"], part["worker_id"]) for task, part in parts]
    return [*table(rows), *reasons(statuses, whole=whole)]


@app.command(epilog=LOGIN_HELP)
@asks_worker
def pause(rest: ConnectRest, names: Names, dry_run: DryRun = False) -> None:
    """Pause connectors: they keep their tasks with their memory, and stop copying.

    Example: twinlog connectors pause 'east->west.Source'
    """
    _have(rest, names, "pause", "PAUSED", dry_run)


@app.command(epilog=LOGIN_HELP)
@asks_worker
def resume(rest: ConnectRest, names: Names, dry_run: DryRun = False) -> None:
    """Resume paused or stopped connectors.

    Example: twinlog connectors resume 'east->west.Source' && twinlog connectors status 'east->west.Source' --wait
    """
    _have(rest, names, "resume", RUNNING, dry_run)


@app.command(epilog=LOGIN_HELP)
@asks_worker
def stop(rest: ConnectRest, names: Names, dry_run: DryRun = False) -> None:
    """Have connectors stop: their tasks end, and their offsets may be altered.

    Example: twinlog connectors stop 'east->west.Source'
    """
    _have(rest, names, "stop", "STOPPED", dry_run)


def _have(rest: ConnectRest, names: list[str], verb: str, state: str, dry_run: bool) -> None:
    def step(name: str) -> None:
        if dry_run:
            typer.echo(f"{name}: would be {state}, and is {_state_now(rest, name)}")
            return
        rest.send_request("PUT", "connectors", name, verb)
        typer.echo(f"{name}: will be {state}")

    each(names, step)


def _state_now(rest: ConnectRest, name: str) -> str:
    """The state of a connector. Raises RequestError for a missing connector."""
    status = look(rest, [name]).statuses.get(name)
    return _NO_STATUS if status is None else str(status["connector"]["state"])


@app.command(epilog=LOGIN_HELP)
@asks_worker
def restart(
    rest: ConnectRest,
    names: Names,
    tasks: Annotated[bool, typer.Option("--tasks", help="Restart its tasks too.")] = False,
    failed_only: Annotated[
        bool, typer.Option("--failed-only", help="Restart only failed connectors and tasks.")
    ] = False,
    task: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=0, help="Restart this task alone.", show_default=False)
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Restart connectors; their tasks keep running unless --tasks is given.

    Example: twinlog connectors restart 'east->west.Source' --tasks --failed-only
    """
    if task is not None and (tasks or failed_only or len(names) != 1):
        raise typer.BadParameter(
            "goes with a single connector, and excludes --tasks and --failed-only", param_hint="--task"
        )

    def step(name: str) -> None:
        if dry_run:
            typer.echo(f"{name}: {_would_restart(rest, name, task, tasks=tasks, failed_only=failed_only)}")
            return
        if task is not None:
            rest.send_request("POST", "connectors", name, "tasks", str(task), "restart")
            typer.echo(f"{name}: task {task} restarts")
            return
        query = {"includeTasks": str(tasks).lower(), "onlyFailed": str(failed_only).lower()}
        typer.echo(f"{name}: {_restarted(rest.send_request('POST', 'connectors', name, 'restart', query=query)[1])}")

    each(names, step)


def _would_restart(rest: ConnectRest, name: str, task: int | None, *, tasks: bool, failed_only: bool) -> str:
    """The parts of a connector that a restart would restart, by their states now. Raises TwinlogError."""
    status = look(rest, [name]).statuses.get(name)
    if status is None:
        return _NO_STATUS
    if task is not None:
        if all(one["id"] != task for one in status["tasks"]):
            known = ", ".join(str(one["id"]) for one in status["tasks"]) or "none"
            raise TwinlogError(f"task {task} is unknown; known tasks: {known}")
        return f"task {task} would restart"
    chosen = [("the connector", status["connector"])]
    chosen += [(f"task {one['id']}", one) for one in status["tasks"] if tasks]
    parts = [part for part, one in chosen if not failed_only or one["state"] == FAILED]
    return f"{', '.join(parts)} would restart" if parts else "nothing to restart"


def _restarted(answer: dict[str, Any] | None) -> str:
    """The restarting parts; the answer names them only if a part may be left out (KIP-745)."""
    if answer is None:
        return "the connector restarts"
    parts = ["the connector"] if answer["connector"]["state"] == "RESTARTING" else []
    parts += [f"task {task['id']}" for task in answer["tasks"] if task["state"] == "RESTARTING"]
    if not parts:
        return "nothing to restart"
    return f"{', '.join(parts)} restart{'s' if len(parts) == 1 else ''}"


@app.command(epilog=LOGIN_HELP)
@asks_worker
def delete(rest: ConnectRest, names: Names, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete connectors. Their stored offsets stay: a new connector with the same name continues at these offsets.

    Example: twinlog connectors delete 'east->west.Source' --yes
    """
    for name in names:
        rest.get("connectors", name)
    if dry_run:
        typer.echo("\n".join(f"{name}: would be deleted" for name in dict.fromkeys(names)))
        return
    confirm(f"Delete {', '.join(names)}?", yes, "nothing was deleted")

    def step(name: str) -> None:
        rest.send_request("DELETE", "connectors", name)
        typer.echo(f"{name}: deleted")

    each(names, step)


app.command(epilog=LOGIN_HELP)(create)
app.add_typer(offsets, name="offsets")
