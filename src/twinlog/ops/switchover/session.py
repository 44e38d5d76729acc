"""Runs `twinlog switchover` and `switchback`: checks the owner of a switchover, prints its steps and its report, and
returns the exit code.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.console import signals
from twinlog.console.command_log import end_process, print_error, print_note, print_warning_line
from twinlog.console.data_format import DataFormat, shown_data
from twinlog.console.exit_codes import FOUND, code_of
from twinlog.console.log_options import chosen_log, shows_progress
from twinlog.errors import FencedError, RefusedError, TwinlogError
from twinlog.errors.message_ids import ID, id_first, id_of, told, with_id
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.mirror.topics.journal_keys import StepPhase, SwitchoverState
from twinlog.model.types import Alias
from twinlog.ops.switchover.clusters import LiveClusters
from twinlog.ops.switchover.journal import JournalEntries, JournalEntry, SwitchoverRun, TopicJournal
from twinlog.ops.switchover.lasting_fences import find_unknown_fences
from twinlog.ops.switchover.login_acls import GRANTED_BY
from twinlog.ops.switchover.machine import SwitchoverMachine
from twinlog.ops.switchover.model import (
    Data,
    FenceMethod,
    NotReadyError,
    SwitchoverDirection,
    SwitchoverKind,
    SwitchoverOptions,
    TooLongError,
    UnderWayError,
)
from twinlog.ops.switchover.owner import require_silent, this_process
from twinlog.ops.switchover.rehearsal import opens_target, rehearsal_json, rehearse, unavailable_s
from twinlog.ops.switchover.report import proved_flows, report
from twinlog.ops.switchover.report_text import markdown
from twinlog.ops.switchover.stage import read_with_its_end, stands, stands_before, unchanged
from twinlog.ops.switchover.steps.step import Show, SwitchoverClusters
from twinlog.settings.flow import FlowSettings

if TYPE_CHECKING:
    from twinlog.ops.verify.signing import SigningKey

LINE_EVERY_S = 2.0
SAME_EVERY_S = 30.0
"""How often the same words are printed again, on an output that keeps its lines."""


def way_to_right(text: str) -> str:
    """The text of an error; the command that prints a missing right is added."""
    lacks = "TW-RIGHT-02" in text and " lacks " in text
    return f"{text}; {GRANTED_BY}" if lacks and GRANTED_BY not in text else text


class StepLines:
    """Shows steps during the run, on a terminal in place.

    Words with a message id are a warning, which -q keeps; all other words are progress.
    """

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._begun = clock.monotonic()
        self._last: tuple[str, str, float] = "", "", LONG_AGO
        self._tty = sys.stderr.isatty()
        self._width = 0

    def __call__(self, step: str, words: str) -> None:
        warns = ID.search(words) is not None
        if chosen_log().quiet and not warns:
            return
        in_place = self._tty and shows_progress()
        now = self._clock.monotonic()
        same = step == self._last[0]
        pause_s = SAME_EVERY_S if words == self._last[1] else LINE_EVERY_S
        if same and not in_place and now - self._last[2] < pause_s:
            return
        self._last = step, words, now
        line = f"{now - self._begun:7.1f} s  {step:9} {words}"
        if not in_place:
            if warns:
                print_warning_line(id_first(line.strip()))
            else:
                print_note(line)
            return
        end = "\r" if same else "\n"
        typer.echo(f"{end}{line.ljust(self._width)}", err=True, nl=False)
        self._width = len(line)


def print_report(entries: JournalEntries, path: Path | None, output: DataFormat, key: SigningKey | None = None) -> None:
    """Print the report, and write it to PATH.md and PATH.json if a path is given; with a key also its statement, to
    PATH.statement.json."""
    data = report(entries)
    flows = proved_flows(entries)
    files: dict[Path, bytes] = {}
    if path is not None and key is not None and flows:
        files = _statement_files(path, flows, key)
        data["statement"] = {"files": [file.name for file in files], "key": key.public.fingerprint}
    if sys.stderr.isatty() and shows_progress():
        typer.echo("", err=True)
    # The report is printed first, so that it is seen even if the disk is full.
    closed: BrokenPipeError | None = None
    try:
        typer.echo(markdown(data) if output is DataFormat.TABLE else shown_data(data, output))
    except BrokenPipeError as error:
        closed = error
    if path is not None:
        _write_report(data, path)
    for file, content in files.items():
        file.write_bytes(content)
    if closed is not None:
        raise closed


def _write_report(data: Data, path: Path) -> None:
    as_text = json.dumps(data, indent=2, ensure_ascii=False)
    path.with_name(path.name + ".json").write_text(as_text + "\n", encoding="utf-8")
    path.with_name(path.name + ".md").write_text(markdown(data), encoding="utf-8")


def write_unfinished(
    entries: JournalEntries, begun: SwitchoverRun, lines: Sequence[str], path: Path, *, refused: bool = False
) -> None:
    """Write the report of a command that ended early, with the reasons `lines`, to PATH.md and PATH.json.

    After a refused pre-flight the journal lacks the switchover: `begun` then has the clusters and the options.
    """
    if refused:
        # The journal may have the ended switchover before it.
        problems = JournalEntry(begun.began_ms, {"problems": list(lines)})
        data = report(JournalEntries(begun, {("check", StepPhase.BEGUN): problems}))
    elif entries.run is None:
        again = "nothing was changed: mend that, and run the same command again"
        data = {**report(JournalEntries(begun)), "run": None, "state": "not begun"}
        data |= {"failed": list(lines), "next": [*lines, again]}
    else:
        data = report(entries)
        data |= {"failed": [*lines, *data["failed"]], "next": [*lines, *data["next"]]}
    try:
        _write_report(data, path)
    except OSError as error:
        print_error(told(error, "TW-SWITCH-13"))


def print_failed_parts(entries: JournalEntries) -> int:
    """Print the parts of a finished switchover that failed, as errors; returns the code of the command."""
    failed = report(entries).get("failed", [])
    for line in failed:
        print_error(with_id(line, "TW-SWITCH-20"))
    return FOUND if failed else 0


def print_unknown_fences(clusters: SwitchoverClusters, entries: JournalEntries) -> bool:
    """Print the fences of the source that no switchover of the journal has, as errors; whether there are any."""
    if entries.run is not None and entries.run.state is not SwitchoverState.ABORTED:
        return False
    lines = find_unknown_fences(clusters).lines
    if clusters.read_earlier_journal().fenced:
        source = clusters.ends.source
        lines = [f"{source} is fenced by a switchover whose journal is lost: --release lifts that fence"]
    for line in lines:
        print_error(with_id(line, "TW-SWITCH-21"))
    return bool(lines)


def _statement_files(path: Path, flows: Sequence[Data], key: SigningKey) -> dict[Path, bytes]:
    from twinlog.ops.verify.statement import MOVED, compose, signed_files  # noqa: PLC0415

    content = compose(MOVED, flows[0]["result"], flows, key, SYSTEM.wall())
    return signed_files(path.with_name(f"{path.name}.statement.json"), content, key)


def print_rehearsal(clusters: LiveClusters, options: SwitchoverOptions, output: DataFormat) -> int:
    """Rehearse, and print every call and how long it would take; returns the code of the command.

    A switchover that was interrupted is printed first: the same command continues it in place of a begin.
    """
    # A switchover needs its journal to begin.
    entries = read_with_its_end(clusters, clusters.journal)
    preflight, steps = rehearse(clusters, options, entries)
    state = stands_before(clusters, entries, options.kind)
    code = FOUND if preflight.problems or any(one.obstacle for one in steps) else 0
    if output is not DataFormat.TABLE:
        typer.echo(shown_data(rehearsal_json(clusters, preflight, steps, state), output))
        return code
    if entries.run is not None:
        typer.echo(state)
    for problem in preflight.problems:
        print_error(with_id(problem, NotReadyError.kind_id))
    for note in preflight.notes:
        typer.echo(f"note: {note.text}")
    if preflight.problems:
        return code
    for one in steps:
        seconds = "unknown" if one.seconds is None else f"{one.seconds:.1f} s"
        typer.echo(f"{one.step:9} {seconds:>8}  {one.words}")
        for call in one.calls:
            typer.echo(f"{'':20}{call}")
        if one.obstacle:
            print_error(with_id(one.obstacle, "TW-SWITCH-20"))
    if opens_target(steps):
        total = unavailable_s(steps)
        typer.echo(f"producers would wait {'for an unknown time' if total is None else f'about {total:.0f} s'}")
    typer.echo("nothing was changed")
    return code


def claim_machine(clusters: LiveClusters, show: Show, *, take_over: bool, clock: Clock = SYSTEM) -> SwitchoverMachine:
    """The machine of this process, which is the single writer of the journal from now on.

    Raises UnderWayError while another process works, except with `take_over`; RefusedError and ClusterError.
    """
    journal = clusters.journal
    if not take_over:
        require_silent(journal, show, clock=clock)
    journal.claim_journal()
    return SwitchoverMachine(clusters, journal, this_process(), show)


def carry_out(machine: SwitchoverMachine, mode: str, options: SwitchoverOptions) -> JournalEntries:
    """Run, abort or release, by the word `mode`; returns the journal.

    Raises the errors of the machine; after an error another process may continue at once.
    """
    try:
        if mode == "abort":
            return machine.abort()
        return machine.release_fence() if mode == "release" else machine.run(options)
    except TwinlogError:
        machine.leave_switchover()
        raise


@dataclass(frozen=True, slots=True)
class SwitchoverArguments:
    """The arguments of the command line. `mode` is run, rehearse, abort, release or status."""

    mode: str
    kind: str
    fence: str | None
    near: int | None
    at_most_s: float | None
    take_over: bool
    wave: str
    report: Path | None
    output: DataFormat
    key: SigningKey | None = None

    @property
    def options(self) -> SwitchoverOptions:
        """The options of the switchover."""
        given = {name: one for name, one in (("near", self.near), ("at_most_s", self.at_most_s)) if one is not None}
        fence = None if self.fence is None else FenceMethod(self.fence)
        options = SwitchoverOptions(SwitchoverKind(self.kind), fence, chosen=frozenset(given))
        return replace(
            options, near=int(given.get("near", options.near)), at_most_s=given.get("at_most_s", options.at_most_s)
        )


def conduct(
    asked: SwitchoverArguments,
    flow: FlowSettings,
    follows: FlowSettings,
    back: FlowSettings,
    aliases: Collection[Alias],
) -> None:
    """Do it, and end the process with the command's code."""
    source = str(flow.source)
    clusters = LiveClusters(flow, back, aliases, asked.wave, follows=follows)
    lines: Sequence[str] = ()
    refused = False
    try:
        code = _act(clusters, asked)
    except NotReadyError as error:
        for problem in error.problems:
            print_error(with_id(problem, error.kind_id))
        entries = clusters.journal.entries
        # Later steps find obstacles, too, that the pre-flight is unable to see.
        refused = unchanged(entries)
        print_note("nothing was changed" if refused else stands(entries))
        lines, code = error.problems, FOUND
    except TooLongError as error:
        undone = f"everything was undone, producers may write to {source}; mend that, and run the same command again"
        print_error(with_id(f"{error}; {undone}", error.kind_id))
        lines, code = (f"{error}; {undone}",), FOUND
    except UnderWayError as error:
        print_error(told(error))
        lines, code = (str(error),), FOUND
    except FencedError as error:
        print_error(with_id(str(error), id_of(error, "TW-SWITCH-08")))
        lines, code = (str(error),), FOUND
    except BrokenPipeError:
        # The reader of the output has ended, as after `head`: as with each command, that is no trouble.
        raise
    except (TwinlogError, OSError) as error:
        print_error(with_id(way_to_right(told(error, "TW-SWITCH-13")), "TW-SWITCH-13"))
        if asked.mode == "release" and isinstance(error, RefusedError):
            # Rights may have been withdrawn while the fence was up.
            with suppress(TwinlogError):
                print_unknown_fences(clusters, JournalEntries())
        if asked.mode in {"run", "abort"}:
            report_state(clusters.journal, clusters.ends)
        lines, code = (str(error),), code_of(error) if isinstance(error, TwinlogError) else FOUND
    except Exception as error:
        print_error(f"TW-FAULT-06: internal error: {error!r}")
        report_state(clusters.journal, clusters.ends)
        logging.getLogger("twinlog").debug("it ends here:", exc_info=error)
        lines, code = (f"internal error: {error!r}",), FOUND
    _report_end(clusters, asked, lines, refused=refused)
    end_process(code)


def _report_end(
    clusters: LiveClusters, asked: SwitchoverArguments, lines: Sequence[str], *, refused: bool = False
) -> None:
    if lines and asked.report is not None and asked.mode not in {"rehearse", "status"}:
        begun = SwitchoverRun("", clusters.ends, asked.options, SwitchoverState.ABORTED, clusters.now_ms())
        write_unfinished(clusters.journal.entries, begun, lines, asked.report, refused=refused)


def _act(clusters: LiveClusters, asked: SwitchoverArguments) -> int:
    options = asked.options
    # Its clock counts the wait for a silent cluster, too.
    show = StepLines()
    lost = options.kind is SwitchoverKind.EMERGENCY
    if lost and asked.mode in {"run", "rehearse"}:
        show("connect", f"wait for an answer of {clusters.ends.source}, at most {COMMAND_CONNECT_S:.0f} s")
    clusters.connect(COMMAND_CONNECT_S, source_lost=lost)
    journal = clusters.journal
    if asked.mode == "rehearse":
        return print_rehearsal(clusters, options, asked.output)
    if asked.mode == "status":
        entries = read_with_its_end(clusters, journal)
        print_report(entries, asked.report, asked.output)
        stays = print_unknown_fences(clusters, entries)
        return FOUND if stays or entries.run is None else 0
    machine = claim_machine(clusters, show, take_over=asked.take_over)
    signals.call(lambda number: _interrupted(number, clusters, asked))
    entries = carry_out(machine, asked.mode, options)
    print_report(entries, asked.report, asked.output, asked.key)
    return print_failed_parts(entries) if asked.mode in {"run", "release"} else 0


def _interrupted(number: signal.Signals, clusters: LiveClusters, asked: SwitchoverArguments) -> None:
    """The next process can continue at every point, so this process just ends, and prints its last step."""
    why = f"ended by {number.name}: {stands(clusters.journal.entries)}"
    print_error(f"TW-USE-03: {why}")
    _report_end(clusters, asked, (why,))
    end_process(signals.exit_code())


def report_state(journal: TopicJournal, ends: SwitchoverDirection) -> None:
    """Print how far the switchover is after an error; of a silent journal, the last known state and the way out."""
    try:
        print_note(stands(journal.read()))
        return
    except TwinlogError:
        keeper = f"cluster {ends.target}, which keeps the journal of switchover {ends}"
    again = f"once {ends.target} answers, the same command with --status prints the state"
    if journal.was_read:
        print_error(f"TW-SWITCH-16: {keeper}, is silent now; as last read: {stands(journal.entries)}; {again}")
        return
    print_error(
        f"TW-SWITCH-16: {keeper}, gave no answer, and no journal is known: this command ran no step, and an earlier "
        f"switchover may have fenced producers on {ends.source}; start {ends.target}, or correct "
        f"{ends.target}.bootstrap.servers; {again}"
    )
