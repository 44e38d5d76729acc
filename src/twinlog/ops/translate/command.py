"""`twinlog translate`: translates a committed offset, or all offsets of a group, to the other cluster of a flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinlog.console.command_log import ends_if_wrong, log_warnings, print_error
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import FOUND, UNREACHABLE, WRONG, end_with
from twinlog.console.options import (
    AnswerTimeout,
    ClusterLogins,
    ConnectorFiles,
    FileOrWorker,
    OneFlow,
    Output,
    Secrets,
    WorkerUrl,
    chosen,
    single_flow,
)
from twinlog.console.table import table
from twinlog.errors import TwinlogError
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, TopicName, TopicPartition
from twinlog.ops.groups.followers import find_flow_back
from twinlog.ops.running_worker import read_flows_asked
from twinlog.settings.flow import FlowSettings

if TYPE_CHECKING:
    from twinlog.ops.translate.offset_lookup import Lookup

_HEAD = ("TOPIC", "PARTITION", "OFFSET", "", "TOPIC", "PARTITION", "OFFSET", "")


def translate(
    file: FileOrWorker = None,
    connectors: ConnectorFiles = None,
    url: WorkerUrl = None,
    logins: ClusterLogins = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP",
            help="Translate everything that this consumer group has committed; may be repeated.",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC",
            help="Translate an offset of this topic; with --group only offsets in this topic; may be repeated then.",
            show_default=False,
        ),
    ] = None,
    partition: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=0, help="Partition of --topic.", show_default=False)
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=0, help="Offset of the next record to read there.", show_default=False),
    ] = None,
    flow: OneFlow = None,
    back: Annotated[
        bool, typer.Option("--back", help="From the flow's target to its source; --topic is the remote topic then.")
    ] = False,
    output: Output = DataFormat.TABLE,
    timeout: AnswerTimeout = COMMAND_CONNECT_S,
    secrets: Secrets = None,
) -> None:
    """Translate committed offsets from a flow's source to its target, or back. Commits and changes nothing.

    A group that continues at a translated offset skips no record. With an exact translation it repeats no record
    either.

    Exit codes: 0 everything was translated; 1 an offset stays untranslated; 2; 3; 4.

    Example: twinlog translate mm2.properties --flow east:west --group shop

    Example: twinlog translate mm2.properties --topic east.orders --partition 3 --offset 1200 --back

    Example: twinlog translate --url http://connect-1:8083 --flow east:west --group shop
    """
    single = _single(group or (), topic or (), partition, offset)
    with ends_if_wrong(WRONG):
        flows = read_flows_asked(file, connectors or (), secrets, url, logins).flows
    settings = _copying(flows, flow)
    log_warnings()

    from twinlog.ops.translate.offset_lookup import Lookup  # noqa: PLC0415 - Kafka's library is slow to import for --help

    try:
        with Lookup(settings, find_flow_back(settings, flows), back=back, connect_s=timeout) as lookup:
            if single is None:
                rows = [row for name in group or () for row in _of_group(lookup, name, topic or (), len(group or ()))]
            else:
                rows = [_row(lookup.offset(*single))]
            hidden = lookup.hidden
    except TwinlogError as error:
        end_with(error)
    ways = (settings.target, settings.source) if back else (settings.source, settings.target)
    print_result(
        output,
        lambda: {"flow": settings.name, "from": ways[0], "to": ways[1], "offsets": rows},
        lambda: _table(rows),
    )
    if not rows:
        print_error(f"TW-GROUP-09: {', '.join(group or ())}: no committed offset in {', '.join(topic or ())}")
    if hidden is not None and (not topic or not set(topic).isdisjoint(hidden.topics)):
        names, here = listed(hidden.topics), "target" if back else "source"
        print_error(f"TW-RIGHT-02: the {here} hides the offsets of groups in topic {names}: {hidden.right}")
        raise typer.Exit(UNREACHABLE)
    if not rows or any(row["to"] is None for row in rows):
        raise typer.Exit(FOUND)


def _of_group(lookup: Lookup, name: str, topics: Sequence[str], groups: int) -> list[dict[str, Any]]:
    """The offsets of a group, in these topics if there are any; a row has its group if there are several groups."""
    rows = [_row(answer) for answer in lookup.group(GroupId(name))]
    wanted = [row for row in rows if not topics or row["topic"] in topics]
    return wanted if groups < 2 else [{"group": name, **row} for row in wanted]


def _copying(flows: Sequence[FlowSettings], name: str | None) -> FlowSettings:
    """Return the flow that copies; with a name also a disabled flow, as it may have copied before."""
    found = chosen(flows, name, fits=lambda flow: flow.kind in (None, "source"), doing="that copies", idle=True)
    return single_flow(found)


def _single(
    groups: Sequence[str], topics: Sequence[str], partition: int | None, offset: int | None
) -> tuple[TopicPartition, int] | None:
    """The requested offset; None if groups were requested."""
    if groups:
        if (partition, offset) != (None, None):
            raise typer.BadParameter("give either --group, or --topic with --partition and --offset")
        return None
    if len(topics) != 1 or partition is None or offset is None:
        raise typer.BadParameter("give --group, or a single --topic with --partition and --offset")
    return TopicPartition(TopicName(topics[0]), partition), offset


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
    several = any("group" in row for row in rows)
    cells: list[tuple[str, ...]] = [("GROUP", *_HEAD) if several else _HEAD]
    for row in rows:
        group = (str(row["group"]),) if several else ()
        left = str(row["topic"]), str(row["partition"]), str(row["offset"])
        to = row["to"]
        if to is None:
            cells.append((*group, *left, "->", "-", "-", "-", row["reason"]))
        else:
            note = "exact" if to["exact"] else "not exact"
            cells.append((*group, *left, "->", str(to["topic"]), str(to["partition"]), str(to["offset"]), note))
    lines = table(cells, numbers=[column + several for column in (1, 2, 5, 6)])
    if any(row["to"] is not None and not row["to"]["exact"] for row in rows):
        lines.append("not exact: no record is skipped from there on, but some are read again")
    return lines
