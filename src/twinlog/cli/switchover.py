"""`twinlog switchover` and `twinlog switchback`: producers and groups move to the other cluster, and come back."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twinlog.cli import signals
from twinlog.cli.command_log import log_warnings
from twinlog.cli.flow_files import CONNECTOR_HELP, FILE_HELP, read_flows
from twinlog.cli.foreground import end_process, print_problems
from twinlog.cli.secrets_option import Secrets
from twinlog.clock import SYSTEM
from twinlog.errors import ConfigError, FencedError, TwinlogError
from twinlog.settings.flow import AdminSettings, ClientSettings, FlowSettings

if TYPE_CHECKING:
    from twinlog.switchover.clusters import Clusters
    from twinlog.switchover.entries import Entries
    from twinlog.switchover.journal import TopicJournal
    from twinlog.switchover.model import Options

EXIT_FAILED, EXIT_CONFIG, EXIT_NOT_READY, EXIT_UNDONE, EXIT_UNDER_WAY = 1, 2, 3, 4, 5
CONNECT_S = 15.0
LINE_EVERY_S = 2.0
_MODES = ("rehearse", "abort", "release", "status")
ALIVE_S = 20.0
"""Whoever wrote a journal within so many seconds may still work."""

File = Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP, show_default=False)]
Connectors = Annotated[
    list[Path] | None, typer.Argument(metavar="[CONNECTOR]...", help=CONNECTOR_HELP, show_default=False)
]
From = Annotated[str, typer.Option("--from", metavar="A", help="The cluster to move from.", show_default=False)]
To = Annotated[str, typer.Option("--to", metavar="B", help="The cluster to move to.", show_default=False)]
FenceBy = Annotated[
    Literal["acl", "quota", "none"] | None,
    typer.Option(
        "--fence",
        help="Keep producers away by ACLs, by a client quota, or not at all. Default: ACLs where the cluster has an "
        "authorizer, else a quota.",
        show_default=False,
    ),
]
Near = Annotated[int, typer.Option(min=0, metavar="RECORDS", help="Fence producers once the lag is no larger.")]
AtMost = Annotated[
    float, typer.Option("--at-most", min=1, metavar="SECONDS", help="Undo everything when producers wait for longer.")
]
Rehearse = Annotated[
    bool, typer.Option("--rehearse", help="Print every call and how long it would take; change nothing.")
]
Abort = Annotated[bool, typer.Option("--abort", help="Undo what has begun: producers may write to A again.")]
Release = Annotated[
    bool, typer.Option("--release", help="After the end: let producers write to A again without a way back.")
]
Status = Annotated[bool, typer.Option("--status", help="Print how far it is; change nothing.")]
TakeOver = Annotated[bool, typer.Option("--take-over", help="Go on although another process may still work on it.")]
Report = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Write the report to PATH.md and PATH.json, too.", show_default=False),
]
Wave = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Move the topics of FILE apart from others: each wave has a journal.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def switchover(
    file: File,
    source: From,
    target: To,
    connectors: Connectors = None,
    rehearse: Rehearse = False,
    emergency: Annotated[
        bool, typer.Option("--emergency", help="The cluster to move from is lost: go on with what was copied.")
    ] = False,
    fence: FenceBy = None,
    near: Near = 10_000,
    at_most: AtMost = 600.0,
    abort: Abort = False,
    release: Release = False,
    status: Status = False,
    take_over: TakeOver = False,
    wave: Wave = "",
    report: Report = None,
    as_json: AsJson = False,
    secrets: Secrets = None,
) -> None:
    """Move producers and consumer groups from cluster A to cluster B, where flow A->B copies to.

    Fences producers on A, waits until all is copied, commits the offsets of groups, and proves that every record is on
    B. The flow itself runs elsewhere, and must. Each step is in a journal on B: after a crash or Ctrl-C the same
    command goes on where it stood, and `--abort` undoes it.

    Ends with 0 when it is done; 1 when a step failed: the journal has the others; 2 when FILE or an option is wrong; 3
    when the pre-flight found what prevents it; 4 when it lasted too long and was undone; 5 when another process works
    on it.

    Example: twinlog switchover mm2.properties --from east --to west --rehearse

    Example: twinlog switchover mm2.properties --from east --to west --report handover
    """
    mode = _mode(rehearse, abort, release, status)
    kind = "emergency" if emergency else "planned"
    _main(file, connectors, secrets, source, target, mode, kind, fence, near, at_most, take_over, wave, report, as_json)


def switchback(
    file: File,
    source: From,
    target: To,
    connectors: Connectors = None,
    rehearse: Rehearse = False,
    fence: FenceBy = None,
    near: Near = 10_000,
    at_most: AtMost = 600.0,
    abort: Abort = False,
    release: Release = False,
    status: Status = False,
    take_over: TakeOver = False,
    wave: Wave = "",
    report: Report = None,
    as_json: AsJson = False,
    secrets: Secrets = None,
) -> None:
    """Move back after a switchover: `--from` is the cluster that producers write to now, `--to` where they came from.

    The flow back copies only what was written since. Where topics keep their names it begins at the cut that the
    switchover recorded; it must run while this command does, and the first flow must not.

    Ends with the codes of `switchover`.

    Example: twinlog switchback back.properties --from west --to east
    """
    mode = _mode(rehearse, abort, release, status)
    _main(
        file, connectors, secrets, source, target, mode, "back", fence, near, at_most, take_over, wave, report, as_json
    )


def _mode(rehearse: bool, abort: bool, release: bool, status: bool) -> str:
    chosen = [name for name, on in zip(_MODES, (rehearse, abort, release, status), strict=True) if on]
    if len(chosen) > 1:
        raise typer.BadParameter("give one of --rehearse, --abort, --release and --status")
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
    near: int,
    at_most: float,
    take_over: bool,
    wave: str,
    report: Path | None,
    as_json: bool,
) -> None:
    try:
        flows = read_flows(file, connectors or (), secrets)
    except ConfigError as error:
        print_problems(error)
        raise typer.Exit(EXIT_CONFIG) from None
    log_warnings()
    try:
        flow, follows, back = _flows(flows, source, target)
    except TwinlogError as error:
        typer.echo(f"twinlog: {error}", err=True)
        raise typer.Exit(EXIT_CONFIG) from None

    from twinlog.switchover.clusters import Clusters  # noqa: PLC0415 - Kafka's library is slow to import for --help
    from twinlog.switchover.model import Fence, Kind, NotReadyError, Options, TooLongError, UnderWayError  # noqa: PLC0415

    options = Options(Kind(kind), None if fence is None else Fence(fence), near, at_most)
    aliases = {alias for one in flows for alias in (one.source, one.target)}
    clusters = Clusters(flow, back, aliases, wave, follows=follows)
    try:
        code = _act(clusters, options, mode, take_over, report, as_json)
    except NotReadyError as error:
        for problem in error.problems:
            typer.echo(f"problem: {problem}", err=True)
        typer.echo("nothing was changed", err=True)
        code = EXIT_NOT_READY
    except TooLongError as error:
        typer.echo(f"twinlog: {error}; everything was undone, producers may write to {source} again", err=True)
        code = EXIT_UNDONE
    except (UnderWayError, FencedError) as error:
        typer.echo(f"twinlog: {error}", err=True)
        code = EXIT_UNDER_WAY
    except (TwinlogError, OSError) as error:
        typer.echo(f"twinlog: {error}", err=True)
        if mode in {"run", "abort"}:
            typer.echo(_where(clusters, source), err=True)
        code = EXIT_FAILED
    except Exception as error:
        typer.echo(f"twinlog: internal error: {error!r}; {_where(clusters, source)}", err=True)
        logging.getLogger("twinlog").debug("it ends here:", exc_info=error)
        code = EXIT_FAILED
    end_process(code)


def _flows(flows: Sequence[FlowSettings], source: str, target: str) -> tuple[FlowSettings, FlowSettings, FlowSettings]:
    """The flow that leads there, the one that follows its groups, and the flow back.

    Connectors of a worker copy and follow groups apart from each other. Where the file has no flow back it has the
    settings of the first.
    """
    known = sorted({str(alias) for flow in flows for alias in (flow.source, flow.target)})
    for alias, option in ((source, "--from"), (target, "--to")):
        if alias not in known:
            raise TwinlogError(f"{option} {alias}: no cluster of the file, which has {', '.join(known)}")

    def found(*ends: str) -> list[FlowSettings]:
        return [one for one in flows if one.enabled and (one.source, one.target) == ends]

    flow = next((one for one in found(source, target) if one.copies), None)
    if flow is None:
        raise TwinlogError(f"the file has no flow {source}->{target}; write {source}->{target}.enabled = true")
    follows = next((one for one in found(source, target) if one.kind == "checkpoint"), flow)
    back = next((one for one in found(target, source) if one.copies), None)
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
        consumer=replace(flow.consumer, client=called(flow.producer.client, flow.consumer.client)),
        producer=replace(flow.producer, client=called(flow.consumer.client, flow.producer.client)),
        source_admin=AdminSettings(called(far, here)),
        target_admin=AdminSettings(called(here, far)),
        worker_group_id=None,
    )


def _act(clusters: Clusters, options: Options, mode: str, take_over: bool, path: Path | None, as_json: bool) -> int:
    from twinlog.switchover.machine import Machine  # noqa: PLC0415
    from twinlog.switchover.model import Kind  # noqa: PLC0415

    clusters.connect(CONNECT_S, source_lost=options.kind is Kind.EMERGENCY)
    journal = clusters.journal
    if mode == "rehearse":
        return _rehearse(clusters, options, as_json)
    if mode == "status":
        entries = journal.read()
        _print(entries, None, as_json)
        return 0 if entries.run is not None else EXIT_FAILED
    if not take_over:
        _require_free(journal.glance())
    journal.take()
    shown = _Lines()
    signals.call(lambda number: _interrupted(number, journal))
    machine = Machine(clusters, journal, _owner(), shown)
    act = {"run": lambda: machine.run(options), "abort": machine.abort, "release": machine.release}[mode]
    entries = act()
    _print(entries, path, as_json)
    return 0


def _owner() -> str:
    return f"{socket.gethostname()} {os.getpid()}"


def _require_free(entries: Entries) -> None:
    """Raise UnderWayError while another process seems to work; one of this host that is gone does not."""
    from twinlog.switchover.machine import ENDED  # noqa: PLC0415
    from twinlog.switchover.model import UnderWayError  # noqa: PLC0415

    run = entries.run
    if run is None or run.state in ENDED:
        return
    times = [entry.at_ms for entry in entries.steps.values()]
    silent_s = SYSTEM.wall() - max(run.seen_ms, *times, 0) / 1000
    host, _, pid = run.owner.rpartition(" ")
    if host == socket.gethostname():
        if pid == str(os.getpid()):
            # In a container that was started anew, processes have their numbers again.
            return
        try:
            os.kill(int(pid), 0)
        except (ProcessLookupError, ValueError):
            return
        except PermissionError:
            pass
    elif silent_s > ALIVE_S:
        return
    raise UnderWayError(
        f"process {pid} on {host} works on switchover {run.ends} (last entry {silent_s:.0f} s ago); wait for it, or "
        "give --take-over"
    )


def _interrupted(number: signal.Signals, journal: TopicJournal) -> None:
    """Every point is one to go on from, so the process just ends, and says where it stood."""
    typer.echo(f"\nended by {number.name}: {_stands(journal.entries)}", err=True)
    end_process(signals.exit_code(number))


def _stands(entries: Entries) -> str:
    from twinlog.switchover.machine import ENDED  # noqa: PLC0415
    from twinlog.switchover.steps import ORDER  # noqa: PLC0415

    run = entries.run
    if run is None:
        return "nothing was changed"
    if run.state in ENDED:
        return f"the last switchover {run.ends} is {run.state}; nothing is under way"
    step = entries.last_begun(ORDER[run.options.kind]) or "none"
    fenced = "producers are fenced; " if entries.begun("fence") is not None else ""
    return f"{run.ends} is {run.state}, last step {step}; {fenced}the same command goes on there, --abort undoes it"


def _where(clusters: Clusters, source: str) -> str:
    """What the journal says after a failure, as far as it can be read."""
    try:
        return _stands(clusters.journal.read())
    except TwinlogError:
        return f"the journal cannot be read now; whether producers are fenced on {source} is in it: --status"


class _Lines:
    """Shows steps as they go, on a terminal in place."""

    def __init__(self) -> None:
        self._begun = SYSTEM.monotonic()
        self._last: tuple[str, float] = "", 0.0
        self._tty = sys.stderr.isatty()
        self._width = 0

    def __call__(self, step: str, words: str) -> None:
        now = SYSTEM.monotonic()
        same = step == self._last[0]
        if same and not self._tty and now - self._last[1] < LINE_EVERY_S:
            return
        self._last = step, now
        line = f"{now - self._begun:7.1f} s  {step:9} {words}"
        if not self._tty:
            typer.echo(line, err=True)
            return
        end = "\r" if same else "\n"
        typer.echo(f"{end}{line.ljust(self._width)}", err=True, nl=False)
        self._width = len(line)


def _print(entries: Entries, path: Path | None, as_json: bool) -> None:
    from twinlog.switchover.report import markdown, report  # noqa: PLC0415

    data = report(entries)
    as_text = json.dumps(data, indent=2, ensure_ascii=False)
    if path is not None:
        path.with_name(path.name + ".json").write_text(as_text + "\n", encoding="utf-8")
        path.with_name(path.name + ".md").write_text(markdown(data), encoding="utf-8")
    if sys.stderr.isatty():
        typer.echo("", err=True)
    typer.echo(as_text if as_json else markdown(data))


def _rehearse(clusters: Clusters, options: Options, as_json: bool) -> int:
    from twinlog.switchover import rehearsal  # noqa: PLC0415

    survey, steps = rehearsal.rehearse(clusters, options)
    if as_json:
        typer.echo(json.dumps(rehearsal.as_json(clusters, survey, steps), indent=2, ensure_ascii=False))
        return EXIT_NOT_READY if survey.problems else 0
    for problem in survey.problems:
        typer.echo(f"problem: {problem}", err=True)
    for note in survey.notes:
        typer.echo(f"note: {note}")
    if survey.problems:
        return EXIT_NOT_READY
    for one in steps:
        seconds = "unknown" if one.seconds is None else f"{one.seconds:.1f} s"
        typer.echo(f"{one.step:9} {seconds:>8}  {one.words}")
        for call in one.calls:
            typer.echo(f"{'':20}{call}")
    total = rehearsal.unavailable_s(steps)
    typer.echo(f"producers would wait {'for an unknown time' if total is None else f'about {total:.0f} s'}")
    typer.echo("nothing was changed")
    return 0
