"""The commands of `twinlog canary`: the file of a canary beside MirrorMaker 2, and the comparison of both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from twinlog.clock import SYSTEM
from twinlog.config.file_kind import FileKind, kind_of
from twinlog.config.properties import PropertyEntry, parse_properties, read_properties
from twinlog.config.text.entries import parse_file
from twinlog.console import signals
from twinlog.console.command_class import CommandApp, DefaultCommandGroup
from twinlog.console.command_log import (
    ends_if_wrong,
    log_checks,
    print_error,
    print_note,
    print_warning_line,
    print_warnings,
)
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import FOUND, WRONG
from twinlog.console.flow_files import read_flow_file, read_flows
from twinlog.console.new_files import write_new_files
from twinlog.console.options import (
    SAMPLE_RECORDS,
    AnswerTimeout,
    Conf,
    ConnectorFiles,
    Everything,
    FlowFile,
    Master,
    OneFlow,
    Output,
    SampleSize,
    Secrets,
    WholeComparison,
    at_work,
    chosen,
    ends,
    spark_options,
)
from twinlog.console.spark_batch import SparkSignalHandler
from twinlog.errors import TwinlogError
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.model.types import Alias, TopicName
from twinlog.settings.flow import FlowSettings

FILE_NAME, RESOURCE_NAME = "canary.properties", "canary.yaml"


class _OrWrite(DefaultCommandGroup):
    """`twinlog canary FILE` writes the file of a canary."""

    default_command = "write"


app = CommandApp(cls=_OrWrite, no_args_is_help=True)


@app.callback()
def canary() -> None:
    """Try twinlog beside a running MirrorMaker 2, and compare both.

    A canary copies some topics of a flow under an alias of its own: its copies, group, positions and internal topics
    have separate names. `twinlog canary FILE` is `twinlog canary write FILE`.

    Exit codes: 0; 1; 2; 3; 4.

    Example: twinlog canary mm2.properties --topic orders --output-dir canary

    Example: twinlog canary report mm2.properties canary/canary.properties
    """


@app.command("write")
def write(
    file: FlowFile,
    connectors: ConnectorFiles = None,
    topics: Annotated[
        list[str],
        typer.Option("--topic", metavar="TOPIC", help="Copy this topic of the source, by its name; may be repeated."),
    ] = ...,  # type: ignore[assignment]
    folder: Annotated[
        Path,
        typer.Option(
            "--output-dir",
            metavar="DIR",
            help=f"Write {FILE_NAME}, or {RESOURCE_NAME} for a resource, to this directory; existing files stay.",
            show_default=False,
        ),
    ] = ...,  # type: ignore[assignment]
    flow: OneFlow = None,
    alias: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name the source like this in the canary. Default: SOURCE-canary.", show_default=False
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="START",
            help="Begin each topic at earliest, latest, a time, or an age as P1D. Default: as in FILE.",
            show_default=False,
        ),
    ] = None,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="Name the copies NAME.TOPIC, even if FILE keeps the names of topics.")
    ] = False,
    copied_further: Annotated[
        bool,
        typer.Option("--copied-further", help="Accept that another flow of FILE also copies the canary's topics."),
    ] = False,
    secrets: Secrets = None,
) -> None:
    """Write the file of a canary beside the MirrorMaker 2 that runs FILE. Contacts no cluster.

    The canary copies only the chosen topics. It commits no offsets of groups, and writes no ACLs and no heartbeats. The
    canary of Strimzi's resource is a resource with a name, a group and topics of its own.

    Exit codes: 0; 2 FILE or an option is wrong, or the canary would touch something of MirrorMaker 2, and nothing is
    written; 4.

    Example: twinlog canary mm2.properties --topic orders --topic payments --output-dir canary

    Example: twinlog canary mm2.properties --flow east:west --topic orders --start latest --output-dir canary

    Example: twinlog canary mirror.yaml --secrets secrets --topic orders --output-dir canary
    """
    with ends_if_wrong(WRONG):
        flows = read_flows(file, connectors or [], secrets)
    found = chosen(flows, flow, fits=lambda one: one.kind in (None, "source"), doing="that copies")
    if len({ends(one) for one in found}) > 1:
        names = ", ".join(sorted({f"{one.source}:{one.target}" for one in found}))
        raise typer.BadParameter(f"FILE has several flows: choose one of {names}", param_hint="--flow")

    from twinlog.ops.canary.canary_file import CanaryChoice, CanaryFile, canary_file  # noqa: PLC0415 - slow to import for --help

    base = found[0]
    wanted = dict.fromkeys(TopicName(part.strip()) for text in topics for part in text.split(",") if part.strip())
    choice = CanaryChoice(base, Alias(alias or f"{base.source}-canary"), tuple(wanted), prefix=prefix, start=start)
    secret_files: dict[Path, str] = {}
    if kind_of(file) is FileKind.RESOURCE:
        from twinlog.ops.canary.canary_resource import aliases_of_resource, canary_resource  # noqa: PLC0415

        _refuse(choice, flows, aliases_of_resource(file), copied_further=copied_further)
        path, made = folder / RESOURCE_NAME, CanaryFile(canary_resource(file, choice), ())
    else:
        vault = Path(os.path.abspath(secrets or folder / "secrets"))
        with ends_if_wrong(WRONG):
            entries, secret_files = _entries(file, connectors or [], vault)
            aliases = parse_file(entries, str(file), "warn").aliases
        _refuse(choice, flows, aliases, copied_further=copied_further)
        path, made = folder / FILE_NAME, canary_file(entries, aliases, choice)
    _write({path: (made.text, 0o600), **{secret: (value, 0o600) for secret, value in secret_files.items()}})
    try:
        with ends_if_wrong(WRONG):
            written = read_flow_file(path, [], secrets)
    except typer.Exit:
        for one in (path, *secret_files):
            one.unlink()
        print_note("twinlog: these settings make no canary, and nothing was written")
        raise
    print_warnings(written.warnings)
    if made.left_out:
        print_note(f"note: left out, as two processes cannot share a port: {', '.join(made.left_out)}")
    for one in secret_files:
        print_note(f"wrote {one}")
    typer.echo("\n".join(_next_steps(file, connectors or [], path, choice.flow, written.flows[0], secrets)))


@app.command("report")
def report(
    file: FlowFile,
    canary_file: Annotated[
        Path,
        typer.Argument(
            metavar="CANARY_FILE",
            help=f"The {FILE_NAME} or {RESOURCE_NAME} of `twinlog canary FILE`, with which the canary runs.",
            show_default=False,
        ),
    ],
    connectors: ConnectorFiles = None,
    watch: Annotated[
        float,
        typer.Option(
            "--observe",
            min=0,
            metavar="SECONDS",
            help="Observe lag and processes for this time, and up to 30 s longer if a process starts meanwhile.",
        ),
    ] = 60.0,
    pid: Annotated[
        int | None,
        typer.Option(metavar="PID", help="Measure the canary by this process of this host.", show_default=False),
    ] = None,
    mm2_pid: Annotated[
        int | None,
        typer.Option("--mm2-pid", metavar="PID", help="Measure MirrorMaker 2 by this process.", show_default=False),
    ] = None,
    full: WholeComparison = False,
    sample: SampleSize = SAMPLE_RECORDS,
    output: Output = DataFormat.TABLE,
    timeout: AnswerTimeout = COMMAND_CONNECT_S,
    everything: Everything = False,
    master: Master = None,
    conf: Conf = None,
    secrets: Secrets = None,
) -> None:
    """Compare the canary with the MirrorMaker 2 that runs FILE: records, lag, groups, processor time. Changes nothing.

    The report compares the copies of both with the source, and has the records that each group would skip or repeat on
    a failover. With --pid and --mm2-pid the report also has CPU time and memory. The login needs the rights that
    `twinlog acls FILE --for audit` and `twinlog acls CANARY_FILE` print.

    Exit codes: 0 both copies are equal to the source; 1 a record differs, a group would skip records, or a part is
    unknown; 2; 3; 4.

    Example: twinlog canary report mm2.properties canary/canary.properties --pid 4711 --mm2-pid 815

    Example: twinlog canary report mm2.properties canary/canary.properties --full -o json
    """
    spark_master, settings = spark_options(master, conf)
    with ends_if_wrong(WRONG):
        known = read_flow_file(file, connectors or [], secrets, unknown_keys="warn")
        of_canary = read_flow_file(canary_file, [], secrets)
        flows = at_work(of_canary.flows)
    if any(one.only_copies for one in known.flows) and not any(one.only_copies for one in flows):
        raise typer.BadParameter(
            f"the first file is a canary's file, and {canary_file} is none: give the file of MirrorMaker 2 first, then "
            f"the file of the canary: twinlog canary report {canary_file} {file}",
            param_hint="FILE",
        )
    if len(flows) != 1:
        raise typer.BadParameter(
            f"it has {len(flows)} flows, and a canary has one: write it with `twinlog canary FILE`",
            param_hint="CANARY_FILE",
        )
    log_checks()
    stop = SparkSignalHandler("; both clusters are as before")
    signals.call(stop)

    from twinlog.console.progress import ReadingProgress  # noqa: PLC0415 - Spark is slow to import, --help must not wait
    from twinlog.ops.audit.comparing import compare_all, compare_sample  # noqa: PLC0415
    from twinlog.ops.canary.comparison import report_lines  # noqa: PLC0415
    from twinlog.ops.canary.reading import (  # noqa: PLC0415
        CanaryReader,
        CanaryReportOptions,
        ComparedFlows,
        flow_beside,
    )

    if watch:
        print_note(f"observing both programs for {watch:g} seconds (--observe)")
    try:
        base = flow_beside(flows[0], at_work(known.flows))
        compared = ComparedFlows(base, tuple(at_work(known.flows)), flows[0], known.worker, of_canary.worker)
        with ReadingProgress() as progress:
            compare = compare_all(spark_master, settings, stop) if full else compare_sample(progress)
            options = CanaryReportOptions(full, sample, watch, pid, mm2_pid)
            found = CanaryReader(
                compared, options, compare, progress=progress, connect_s=timeout, clock=SYSTEM
            ).report()
    except TwinlogError as error:
        stop.end_command(error)
    print_result(output, found.as_json, lambda: report_lines(found, everything=everything))
    if not found.equal:
        raise typer.Exit(FOUND)


def _refuse(choice: Any, flows: Sequence[FlowSettings], aliases: Sequence[Alias], *, copied_further: bool) -> None:
    """End the command if the canary would touch something of MirrorMaker 2."""
    from twinlog.ops.canary.canary_file import canary_obstacles, copied_further_by  # noqa: PLC0415

    known = {*aliases, *(one for flow in flows for one in (flow.source_name, flow.target_name))}
    obstacles = list(canary_obstacles(choice, known))
    further = list(copied_further_by(choice, flows))
    if not copied_further:
        obstacles += further
    else:
        for text in further:
            print_warning_line(f"TW-USE-08: note: {text}")
    for text in obstacles:
        print_error(f"TW-USE-08: {text}")
    if obstacles:
        raise typer.Exit(WRONG)


def _entries(file: Path, connectors: Sequence[Path], vault: Path) -> tuple[list[PropertyEntry], dict[Path, str]]:
    """The entries of FILE as a properties file of MirrorMaker 2 has them, and the secrets to write beside them.

    The connectors of a worker are converted first; a secret in them becomes a file in `vault`.
    """
    if kind_of(file) is FileKind.MIRROR:
        return read_properties(file), {}
    from twinlog.ops.convert.readers import mirrors_of_connectors  # noqa: PLC0415
    from twinlog.ops.convert.secrets import SecretStore  # noqa: PLC0415
    from twinlog.ops.convert.to_properties import to_properties  # noqa: PLC0415

    made = to_properties(mirrors_of_connectors(file, list(connectors)), SecretStore(str(vault)))
    (text,) = made.files.values()
    for left in made.not_converted:
        print_warning_line(f"note: left out: {left} [TW-FILE-20]")
    return parse_properties(text, str(file)), {vault / name / key: value for (name, key), value in made.secrets.items()}


def _write(files: dict[Path, tuple[str, int]]) -> None:
    write_new_files(
        {path: (text.encode(), mode) for path, (text, mode) in files.items()},
        kept=", and nothing was written; remove it, or choose another --output-dir",
        way_out="; choose a directory that you may write to",
    )


def _next_steps(
    file: Path,
    connectors: Sequence[Path],
    path: Path,
    flow: FlowSettings,
    written: FlowSettings,
    secrets: Path | None,
) -> list[str]:
    """What was written, and the commands that follow."""
    also = "".join(f" {one}" for one in connectors)
    more = f" --secrets {secrets}" if secrets is not None and path.name == RESOURCE_NAME else ""
    first = (
        f"wrote {path}: a canary of {ends(flow)} with copies in {written.source}{written.separator}TOPIC on "
        f"{written.target}, group {written.group_id}, positions in {written.positions_topic}"
    )
    return [
        first,
        "next:",
        f"  twinlog plan {path}{more}",
        f"  twinlog run {path}{more}",
        f"  twinlog status {path}{more}",
        f"  twinlog canary report {file} {path}{also}{more}",
    ]
