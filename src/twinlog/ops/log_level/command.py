"""`twinlog log-level`: asks the process that runs a flow for another level of the flow's log, without a restart."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.console.command_log import ends_if_wrong, log_warnings, print_error, waits_reported
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import FOUND, UNREACHABLE, WRONG, end_with
from twinlog.console.options import (
    CONNECTOR_HELP,
    DryRun,
    FlowFile,
    OneFlow,
    Output,
    Secrets,
    chosen,
    duration_s,
    single_flow,
)
from twinlog.errors import TwinlogError
from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.model.amounts import shown_age, shown_moment
from twinlog.ops.reload.command import who
from twinlog.ops.running_worker import read_flows_asked
from twinlog.process.flow_levels import MOST_S, FlowLogLevel

if TYPE_CHECKING:
    from twinlog.ops.status.flow import FlowSnapshot
    from twinlog.ops.topics.reader import TopicsReader
    from twinlog.worker.control.model import LevelRequest
    from twinlog.worker.status.report import DriverReport


def log_level(
    file: FlowFile,
    level: Annotated[
        FlowLogLevel,
        typer.Argument(
            metavar="LEVEL",
            case_sensitive=False,
            help="debug, info, warning or error; default ends the level of the flow.",
            show_default=False,
        ),
    ],
    flow: OneFlow = None,
    for_: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="End the level after this time, for example 90s or 2h.")
    ] = "15m",
    connectors: Annotated[
        list[Path] | None, typer.Option("--connector", metavar="PATH", help=CONNECTOR_HELP, show_default=False)
    ] = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Wait for the process of the flow for this time."),
    ] = 60.0,
    dry_run: DryRun = False,
    secrets: Secrets = None,
    output: Output = DataFormat.TABLE,
) -> None:
    """Change the level of a flow's log while the flow runs, in its driver and its tasks.

    The log of all other flows stays as it is. The lines of tasks come in the log of the process that runs the flow. The
    level ends by itself after --for, and with the process; until then `twinlog status` shows it. You may run the
    command on any host that reaches the target.

    Exit codes: 0 the process has taken the level over; 1 no process runs the flow; 2; 3 the target is out of reach, a
    right is missing, or the process is silent for --timeout; 4.

    Example: twinlog log-level mm2.properties debug --flow east:west --for 5m

    Example: twinlog log-level mm2.properties default --flow east:west --dry-run
    """
    for_s = duration_s(for_)
    if for_s is None or not 0 < for_s <= MOST_S:
        raise typer.BadParameter(
            f"{for_!r}; write a time as 90s, 15m or 2h, {shown_age(MOST_S)} at most", param_hint="--for"
        )
    with ends_if_wrong(WRONG):
        known = read_flows_asked(file, connectors or (), secrets, None)
    log_warnings()
    settings = single_flow(chosen(known.flows, flow, fits=lambda one: one.copies, doing="that copies"))

    from twinlog.ops.topics.reader import TopicsReader  # noqa: PLC0415 - Kafka's library is slow to import for --help
    from twinlog.worker.control.model import LevelRequest  # noqa: PLC0415

    request = LevelRequest(uuid.uuid4().hex[:12], level, for_s, by=who())
    connect_s = min(timeout, LOOK_CONNECT_S)
    try:
        with TopicsReader(settings, known.worker, connect_s=connect_s) as reader, waits_reported([reader]):
            runs = _running(reader)
            report = None if dry_run else _ask(reader, request, timeout)
    except TwinlogError as error:
        end_with(error)
    if report is None:
        process = None if runs.report is None else runs.report.process
        data = {"flow": settings.name, "process": process, "level": level.value, "dry_run": True}
        print_result(output, lambda: data, lambda: [f"{settings.name}: the log {_would(level, for_)}"])
        return
    print_result(output, lambda: _data(settings.name, level, report), lambda: [_line(settings.name, level, report)])


def _running(reader: TopicsReader) -> FlowSnapshot:
    """The state of a flow that a process runs. Raises Exit, ClusterError."""
    # A silent target is an error here, and a part of the state below.
    reader.read_asked()
    state = reader.read_state()
    if not state.runs:
        print_error(
            f"TW-COMMAND-15: no process runs {reader.settings.name} now: {state.state.word}; a level of the log ends "
            "with its process, so nothing was changed"
        )
        raise typer.Exit(FOUND)
    return state


def _would(level: FlowLogLevel, for_: str) -> str:
    usual = level is FlowLogLevel.DEFAULT
    return "would have its usual level again" if usual else f"would have level {level} for {for_}"


def _ask(reader: TopicsReader, request: LevelRequest, timeout_s: float) -> DriverReport:
    """Write the request, and return the report of the process that has taken it over. Raises Exit, ClusterError."""
    report = reader.wait_level(reader.submit_level(request), timeout_s)
    if report is None:
        print_error(
            f"TW-COMMAND-15: the process that runs the flow has not taken the level over within {timeout_s:.0f} s: "
            f"its version lacks levels by flow, or it lacks READ on topic {reader.control_topic}"
        )
        raise typer.Exit(UNREACHABLE)
    return report


def _line(flow: str, level: FlowLogLevel, report: DriverReport) -> str:
    taken = report.other_log_level
    if taken is None:
        return f"{flow}: the log of {report.process} has its usual level again"
    return f"{flow}: the log of {report.process} and its tasks has level {level} until {shown_moment(taken.until_ms)}"


def _data(flow: str, level: FlowLogLevel, report: DriverReport) -> dict[str, object]:
    taken = report.other_log_level
    return {
        "flow": flow,
        "process": report.process,
        "level": level.value,
        "until_ms": None if taken is None else taken.until_ms,
    }
