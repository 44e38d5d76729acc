"""`twinlog replay`: copies a range of a flow's source into topics of their own on the target."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.console import signals
from twinlog.console.command_log import ends_if_wrong, log_warnings
from twinlog.console.flow_files import CONNECTOR_HELP, FILE_HELP, read_flows
from twinlog.console.options import Conf, Master, Secrets, chosen, moment_ms, spark_options
from twinlog.console.spark_batch import TROUBLE, WRONG, SparkSignalHandler, run_in_spark
from twinlog.console.table import table
from twinlog.errors import TwinlogError
from twinlog.ops.replay.model import INTO

if TYPE_CHECKING:
    from twinlog.ops.replay.bounds import ReplayBound
    from twinlog.ops.replay.model import ReplayResult
    from twinlog.ops.replay.planner import ReplayOptions, ReplayPlan
    from twinlog.settings.flow import FlowSettings

_FORMS = "an offset, earliest, latest, ISO 8601 as 2026-11-20T08:00:00Z (UTC by default), or @ and ms since 1970."
_HEAD = ("TOPIC", "PARTITION", "FROM", "TO", "", "TOPIC", "")
_BOUND = "an offset, a time (2026-11-20T08:00:00Z, or @ and ms since 1970), earliest, or latest"


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP, show_default=False)],
    connectors: Annotated[
        list[Path] | None, typer.Argument(metavar="[CONNECTOR]...", help=CONNECTOR_HELP, show_default=False)
    ] = None,
    *,
    topics: Annotated[
        str, typer.Option(metavar="TOPICS", help="Topics of the source, as in `topics`.", show_default=False)
    ],
    start: Annotated[str, typer.Option("--from", metavar="WHERE", help=f"The begin: {_BOUND}.")] = "earliest",
    end: Annotated[
        str, typer.Option("--to", metavar="WHERE", help="The end, that record excluded, in the same forms.")
    ] = "latest",
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", min=0, help="Only this partition; may be given several times.", show_default=False),
    ] = None,
    into: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Topics on the target; {topic} is the source topic's name, {remote} the name of its copy.",
        ),
    ] = INTO,
    flow: Annotated[
        str | None, typer.Option(metavar="A->B", help="The flow, if the file has several.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the volume of the copy.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
    master: Master = None,
    conf: Conf = None,
    secrets: Secrets = None,
) -> None:
    """Copy a range of records of a flow's source into topics of their own on its target, with timestamps and headers.

    Missing topics are created, and keep their records until you delete them. The flow may run meanwhile; its remote
    topics are refused. The same command continues after the last copy of an earlier run, after any end of that run: the
    copies are compared with the source first.

    Ends with code 0 when the whole range is there; 1 when a part of it is missing, or a cluster is silent; 2 when FILE
    or the command line is wrong.

    Example: twinlog replay mm2.properties --topics orders --from 2026-11-20T08:00:00Z --to 2026-11-20T09:00:00Z

    Example: twinlog replay mm2.properties --topics pay --from 1200 --to 1300 --partition 3 --into 'backfill.{topic}'
    """
    spark_master, settings = spark_options(master, conf)
    with ends_if_wrong(WRONG):
        known = read_flows(file, connectors or [], secrets)
    found = chosen(known, flow, fits=lambda one: one.kind in (None, "source"), doing="that copies", idle=True)
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise typer.BadParameter(f"several flows copy, choose from: {names}", param_hint="--flow")

    from twinlog.ops.replay.planner import ReplayOptions  # noqa: PLC0415 - Kafka's library is slow to import for --help
    from twinlog.ops.verify.planner import expressions  # noqa: PLC0415

    options = ReplayOptions(
        expressions(topics),
        _bound(start, "--from"),
        _bound(end, "--to"),
        frozenset(partitions or ()),
        into,
    )
    log_warnings()
    stop = SparkSignalHandler("; the same command continues after the last copy")
    signals.call(stop)
    try:
        plan, rows = _replay(found[0], options, known, spark_master, settings, stop, dry_run=dry_run)
    except TwinlogError as error:
        stop.end_command(error)
    if as_json:
        planned = [
            {"topic": one.source.topic, "partition": one.source.partition, "start": one.start, "end": one.end}
            | {"into": one.into.topic}
            for one in plan.parts
        ]
        typer.echo(json.dumps({"partitions": planned if dry_run else [row.as_json() for row in rows]}, indent=2))
    else:
        typer.echo("\n".join(_plan_lines(plan) if dry_run else _lines(rows)))
    if any(row.problem is not None for row in rows):
        raise typer.Exit(TROUBLE)


def _replay(
    settings: FlowSettings,
    options: ReplayOptions,
    known: Sequence[FlowSettings],
    master: str | None,
    conf: dict[str, str],
    stop: SparkSignalHandler,
    *,
    dry_run: bool,
) -> tuple[ReplayPlan, list[ReplayResult]]:
    from twinlog.ops.replay.planner import ReplayPlanner  # noqa: PLC0415

    with ReplayPlanner(settings, options, [one for one in known if one.copies]) as planner:
        plan = planner.plan()
        if dry_run or not plan.parts:
            return plan, []
        planner.create(plan)
    from twinlog.ops.replay.job import need_of_replay, run_replay  # noqa: PLC0415

    rows = run_in_spark(
        lambda engine, address: run_replay(engine, plan, address),
        master,
        conf,
        stop,
        need=need_of_replay(plan),
        doing=f"copying {len(plan.parts)} partitions",
        offsets=sum(part.offsets for part in plan.parts),
    )
    return plan, sorted(rows, key=lambda one: one.part.source)


def _bound(text: str, option: str) -> ReplayBound:
    from twinlog.ops.replay.bounds import ReplayBound  # noqa: PLC0415

    text = text.strip()
    if text == "earliest":
        return ReplayBound("earliest")
    if text == "latest":
        return ReplayBound("latest")
    if text.isdecimal():
        return ReplayBound("offset", int(text))
    found = moment_ms(text, option, _FORMS)
    assert found is not None
    return ReplayBound("timestamp", found, text)


def _plan_lines(plan: ReplayPlan) -> list[str]:
    if not plan.parts:
        return ["this range is empty"]
    new = {topic.name for topic in plan.create}
    rows: list[tuple[str, ...]] = [_HEAD]
    for part in plan.parts:
        log = plan.there.get(part.into)
        has = 0 if log is None else log.offsets
        note = "is created" if part.into.topic in new else f"has {has} records, which are compared first" if has else ""
        rows.append(
            (
                part.source.topic,
                str(part.source.partition),
                str(part.start),
                str(part.end - 1),
                "->",
                part.into.topic,
                note,
            )
        )
    total = sum(part.offsets for part in plan.parts)
    return [*table(rows, numbers=(1, 2, 3)), f"{total} offsets would be copied; the target is as before"]


def _lines(rows: Sequence[ReplayResult]) -> list[str]:
    if not rows:
        return ["this range is empty"]
    lines = []
    for row in rows:
        part = row.part
        there = f", {row.found} were there already" if row.found else ""
        problem = "" if row.problem is None else f"; then: {row.problem}"
        lines.append(
            f"{part.source} offsets {part.start} to {part.end - 1} -> {part.into}: {row.appended} records copied{there}"
            f"{problem}"
        )
    copied, size = sum(row.appended for row in rows), sum(row.bytes for row in rows)
    return [*lines, f"{copied} records, {size} bytes copied"]
