"""The commands of `twinlog topics`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from twinlog.console.command_class import CommandApp, DefaultCommandGroup
from twinlog.console.command_log import ends_if_wrong, log_warnings, waits_reported
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import UNREACHABLE, WRONG, end_with
from twinlog.console.flow_files import FlowsOfFile
from twinlog.console.options import (
    CONNECTOR_HELP,
    MOMENT_HELP,
    AnswerTimeout,
    AnyFlow,
    ClusterLogins,
    ConnectorFiles,
    DryRun,
    FileOrWorker,
    FlowFile,
    OneFlow,
    Output,
    Partitions,
    Secrets,
    Topics,
    WorkerUrl,
    Yes,
    chosen,
    moment_ms,
    single_flow,
    topic_expressions,
)
from twinlog.errors import TwinlogError
from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.ops.running_worker import read_flows_asked
from twinlog.ops.topics.asking import TopicCommandOptions, ask
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control.model import LogPlace, LogPlaceKind, TopicVerb

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC",
        help="Source topics: Java regular expressions of whole names, or a partition (orders-3).",
        show_default=False,
    ),
]
Connector = Annotated[
    list[Path] | None, typer.Option("--connector", metavar="PATH", help=CONNECTOR_HELP, show_default=False)
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="ID",
        help="Name the command: a second command with the same name changes nothing.",
        show_default=False,
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0, help="Wait for the end of the command for this time.")
]
Earliest = Annotated[bool, typer.Option("--earliest", help="Choose the first record of the source as the place.")]
Latest = Annotated[bool, typer.Option("--latest", help="Choose the end of the source as the place.")]
FromOffset = Annotated[
    int | None,
    typer.Option("--from-offset", metavar="OFFSET", min=0, help="Choose this source offset.", show_default=False),
]
ToOffset = Annotated[
    int | None,
    typer.Option("--to-offset", metavar="OFFSET", min=0, help="Choose this source offset.", show_default=False),
]
_MOMENT = f"Choose the first record of this time or later: {MOMENT_HELP}"
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help=_MOMENT, show_default=False)]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help=_MOMENT, show_default=False)]


class _OrList(DefaultCommandGroup):
    """`twinlog topics FILE` lists."""

    default_command = "list"

    def names_subcommand(self, args: Sequence[str]) -> bool:
        """Also a misspelled subcommand in front of FILE."""
        misspelled = len(args) > 1 and args[0].replace("-", "").isalpha() and not Path(args[0]).exists()
        return super().names_subcommand(args) or args[0].startswith("-") or misspelled


app = CommandApp(cls=_OrList, no_args_is_help=True)


@app.callback()
def topics() -> None:
    """List, pause, restart or skip topics while the flow runs.

    You may run the command on any host that reaches both clusters: the process that runs the flow carries the command
    out. If the flow is stopped, the next process carries the command out. `twinlog topics FILE` lists.

    Exit codes: 0 the command is done, or is written while no process runs the flow; 1 no partition changed, or a
    partition could not be changed; 2 FILE or an option is wrong, and no command was written; 3 a cluster is out of
    reach, a right is missing, or the process that runs the flow is silent for --timeout; 4.

    Example: twinlog topics mm2.properties

    Example: twinlog topics pause mm2.properties 'logs[.].*'
    """


@app.command("list")
def list_(
    file: FileOrWorker = None,
    connectors: ConnectorFiles = None,
    url: WorkerUrl = None,
    logins: ClusterLogins = None,
    flow: AnyFlow = None,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Print a line with offsets for each partition.")
    ] = False,
    output: Output = DataFormat.TABLE,
    timeout: AnswerTimeout = LOOK_CONNECT_S,
    secrets: Secrets = None,
) -> None:
    """List each topic with its state: copying, paused, held, asked, waiting or left out. Changes nothing.

    LAG is the number of source offsets between the stored position and the end of the source.

    Example: twinlog topics list mm2.properties --flow east:west --partitions

    Example: twinlog topics list --url http://connect-1:8083
    """
    known = _read(file, connectors or (), secrets, url, logins)

    from twinlog.ops.topics.reader import TopicsReader  # noqa: PLC0415
    from twinlog.ops.topics.text import lines, topics_json  # noqa: PLC0415 - Kafka's library is slow to import for --help

    wanted = _copying(known.flows, flow)
    try:
        with ExitStack() as stack:
            readers = [stack.enter_context(TopicsReader(one, known.worker, connect_s=timeout)) for one in wanted]
            with waits_reported(readers):
                seen = [reader.read() for reader in readers]
    except TwinlogError as error:
        end_with(error)
    print_result(
        output,
        lambda: {"flows": [topics_json(one) for one in seen]},
        lambda: ["\n\n".join("\n".join(lines(one, partitions=partitions)) for one in seen)],
    )
    if any(one.trouble for one in seen):
        raise typer.Exit(UNREACHABLE)


@app.command()
def pause(
    file: FlowFile,
    words: Words = None,
    topic: Topics = None,
    flow: OneFlow = None,
    partition: Partitions = None,
    connector: Connector = None,
    dry_run: DryRun = False,
    id_: Id = None,
    timeout: Timeout = 60.0,
    secrets: Secrets = None,
    output: Output = DataFormat.TABLE,
) -> None:
    """Pause topics until `resume`, also later topics of the pattern: the records wait on the source.

    The command ends once all records in flight have arrived. Later each record is copied once.

    Example: twinlog topics pause mm2.properties 'logs[.].*'

    Example: twinlog topics pause mm2.properties --topic orders --partition 3 --partition 4
    """
    asking = TopicCommandOptions(
        TopicVerb.PAUSE, _named(words, topic), partition or (), None, id_, True, dry_run, timeout, output
    )
    ask(_one(file, connector, secrets, flow), asking)


@app.command()
def resume(
    file: FlowFile,
    words: Words = None,
    topic: Topics = None,
    flow: OneFlow = None,
    partition: Partitions = None,
    connector: Connector = None,
    dry_run: DryRun = False,
    id_: Id = None,
    timeout: Timeout = 60.0,
    secrets: Secrets = None,
    output: Output = DataFormat.TABLE,
) -> None:
    """Resume paused topics at their stored positions: each record is copied once.

    The last `pause` or `resume` that matches a partition counts.

    Example: twinlog topics resume mm2.properties 'logs[.].*'
    """
    asking = TopicCommandOptions(
        TopicVerb.RESUME, _named(words, topic), partition or (), None, id_, True, dry_run, timeout, output
    )
    ask(_one(file, connector, secrets, flow), asking)


@app.command("restart-from")
def restart_from(
    file: FlowFile,
    words: Words = None,
    topic: Topics = None,
    earliest: Earliest = False,
    latest: Latest = False,
    from_offset: FromOffset = None,
    since: Since = None,
    flow: OneFlow = None,
    partition: Partitions = None,
    connector: Connector = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    id_: Id = None,
    timeout: Timeout = 60.0,
    secrets: Secrets = None,
    output: Output = DataFormat.TABLE,
) -> None:
    """Copy topics again from a place on: the target then has these records twice.

    The command prints the number of source offsets to copy again, and asks before any change. A partition before the
    place stays unchanged.

    Example: twinlog topics restart-from mm2.properties orders-3 --earliest --dry-run

    Example: twinlog topics restart-from mm2.properties orders --since 2026-11-01T00:00:00Z --yes
    """
    place = _place(earliest, latest, from_offset, since, ("--from-offset", "--since"))
    asking = TopicCommandOptions(
        TopicVerb.RESTART_FROM, _named(words, topic), partition or (), place, id_, yes, dry_run, timeout, output
    )
    ask(_one(file, connector, secrets, flow), asking)


@app.command("skip-to")
def skip_to(
    file: FlowFile,
    words: Words = None,
    topic: Topics = None,
    earliest: Earliest = False,
    latest: Latest = False,
    to_offset: ToOffset = None,
    until: Until = None,
    flow: OneFlow = None,
    partition: Partitions = None,
    connector: Connector = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    id_: Id = None,
    timeout: Timeout = 60.0,
    secrets: Secrets = None,
    output: Output = DataFormat.TABLE,
) -> None:
    """Skip the records before a place: these records are never copied.

    The command prints the number of source offsets to skip, and asks before any change. A partition after the place
    stays unchanged.

    Example: twinlog topics skip-to mm2.properties 'clicks.*' --latest --dry-run

    Example: twinlog topics skip-to mm2.properties orders-3 --to-offset 1200 --yes
    """
    place = _place(earliest, latest, to_offset, until, ("--to-offset", "--until"))
    asking = TopicCommandOptions(
        TopicVerb.SKIP_TO, _named(words, topic), partition or (), place, id_, yes, dry_run, timeout, output
    )
    ask(_one(file, connector, secrets, flow), asking)


@app.command("accept-gap")
def accept_gap(
    file: FlowFile,
    words: Words = None,
    topic: Topics = None,
    flow: OneFlow = None,
    partition: Partitions = None,
    connector: Connector = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    id_: Id = None,
    timeout: Timeout = 60.0,
    secrets: Secrets = None,
    output: Output = DataFormat.TABLE,
) -> None:
    """Continue after a gap: the lost records are missing on the target for good.

    A gap comes from records that were deleted before their copy, a log that was cut back, or a recreated topic. The
    command prints the lost offsets, and asks before any change. A partition without a gap stays unchanged.

    Example: twinlog topics accept-gap mm2.properties 'streams-.*-repartition' --yes
    """
    asking = TopicCommandOptions(
        TopicVerb.ACCEPT_GAP, _named(words, topic), partition or (), None, id_, yes, dry_run, timeout, output
    )
    ask(_one(file, connector, secrets, flow), asking)


@app.command()
def release(
    file: FlowFile,
    words: Words = None,
    topic: Topics = None,
    flow: OneFlow = None,
    partition: Partitions = None,
    connector: Connector = None,
    dry_run: DryRun = False,
    id_: Id = None,
    timeout: Timeout = 60.0,
    secrets: Secrets = None,
    output: Output = DataFormat.TABLE,
) -> None:
    """Try held partitions again at once, for example after you granted a right.

    twinlog also tries a held partition by itself, at least once a minute. Each record is copied once.

    Example: twinlog topics release mm2.properties orders
    """
    asking = TopicCommandOptions(
        TopicVerb.RELEASE, _named(words, topic), partition or (), None, id_, True, dry_run, timeout, output
    )
    ask(_one(file, connector, secrets, flow), asking)


def _named(words: Sequence[str] | None, topics: Sequence[str] | None) -> tuple[str, ...]:
    """The topics of a command line: words behind FILE, and those of --topic. Raises BadParameter for neither."""
    found = (*(words or ()), *topic_expressions(topics))
    if not found:
        raise typer.BadParameter("missing; choose topics by --topic, or as words behind FILE", param_hint="TOPIC")
    return found


def _place(earliest: bool, latest: bool, offset: int | None, time: str | None, options: tuple[str, str]) -> LogPlace:
    found = []
    if earliest:
        found.append(LogPlace(LogPlaceKind.EARLIEST))
    if latest:
        found.append(LogPlace(LogPlaceKind.LATEST))
    if offset is not None:
        found.append(LogPlace(LogPlaceKind.OFFSET, offset))
    moment = moment_ms(time, options[1])
    if moment is not None:
        found.append(LogPlace(LogPlaceKind.TIME, moment))
    if len(found) != 1:
        raise typer.BadParameter(f"give a single place by --earliest, --latest, {options[0]} or {options[1]}")
    return found[0]


def _read(
    file: Path | None,
    connectors: Sequence[Path],
    secrets: Path | None,
    url: str | None = None,
    logins: Path | None = None,
) -> FlowsOfFile:
    with ends_if_wrong(WRONG):
        known = read_flows_asked(file, connectors, secrets, url, logins)
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
    return single_flow(flows), known
