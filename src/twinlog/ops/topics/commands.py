"""The commands of `twinlog topics`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from twinlog.console.command_log import ends_if_wrong, log_warnings, waits_reported
from twinlog.console.flow_files import CONNECTOR_HELP, FILE_HELP, FlowsOfFile, read_flow_file
from twinlog.console.options import MOMENT_HELP, Secrets, chosen, moment_ms
from twinlog.errors import TwinlogError
from twinlog.ops.topics.asking import EXIT_CONFIG, EXIT_TROUBLE, TopicCommandOptions, ask
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control.model import LogPlace, LogPlaceKind, TopicVerb

File = Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP, show_default=False)]
Topics = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC...",
        help="Source topics: Java regular expressions of whole names, or a partition (orders-3).",
        show_default=False,
    ),
]
Flow = Annotated[
    str | None, typer.Option(metavar="A->B", help="The flow; required if FILE has several flows.", show_default=False)
]
Connector = Annotated[
    list[Path] | None, typer.Option("--connector", metavar="PATH", help=CONNECTOR_HELP, show_default=False)
]
Partition = Annotated[
    list[int] | None,
    typer.Option("--partition", metavar="N", min=0, help="Only partition N of each topic; may be given several times."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Ask no question.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the result for each partition; change nothing.")]
Id = Annotated[
    str | None,
    typer.Option("--id", metavar="ID", help="The command's name: a second command with the same name changes nothing."),
]
Timeout = Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Seconds to wait until the command is done.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]
Earliest = Annotated[bool, typer.Option("--earliest", help="The place: the first record that the source has.")]
Latest = Annotated[bool, typer.Option("--latest", help="The place: the end of the source's log.")]
Offset = Annotated[int | None, typer.Option(metavar="N", min=0, help="The place: source offset N.", show_default=False)]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="MOMENT", help=f"The place: the first record of MOMENT or later; {MOMENT_HELP}", show_default=False
    ),
]


class _OrList(typer.core.TyperGroup):
    """`twinlog topics FILE` lists."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # A word beside FILE is a command, be it misspelled.
        misspelled = len(args) > 1 and args[0].replace("-", "").isalpha() and not Path(args[0]).exists()
        if args and args[0] not in self.commands and not args[0].startswith("-") and not misspelled:
            args = ["list", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_OrList, no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def topics() -> None:
    """List the topics of a flow; pause topics, copy records again or leave records out while the flow runs.

    A command is written to a topic on the target, and the process that runs the flow carries the command out, on
    whatever host. If no process runs the flow, the next process does. `twinlog topics FILE` is `twinlog topics list
    FILE`.

    Ends with code 0 when the command is done, or written while no process runs the flow; 1 when a cluster does not
    answer, or a right is missing; 2 when FILE or an option is wrong, and no command was written; 3 when no partition
    changed, or a partition could not be changed; 4 when the command was written, and is not done after --timeout.

    Example: twinlog topics mm2.properties

    Example: twinlog topics pause mm2.properties 'logs[.].*'
    """


@app.command("list")
def list_(
    file: File,
    connectors: Annotated[
        list[Path] | None, typer.Argument(metavar="[CONNECTOR]...", help=CONNECTOR_HELP, show_default=False)
    ] = None,
    flow: Annotated[
        str | None,
        typer.Option(metavar="A->B", help="Only this flow; all flows of FILE by default.", show_default=False),
    ] = None,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Print a line with offsets for each partition.")
    ] = False,
    secrets: Secrets = None,
    as_json: AsJson = False,
) -> None:
    """List each topic with its state: copying, paused, held, asked, waiting or left out. Changes nothing.

    LAG is the number of source offsets between the stored position and the end of the source. The states held, asked,
    waiting and left out have the reason beside them.

    Example: twinlog topics list mm2.properties --flow 'east->west' --partitions
    """
    known = _read(file, connectors or (), secrets)

    from twinlog.ops.topics.reader import TopicsReader  # noqa: PLC0415
    from twinlog.ops.topics.text import lines, topics_json  # noqa: PLC0415 - Kafka's library is slow to import for --help

    wanted = _copying(known.flows, flow)
    try:
        with ExitStack() as stack:
            readers = [stack.enter_context(TopicsReader(one, known.worker)) for one in wanted]
            with waits_reported(readers):
                seen = [reader.read() for reader in readers]
    except TwinlogError as error:
        typer.echo(f"twinlog: {error}", err=True)
        raise typer.Exit(EXIT_TROUBLE) from None
    if as_json:
        typer.echo(json.dumps({"flows": [topics_json(one) for one in seen]}, indent=2))
    else:
        typer.echo("\n\n".join("\n".join(lines(one, partitions=partitions)) for one in seen))
    if any(one.trouble for one in seen):
        raise typer.Exit(EXIT_TROUBLE)


@app.command()
def pause(
    file: File,
    words: Topics,
    flow: Flow = None,
    partition: Partition = None,
    connector: Connector = None,
    dry_run: DryRun = False,
    id_: Id = None,
    timeout: Timeout = 60.0,
    secrets: Secrets = None,
    as_json: AsJson = False,
) -> None:
    """Stop copying topics until `resume`, also topics of the pattern that are created later.

    No record is left out or copied twice: the records wait on the source. Ends once no record of the topics is on its
    way to the target.

    Example: twinlog topics pause mm2.properties 'logs[.].*'

    Example: twinlog topics pause mm2.properties orders --partition 3 --partition 4
    """
    asking = TopicCommandOptions(TopicVerb.PAUSE, words, partition or (), None, id_, True, dry_run, timeout, as_json)
    ask(_one(file, connector, secrets, flow), asking)


@app.command()
def resume(
    file: File,
    words: Topics,
    flow: Flow = None,
    partition: Partition = None,
    connector: Connector = None,
    dry_run: DryRun = False,
    id_: Id = None,
    timeout: Timeout = 60.0,
    secrets: Secrets = None,
    as_json: AsJson = False,
) -> None:
    """Copy paused topics from their stored positions on. The last `pause` or `resume` that matches a partition counts.

    No record is left out or copied twice.

    Example: twinlog topics resume mm2.properties 'logs[.].*'
    """
    asking = TopicCommandOptions(TopicVerb.RESUME, words, partition or (), None, id_, True, dry_run, timeout, as_json)
    ask(_one(file, connector, secrets, flow), asking)


@app.command("restart-from")
def restart_from(
    file: File,
    words: Topics,
    earliest: Earliest = False,
    latest: Latest = False,
    offset: Offset = None,
    time: Time = None,
    flow: Flow = None,
    partition: Partition = None,
    connector: Connector = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    id_: Id = None,
    timeout: Timeout = 60.0,
    secrets: Secrets = None,
    as_json: AsJson = False,
) -> None:
    """Copy topics again from a place on. The target has the records twice then: twinlog deletes no record.

    Prints the number of source offsets that are copied again, and asks before anything changes. A partition that has
    not been copied up to the place stays unchanged.

    Example: twinlog topics restart-from mm2.properties orders-3 --earliest --dry-run

    Example: twinlog topics restart-from mm2.properties orders --time 2026-11-01T00:00:00Z --yes
    """
    place = _place(earliest, latest, offset, time)
    asking = TopicCommandOptions(
        TopicVerb.RESTART_FROM, words, partition or (), place, id_, yes, dry_run, timeout, as_json
    )
    ask(_one(file, connector, secrets, flow), asking)


@app.command("skip-to")
def skip_to(
    file: File,
    words: Topics,
    earliest: Earliest = False,
    latest: Latest = False,
    offset: Offset = None,
    time: Time = None,
    flow: Flow = None,
    partition: Partition = None,
    connector: Connector = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    id_: Id = None,
    timeout: Timeout = 60.0,
    secrets: Secrets = None,
    as_json: AsJson = False,
) -> None:
    """Leave out the records before a place: the records are never copied.

    Prints the number of source offsets that are passed over, and asks before anything changes. A partition that is
    past the place stays unchanged.

    Example: twinlog topics skip-to mm2.properties 'clicks.*' --latest --dry-run

    Example: twinlog topics skip-to mm2.properties orders-3 --offset 1200 --yes
    """
    place = _place(earliest, latest, offset, time)
    asking = TopicCommandOptions(TopicVerb.SKIP_TO, words, partition or (), place, id_, yes, dry_run, timeout, as_json)
    ask(_one(file, connector, secrets, flow), asking)


@app.command("accept-gap")
def accept_gap(
    file: File,
    words: Topics,
    flow: Flow = None,
    partition: Partition = None,
    connector: Connector = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    id_: Id = None,
    timeout: Timeout = 60.0,
    secrets: Secrets = None,
    as_json: AsJson = False,
) -> None:
    """Continue after a gap: the source deleted records before their copy, its log was cut back, or the topic was
    recreated.

    Deleted records are missing on the target for good. Prints the lost offsets, and asks before anything changes. A
    partition without a gap stays unchanged.

    Example: twinlog topics accept-gap mm2.properties 'streams-.*-repartition' --yes
    """
    asking = TopicCommandOptions(
        TopicVerb.ACCEPT_GAP, words, partition or (), None, id_, yes, dry_run, timeout, as_json
    )
    ask(_one(file, connector, secrets, flow), asking)


@app.command()
def release(
    file: File,
    words: Topics,
    flow: Flow = None,
    partition: Partition = None,
    connector: Connector = None,
    dry_run: DryRun = False,
    id_: Id = None,
    timeout: Timeout = 60.0,
    secrets: Secrets = None,
    as_json: AsJson = False,
) -> None:
    """Try held partitions again at once, for example after a right was granted.

    By itself twinlog tries a held partition again within a minute. No record is left out or copied twice.

    Example: twinlog topics release mm2.properties orders
    """
    asking = TopicCommandOptions(TopicVerb.RELEASE, words, partition or (), None, id_, True, dry_run, timeout, as_json)
    ask(_one(file, connector, secrets, flow), asking)


def _place(earliest: bool, latest: bool, offset: int | None, time: str | None) -> LogPlace:
    found = []
    if earliest:
        found.append(LogPlace(LogPlaceKind.EARLIEST))
    if latest:
        found.append(LogPlace(LogPlaceKind.LATEST))
    if offset is not None:
        found.append(LogPlace(LogPlaceKind.OFFSET, offset))
    moment = moment_ms(time, "--time")
    if moment is not None:
        found.append(LogPlace(LogPlaceKind.TIME, moment))
    if len(found) != 1:
        raise typer.BadParameter("give a single place by --earliest, --latest, --offset or --time")
    return found[0]


def _read(file: Path, connectors: Sequence[Path], secrets: Path | None) -> FlowsOfFile:
    with ends_if_wrong(EXIT_CONFIG):
        known = read_flow_file(file, connectors, secrets)
    log_warnings()
    return known


def _copying(flows: Sequence[FlowSettings], name: str | None) -> list[FlowSettings]:
    return chosen(flows, name, fits=lambda one: one.copies, doing="that copies")


def _one(
    file: Path, connectors: Sequence[Path] | None, secrets: Path | None, name: str | None
) -> tuple[FlowSettings, FlowsOfFile]:
    """The flow that is meant. Raises BadParameter if the file has several flows."""
    known = _read(file, connectors or (), secrets)
    flows = _copying(known.flows, name)
    if len(flows) > 1:
        names = ", ".join(flow.name for flow in flows)
        raise typer.BadParameter(f"FILE has several flows, choose a flow: {names}", param_hint="--flow")
    return flows[0], known
