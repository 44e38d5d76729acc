"""The texts of a switchover: its steps during the run, its report, and its rehearsal."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.ops.switchover import rehearsal
from twinlog.ops.switchover.clusters import LiveClusters
from twinlog.ops.switchover.entries import JournalEntries
from twinlog.ops.switchover.machine import ENDED
from twinlog.ops.switchover.model import SwitchoverOptions, SwitchoverState
from twinlog.ops.switchover.report import markdown, report
from twinlog.ops.switchover.steps.steps import ORDER

EXIT_NOT_READY = 3
LINE_EVERY_S = 2.0
SAME_EVERY_S = 30.0
"""How often the same words are printed again, on an output that keeps its lines."""


def stands(entries: JournalEntries) -> str:
    """How far it is, in a line."""
    run = entries.run
    if run is None:
        return "nothing was changed"
    if run.state in ENDED:
        return f"the last switchover {run.ends} is {run.state}; nothing is under way"
    step = entries.last_begun(ORDER[run.options.kind]) or "none"
    where = f"{run.ends} is {run.state}, last step {step}"
    if entries.done("open") is not None:
        return f"{where}; producers may write to {run.ends.target}, so it is not undone; the same command completes it"
    fenced = "producers are fenced; " if entries.begun("fence") is not None else ""
    if run.state is SwitchoverState.ABORTING:
        return f"{where}; {fenced}--abort goes on undoing it"
    return f"{where}; {fenced}the same command goes on there, --abort undoes it"


class StepLines:
    """Shows steps during the run, on a terminal in place."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._begun = clock.monotonic()
        self._last: tuple[str, str, float] = "", "", LONG_AGO
        self._tty = sys.stderr.isatty()
        self._width = 0

    def __call__(self, step: str, words: str) -> None:
        now = self._clock.monotonic()
        same = step == self._last[0]
        pause_s = SAME_EVERY_S if words == self._last[1] else LINE_EVERY_S
        if same and not self._tty and now - self._last[2] < pause_s:
            return
        self._last = step, words, now
        line = f"{now - self._begun:7.1f} s  {step:9} {words}"
        if not self._tty:
            typer.echo(line, err=True)
            return
        end = "\r" if same else "\n"
        typer.echo(f"{end}{line.ljust(self._width)}", err=True, nl=False)
        self._width = len(line)


def print_report(entries: JournalEntries, path: Path | None, as_json: bool) -> None:
    """Print the report, and write it to PATH.md and PATH.json if a path is given."""
    data = report(entries)
    as_text = json.dumps(data, indent=2, ensure_ascii=False)
    if sys.stderr.isatty():
        typer.echo("", err=True)
    # The report is printed first, so that it is seen even if the disk is full.
    typer.echo(as_text if as_json else markdown(data))
    if path is not None:
        path.with_name(path.name + ".json").write_text(as_text + "\n", encoding="utf-8")
        path.with_name(path.name + ".md").write_text(markdown(data), encoding="utf-8")


def print_rehearsal(clusters: LiveClusters, options: SwitchoverOptions, as_json: bool) -> int:
    """Rehearse, and print every call and how long it would take; returns the code of the command."""
    preflight, steps = rehearsal.rehearse(clusters, options)
    if as_json:
        typer.echo(json.dumps(rehearsal.as_json(clusters, preflight, steps), indent=2, ensure_ascii=False))
        return EXIT_NOT_READY if preflight.problems else 0
    for problem in preflight.problems:
        typer.echo(f"problem: {problem}", err=True)
    for note in preflight.notes:
        typer.echo(f"note: {note}")
    if preflight.problems:
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
