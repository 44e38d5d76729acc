"""`twinlog plan`: the changes of a run, and its problems."""

from __future__ import annotations

from typing import Annotated

import typer

from twinlog.config.queries import check_queries
from twinlog.console.command_log import ends_if_wrong, log_checks, print_warnings, waits_reported
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import FOUND, WRONG, end_with
from twinlog.console.options import (
    AnswerTimeout,
    AnyFlow,
    ClusterLogins,
    ConnectorFiles,
    Everything,
    FileOrWorker,
    Output,
    Secrets,
    WorkerUrl,
    between,
    chosen,
)
from twinlog.console.table import rate_of
from twinlog.errors import TwinlogError
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.ops.running_worker import read_flows_asked

RATE = "50MB/s"


def plan(
    file: FileOrWorker = None,
    connectors: ConnectorFiles = None,
    url: WorkerUrl = None,
    logins: ClusterLogins = None,
    flow: AnyFlow = None,
    rate: Annotated[str, typer.Option(metavar="RATE", help="Estimate the time by this rate of your network.")] = RATE,
    everything: Everything = False,
    output: Output = DataFormat.TABLE,
    timeout: AnswerTimeout = COMMAND_CONNECT_S,
    secrets: Secrets = None,
) -> None:
    """Print the topics, settings, ACLs and groups that a run would change: the dry run of `twinlog run`.

    The clusters check each request and change nothing. The plan therefore also shows missing permissions.

    Exit codes: 0 a run would succeed, also with an empty plan; 1 a run would fail, for example at a missing
    permission; 2; 3; 4.

    Example: twinlog plan mm2.properties --flow east:west --rate 200MB/s

    Example: twinlog plan mm2.properties -o json

    Example: twinlog plan --url http://connect-1:8083
    """
    speed = rate_of(rate)
    with ends_if_wrong(WRONG):
        known = read_flows_asked(file, connectors or [], secrets, url, logins).flows
        if file is not None and url is None:
            # A worker has checked the queries of its connectors.
            print_warnings(check_queries(known, file, connectors or []))
    flows = chosen(known, flow, idle=True)
    log_checks()

    from twinlog.console.progress import ReadingProgress  # noqa: PLC0415
    from twinlog.ops.plan.flow_plan import plan_lines  # noqa: PLC0415 - Kafka's library is slow to import for --help
    from twinlog.ops.plan.planner import FlowPlanner  # noqa: PLC0415

    plans, copying = [], [one for one in known if one.copies]
    try:
        for settings in flows:
            copied_by = [] if settings.copies else between(copying, settings.source, settings.target)
            with (
                ReadingProgress() as progress,
                FlowPlanner(settings, copying, copied_by=copied_by, progress=progress, connect_s=timeout) as planner,
                waits_reported([planner]),
            ):
                plans.append(planner.plan(speed))
    except TwinlogError as error:
        end_with(error)
    print_result(
        output,
        lambda: {"flows": [one.as_json() for one in plans]},
        lambda: (line for one in plans for line in plan_lines(one, everything=everything)),
    )
    if any(one.problems for one in plans):
        raise typer.Exit(FOUND)
