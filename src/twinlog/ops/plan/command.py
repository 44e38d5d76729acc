"""`twinlog plan`: the changes of a run, and its problems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from twinlog.config.queries import check_queries
from twinlog.console.command_log import ends_if_wrong, log_checks, print_problems, print_warnings
from twinlog.console.flow_files import CONNECTOR_HELP, FILE_HELP, read_flows
from twinlog.console.options import Secrets, between, chosen
from twinlog.console.table import rate_of
from twinlog.errors import ConfigError, TwinlogError

UNREACHABLE, WRONG, WOULD_FAIL = 1, 2, 3
"""Exit codes: a cluster is silent or refuses the login; the file is wrong; a run would fail."""

RATE = "50MB/s"


def plan(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=FILE_HELP, show_default=False),
    ],
    connectors: Annotated[
        list[Path] | None, typer.Argument(metavar="[CONNECTOR]...", help=CONNECTOR_HELP, show_default=False)
    ] = None,
    flow: Annotated[
        str | None, typer.Option(metavar="A->B", help="Only this flow; by default all.", show_default=False)
    ] = None,
    rate: Annotated[
        str, typer.Option(metavar="RATE", help="How fast records are copied, for the estimate of time.")
    ] = RATE,
    everything: Annotated[bool, typer.Option("--all", help="Print every line of long lists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
    secrets: Secrets = None,
) -> None:
    """Read both clusters of each flow, and print the topics that a run would create, change and copy, and those that it
    would leave out.

    Leaves both clusters as they are. The target is asked whether it would take the new topics.

    Ends with code 0 when a run would succeed, also with an empty plan; 1 when a cluster is silent or refuses the login;
    2 when FILE is wrong; 3 when a run would fail at something, for example a missing permission.

    Example: twinlog plan mm2.properties --flow 'east->west' --rate 200MB/s

    Example: twinlog plan mm2.properties --json
    """
    speed = rate_of(rate)
    with ends_if_wrong(WRONG):
        known = read_flows(file, connectors or [], secrets)
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
                FlowPlanner(settings, copying, copied_by=copied_by, progress=progress) as planner,
            ):
                plans.append(planner.plan(speed))
    except ConfigError as error:
        print_problems(error)
        raise typer.Exit(WRONG) from None
    except TwinlogError as error:
        typer.echo(f"twinlog: {error}", err=True)
        raise typer.Exit(UNREACHABLE) from None
    if as_json:
        typer.echo(json.dumps({"flows": [one.as_json() for one in plans]}, indent=2))
    else:
        for one in plans:
            typer.echo("\n".join(plan_lines(one, everything=everything)))
    if any(one.problems for one in plans):
        raise typer.Exit(WOULD_FAIL)
