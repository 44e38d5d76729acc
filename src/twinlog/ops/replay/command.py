"""`twinlog replay`: copies a range of a flow's source into topics of their own on the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.console import signals
from twinlog.console.command_log import ends_if_wrong, log_warnings
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import FOUND, WRONG
from twinlog.console.flow_files import read_flows
from twinlog.console.options import (
    MOMENT_HELP,
    AnswerTimeout,
    Conf,
    ConnectorFiles,
    DryRun,
    FlowFile,
    Master,
    OneFlow,
    Output,
    Partitions,
    Secrets,
    Topics,
    chosen,
    moment_ms,
    single_flow,
    spark_options,
    topic_expressions,
)
from twinlog.console.spark_batch import SparkSignalHandler, run_in_spark
from twinlog.console.table import table
from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import with_id
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.model.amounts import counted
from twinlog.ops.replay.model import INTO

if TYPE_CHECKING:
    from twinlog.ops.replay.bounds import ReplayBound
    from twinlog.ops.replay.model import ReplayResult
    from twinlog.ops.replay.planner import ReplayOptions, ReplayPlan
    from twinlog.settings.flow import FlowSettings

_FORMS = "an offset, earliest, latest, ISO 8601 as 2026-11-20T08:00:00Z (UTC by default), or @ and ms since 1970."
_HEAD = ("TOPIC", "PARTITION", "FROM", "TO", "", "TOPIC", "")


def replay(
    file: FlowFile,
    connectors: ConnectorFiles = None,
    *,
    topic: Topics = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help=f"Begin at the first record of this time or later: {MOMENT_HELP} Default: the earliest record.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="End before the first record of this time or later. Default: the present end.",
            show_default=False,
        ),
    ] = None,
    from_offset: Annotated[
        int | None, typer.Option(metavar="OFFSET", min=0, help="Begin at this offset.", show_default=False)
    ] = None,
    to_offset: Annotated[
        int | None,
        typer.Option(metavar="OFFSET", min=0, help="End before this offset.", show_default=False),
    ] = None,
    start: Annotated[str | None, typer.Option("--from", hidden=True)] = None,
    end: Annotated[str | None, typer.Option("--to", hidden=True)] = None,
    partition: Partitions = None,
    into: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Name the new topics: {topic} is the name of the source topic, {remote} the name of its copy.",
        ),
    ] = INTO,
    flow: OneFlow = None,
    dry_run: DryRun = False,
    output: Output = DataFormat.TABLE,
    timeout: AnswerTimeout = COMMAND_CONNECT_S,
    master: Master = None,
    conf: Conf = None,
    secrets: Secrets = None,
) -> None:
    """Copy a range of records once more, into separate topics on the target.

    The command creates missing topics, which keep all records until you delete them. The flow may run meanwhile. After
    an abort run the same command again: it continues after the last copy.

    Exit codes: 0 the whole range is on the target; 1 a part of it is missing; 2; 3; 4.

    Example: twinlog replay mm2.properties --topic orders --since 2026-11-20T08:00:00Z --until 2026-11-20T09:00:00Z

    Example: twinlog replay mm2.properties --topic pay --partition 3 --from-offset 1200 --to-offset 1300 --dry-run
    """
    if not topic:
        raise typer.BadParameter("missing: name the topics to copy, as in --topic orders", param_hint="--topic")
    begin = _begin(since, from_offset, start)
    finish = _finish(until, to_offset, end)
    spark_master, settings = spark_options(master, conf)
    with ends_if_wrong(WRONG):
        known = read_flows(file, connectors or [], secrets)
    found = chosen(known, flow, fits=lambda one: one.kind in (None, "source"), doing="that copies", idle=True)
    settings_of_flow = single_flow(found)

    from twinlog.ops.replay.planner import ReplayOptions  # noqa: PLC0415 - Kafka's library is slow to import for --help

    options = ReplayOptions(topic_expressions(topic), begin, finish, frozenset(partition or ()), into)
    log_warnings()
    stop = SparkSignalHandler("; the same command continues after the last copy")
    signals.call(stop)
    try:
        plan, rows = _replay(
            settings_of_flow, options, known, spark_master, settings, stop, dry_run=dry_run, connect_s=timeout
        )
    except TwinlogError as error:
        stop.end_command(error)
    print_result(
        output,
        lambda: {"partitions": _planned_json(plan) if dry_run else [row.as_json() for row in rows]},
        lambda: _plan_lines(plan) if dry_run else _lines(rows),
    )
    if any(row.problem is not None for row in rows):
        raise typer.Exit(FOUND)


def _planned_json(plan: ReplayPlan) -> list[dict[str, object]]:
    return [
        {"topic": one.source.topic, "partition": one.source.partition, "start": one.start, "end": one.end}
        | {"into": one.into.topic}
        for one in plan.parts
    ]


def _replay(
    settings: FlowSettings,
    options: ReplayOptions,
    known: Sequence[FlowSettings],
    master: str | None,
    conf: dict[str, str],
    stop: SparkSignalHandler,
    *,
    dry_run: bool,
    connect_s: float,
) -> tuple[ReplayPlan, list[ReplayResult]]:
    from twinlog.ops.replay.planner import ReplayPlanner  # noqa: PLC0415

    others = [one for one in known if one.copies]
    with ReplayPlanner(settings, options, others, connect_s=connect_s) as planner:
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
        doing=f"copying {counted(len(plan.parts), 'partition')}",
        offsets=sum(part.offsets for part in plan.parts),
    )
    return plan, sorted(rows, key=lambda one: one.part.source)


def _begin(since: str | None, from_offset: int | None, start: str | None) -> ReplayBound:
    """The first record to copy, by the one option that names it."""
    if sum(given is not None for given in (since, from_offset, start)) > 1:
        raise typer.BadParameter("give either --since or --from-offset", param_hint="--since")
    return _place(since, "--since", from_offset) or _bound(start or "earliest", "--from")


def _finish(until: str | None, to_offset: int | None, end: str | None) -> ReplayBound:
    """The record to end before, by the one option that names it."""
    if sum(given is not None for given in (until, to_offset, end)) > 1:
        raise typer.BadParameter("give either --until or --to-offset", param_hint="--until")
    return _place(until, "--until", to_offset) or _bound(end or "latest", "--to")


def _place(time: str | None, option: str, offset: int | None) -> ReplayBound | None:
    from twinlog.ops.replay.bounds import ReplayBound  # noqa: PLC0415

    if offset is not None:
        return ReplayBound("offset", offset)
    found = moment_ms(time, option)
    return None if found is None or time is None else ReplayBound("timestamp", found, time)


def _bound(text: str, option: str) -> ReplayBound:
    """A place as `--from` and `--to` took it: an offset, a time, earliest or latest."""
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
        present = f"has {counted(has, 'record')}, compared first" if has else ""
        note = "is created" if part.into.topic in new else present
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
    return [*table(rows, numbers=(1, 2, 3)), f"{counted(total, 'offset')} would be copied; the target is as before"]


def _lines(rows: Sequence[ReplayResult]) -> list[str]:
    if not rows:
        return ["this range is empty"]
    lines = []
    for row in rows:
        part = row.part
        there = f", {row.found} were there already" if row.found else ""
        problem = "" if row.problem is None else f"; then: {row.problem}"
        line = (
            f"{part.source} offsets {part.start} to {part.end - 1} -> {part.into}: "
            f"{counted(row.appended, 'record')} copied{there}{problem}"
        )
        lines.append(line if row.problem is None else with_id(line, "TW-USE-06"))
    copied, size = sum(row.appended for row in rows), sum(row.bytes for row in rows)
    return [*lines, f"{counted(copied, 'record')}, {counted(size, 'byte')} copied"]
