"""`twinlog translate`: translates a committed offset, or all offsets of a group, to the other cluster of a flow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from twinlog.console.command_log import ends_if_wrong, log_warnings
from twinlog.console.flow_files import CONNECTOR_HELP, FILE_HELP, read_flows
from twinlog.console.options import Secrets, chosen
from twinlog.console.table import table
from twinlog.errors import TwinlogError
from twinlog.model.types import GroupId, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

EXIT_CONFIG = 2
_HEAD = ("TOPIC", "PARTITION", "OFFSET", "", "TOPIC", "PARTITION", "OFFSET", "")


def translate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP, show_default=False)],
    connectors: Annotated[
        list[Path] | None, typer.Argument(metavar="[CONNECTOR]...", help=CONNECTOR_HELP, show_default=False)
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Translate everything that this consumer group has committed.", show_default=False),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Translate an offset of this topic.", show_default=False)] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Partition of --topic.", show_default=False)] = None,
    offset: Annotated[
        int | None, typer.Option(min=0, help="Offset in that partition: the next to be read.", show_default=False)
    ] = None,
    flow: Annotated[
        str | None,
        typer.Option(metavar="A->B", help="The flow, if the file has several.", show_default=False),
    ] = None,
    back: Annotated[
        bool, typer.Option("--back", help="From the flow's target to its source; --topic is the remote topic then.")
    ] = False,
    secrets: Secrets = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Translate committed offsets from a flow's source to its target, or back. Commits and changes nothing.

    A group that continues at a translated offset skips no record. With an exact translation it repeats no record
    either.

    Ends with code 0 when everything was translated; 1 when an offset stays untranslated, or a cluster is silent; 2 when
    FILE or the command line is wrong.

    Example: twinlog translate mm2.properties --flow 'east->west' --group shop

    Example: twinlog translate mm2.properties --topic east.orders --partition 3 --offset 1200 --back
    """
    single = _single(group, topic, partition, offset)
    with ends_if_wrong(EXIT_CONFIG):
        flows = read_flows(file, connectors or (), secrets)
    settings = _copying(flows, flow)
    log_warnings()

    from twinlog.ops.translate.offset_lookup import Lookup  # noqa: PLC0415 - Kafka's library is slow to import for --help

    try:
        with Lookup(settings, back=back) as lookup:
            answers = lookup.group(GroupId(group or "")) if single is None else [lookup.offset(*single)]
    except TwinlogError as error:
        typer.echo(f"twinlog: {error}", err=True)
        raise typer.Exit(1) from None
    rows = [_row(answer) for answer in answers]
    if as_json:
        ways = (settings.target, settings.source) if back else (settings.source, settings.target)
        typer.echo(json.dumps({"flow": settings.name, "from": ways[0], "to": ways[1], "offsets": rows}, indent=2))
    else:
        typer.echo("\n".join(_table(rows)))
    if any(row["to"] is None for row in rows):
        raise typer.Exit(1)


def _copying(flows: Sequence[FlowSettings], name: str | None) -> FlowSettings:
    """Return the flow that copies; with a name also a disabled flow, as it may have copied before."""
    found = chosen(flows, name, fits=lambda flow: flow.kind in (None, "source"), doing="that copies", idle=True)
    if len(found) > 1:
        names = ", ".join(flow.name for flow in found)
        raise typer.BadParameter(f"several flows copy, choose from: {names}", param_hint="--flow")
    return found[0]


def _single(
    group: str | None, topic: str | None, partition: int | None, offset: int | None
) -> tuple[TopicPartition, int] | None:
    """The requested offset; None if a group was requested."""
    if group is not None:
        if (topic, partition, offset) != (None, None, None):
            raise typer.BadParameter("give either --group, or --topic with --partition and --offset")
        return None
    if topic is None or partition is None or offset is None:
        raise typer.BadParameter("give --group, or --topic with --partition and --offset")
    return TopicPartition(TopicName(topic), partition), offset


def _row(answer: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"topic": answer.partition.topic, "partition": answer.partition.partition}
    row |= {"offset": answer.offset, "to": None, "reason": answer.reason or None}
    if answer.found is not None:
        row["to"] = {
            "topic": answer.there.topic,
            "partition": answer.there.partition,
            "offset": answer.found.offset,
            "exact": answer.found.exact,
            "by": answer.found.by,
        }
    return row


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    cells: list[tuple[str, ...]] = [_HEAD]
    for row in rows:
        left = str(row["topic"]), str(row["partition"]), str(row["offset"])
        to = row["to"]
        if to is None:
            cells.append((*left, "->", "-", "-", "-", row["reason"]))
        else:
            note = "exact" if to["exact"] else "not exact"
            cells.append((*left, "->", str(to["topic"]), str(to["partition"]), str(to["offset"]), note))
    lines = table(cells, numbers=(1, 2, 5, 6))
    if any(row["to"] is not None and not row["to"]["exact"] for row in rows):
        lines.append("not exact: no record is skipped from there on, but some are read again")
    return lines
