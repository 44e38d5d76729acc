"""`twinlog switchover` and `twinlog switchback`: options, and the flows of a file that move."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from twinlog.console.command_log import ends_if_wrong, log_warnings, print_error
from twinlog.console.data_format import DataFormat
from twinlog.console.exit_codes import WRONG
from twinlog.console.flow_files import read_flows
from twinlog.console.options import ConnectorFiles, DryRun, FlowFile, Output, Secrets, between
from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import told
from twinlog.model.topics import listed
from twinlog.ops.verify.statement_command import read_signing_key
from twinlog.settings.client import AdminSettings, ClientSettings
from twinlog.settings.flow import FlowSettings


def flows_between(
    flows: Sequence[FlowSettings], source: str, target: str, moved: FlowSettings | None = None
) -> tuple[FlowSettings, FlowSettings, FlowSettings]:
    """Return the flow that leads there, the flow that follows its groups, and the flow back.

    A worker has separate connectors for copying and for following groups. If the file lacks a flow back, this flow has
    the settings of the first. Raises TwinlogError if several connectors copy between the two clusters and the caller
    gives no `moved` connector: a switchover moves the topics of a single connector.
    """
    known = sorted({str(alias) for flow in flows for alias in (flow.source, flow.target)})
    for alias, option in ((source, "--from"), (target, "--to")):
        if alias not in known:
            raise TwinlogError(f"{option} {alias}: the clusters of the file are {', '.join(known)}")

    if source == target:
        raise TwinlogError(f"--from and --to are both {source}: name the cluster to leave and the cluster to go to")
    there, home = between(flows, source, target), between(flows, target, source)
    copying = [one for one in there if one.copies]
    if moved is None and len(copying) > 1:
        raise TwinlogError(
            f"{len(copying)} connectors copy {source}->{target}: {listed([one.name for one in copying])}; a switchover "
            "moves the topics of a single connector: give the file of that connector only, and --wave NAME for its "
            "journal"
        )
    flow = moved if moved in copying else next(iter(copying), None)
    back = next((one for one in home if one.copies), None)
    if flow is None:
        way_out = f"are --from and --to the wrong way round? The file has {target}->{source}; else"
        raise TwinlogError(
            f"the file has no flow {source}->{target} that is enabled: {way_out if back is not None else ''} write "
            f"{source}->{target}.enabled = true, and have it run".replace("  ", " ")
        )
    follows = next((one for one in there if one.kind == "checkpoint"), flow)
    return flow, follows, back or _reversed(flow)


def _reversed(flow: FlowSettings) -> FlowSettings:
    """The flow back as it would be with the same keys; its clients are called as it would call them."""
    there, back = f"{flow.source}->{flow.target}", f"{flow.target}->{flow.source}"

    def called(client: ClientSettings, like: ClientSettings) -> ClientSettings:
        return replace(client, client_id=like.client_id.replace(there, back))

    here, far = flow.source_admin.client, flow.target_admin.client
    return replace(
        flow,
        source=flow.target,
        target=flow.source,
        source_cluster_alias=flow.target_cluster_alias,
        target_cluster_alias=flow.source_cluster_alias,
        consumer=replace(flow.consumer, client=called(flow.producer.client, flow.consumer.client)),
        producer=replace(flow.producer, client=called(flow.consumer.client, flow.producer.client)),
        source_admin=AdminSettings(called(far, here)),
        target_admin=AdminSettings(called(here, far)),
        worker_group_id=None,
    )


_MODES = ("rehearse", "abort", "release", "status")

From = Annotated[
    str, typer.Option("--from", metavar="A", help="The cluster that producers write to now.", show_default=False)
]
To = Annotated[str, typer.Option("--to", metavar="B", help="The cluster that takes over.", show_default=False)]
FenceBy = Annotated[
    Literal["acl", "quota", "none"] | None,
    typer.Option(
        "--fence",
        help="Close A by ACLs or by a quota; none if you stop the producers yourself. Default: acl if A has an "
        "authorizer, otherwise quota.",
        show_default=False,
    ),
]
Near = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="RECORDS",
        help="Close A once at most this many records are left to copy. Default: 10000.",
        show_default=False,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=1,
        metavar="SECONDS",
        help="Undo everything if producers, or the step catch-up, wait for longer. Default: 600.",
        show_default=False,
    ),
]
Abort = Annotated[bool, typer.Option("--abort", help="Undo the begun switchover: producers may write to A again.")]
Release = Annotated[
    bool, typer.Option("--release", help="Open A to producers again after the end, if producers stay on B for good.")
]
Status = Annotated[bool, typer.Option("--status", help="Print the present step and the report; change nothing.")]
TakeOver = Annotated[bool, typer.Option("--take-over", help="Continue in place of another working process.")]
Report = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Also write the report to PATH.md and PATH.json.", show_default=False),
]
Sign = Annotated[
    Path | None,
    typer.Option(
        "--sign",
        metavar="KEY",
        exists=True,
        dir_okay=False,
        help="With --report: also write a statement of the moved ranges to PATH.statement.json, signed with this "
        "private key of `twinlog keygen`.",
        show_default=False,
    ),
]
Wave = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Move the topics of FILE as a wave, with a journal of its own.",
        show_default=False,
    ),
]


def switchover(
    file: FlowFile,
    source: From,
    target: To,
    connectors: ConnectorFiles = None,
    dry_run: DryRun = False,
    emergency: Annotated[bool, typer.Option("--emergency", help="Fail over without A, after the loss of A.")] = False,
    fence: FenceBy = None,
    near: Near = None,
    timeout: Timeout = None,
    abort: Abort = False,
    release: Release = False,
    status: Status = False,
    take_over: TakeOver = False,
    wave: Wave = "",
    report: Report = None,
    sign: Sign = None,
    output: Output = DataFormat.TABLE,
    secrets: Secrets = None,
) -> None:
    """Fail over from cluster A to cluster B: producers are kept from A, and consumer groups continue on B.

    Keep flow A->B running until the command ends, and then restart producers and consumers with the addresses of B.
    After a crash or Ctrl-C run the same command again: it continues at the unfinished step. `--abort` undoes all steps.

    Exit codes: 0 done; 1 the pre-flight found an obstacle, a step failed, a commit of a group was refused, all was
    undone after --timeout, a fence stays after --release, or another process works on it; 2; 3; 4.

    Example: twinlog switchover mm2.properties --from east --to west --dry-run

    Example: twinlog switchover mm2.properties --from east --to west --report handover
    """
    mode = _mode(dry_run, abort, release, status)
    kind = "emergency" if emergency else "planned"
    _main(
        file, connectors, secrets, source, target, mode, kind, fence, near, timeout, take_over, wave, report, sign,
        output,
    )  # fmt: skip


def switchback(
    file: FlowFile,
    source: From,
    target: To,
    connectors: ConnectorFiles = None,
    dry_run: DryRun = False,
    fence: FenceBy = None,
    near: Near = None,
    timeout: Timeout = None,
    abort: Abort = False,
    release: Release = False,
    status: Status = False,
    take_over: TakeOver = False,
    wave: Wave = "",
    report: Report = None,
    sign: Sign = None,
    output: Output = DataFormat.TABLE,
    secrets: Secrets = None,
) -> None:
    """Fail back after a switchover: `--from` is the cluster that producers write to now, `--to` the earlier cluster.

    Keep the flow back running until the command ends: it copies only the records since the switchover. If topics keep
    their names, stop the first flow before.

    Exit codes: 0 done; 1 the pre-flight found an obstacle, a step failed, a commit of a group was refused, all was
    undone after --timeout, a fence stays after --release, or another process works on it; 2; 3; 4.

    Example: twinlog switchback mm2.properties --from west --to east
    """
    mode = _mode(dry_run, abort, release, status)
    _main(
        file, connectors, secrets, source, target, mode, "back", fence, near, timeout, take_over, wave, report, sign,
        output,
    )  # fmt: skip


def _mode(dry_run: bool, abort: bool, release: bool, status: bool) -> str:
    chosen = [name for name, on in zip(_MODES, (dry_run, abort, release, status), strict=True) if on]
    if len(chosen) > 1:
        raise typer.BadParameter("give a single option of --dry-run, --abort, --release and --status")
    return chosen[0] if chosen else "run"


def _main(
    file: Path,
    connectors: Sequence[Path] | None,
    secrets: Path | None,
    source: str,
    target: str,
    mode: str,
    kind: str,
    fence: str | None,
    near: int | None,
    timeout_s: float | None,
    take_over: bool,
    wave: str,
    report: Path | None,
    sign: Path | None,
    output: DataFormat,
) -> None:
    if sign is not None and (report is None or mode != "run"):
        raise typer.BadParameter(
            "a statement belongs to a switchover with --report PATH, and is PATH.statement.json", param_hint="--sign"
        )
    if report is not None and mode == "rehearse":
        raise typer.BadParameter("a report belongs to a switchover; --dry-run prints its steps", param_hint="--report")
    if report is not None:
        _require_room_for(report, ENDINGS if sign is None else (*ENDINGS, *STATEMENT_ENDINGS))
    key = None if sign is None else read_signing_key(sign)
    with ends_if_wrong(WRONG):
        flows = read_flows(file, connectors or (), secrets)
    log_warnings()
    try:
        flow, follows, back = flows_between(flows, source, target)
    except TwinlogError as error:
        print_error(told(error, "TW-USE-01"))
        raise typer.Exit(WRONG) from None

    from twinlog.ops.switchover.session import SwitchoverArguments, conduct  # noqa: PLC0415 - Kafka's library is slow to import for --help

    asked = SwitchoverArguments(mode, kind, fence, near, timeout_s, take_over, wave, report, output, key)
    conduct(asked, flow, follows, back, {alias for one in flows for alias in (one.source_name, one.target_name)})


ENDINGS, STATEMENT_ENDINGS = ("md", "json"), ("statement.json", "statement.json.sig")
"""The endings of the files of a report, and of its statement."""


def _require_room_for(report: Path, endings: Sequence[str]) -> None:
    """Raise BadParameter if the report is unwritable: otherwise this would only show at the end."""
    found = [report.parent / f"{report.name}.{ending}" for ending in endings]
    taken = next((path for path in found if path.exists() and not (path.is_file() and os.access(path, os.W_OK))), None)
    if taken is not None:
        raise typer.BadParameter(f"{taken} is unwritable; name another PATH", param_hint="--report")
    if not report.name or not report.parent.is_dir() or not os.access(report.parent, os.W_OK | os.X_OK):
        raise typer.BadParameter(
            f"{report.parent} refuses new files; name a PATH, for example handover, in a writable folder",
            param_hint="--report",
        )
