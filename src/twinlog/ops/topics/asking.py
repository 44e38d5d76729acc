"""Submits a command for topics: shows its cost, asks for a confirmation, writes the command, and waits for its
outcome."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from twinlog.clock import SYSTEM
from twinlog.console.command_log import print_error, print_note, print_warning_line, waits_reported
from twinlog.console.data_format import DataFormat, shown_data
from twinlog.console.exit_codes import FINE, FOUND, UNREACHABLE, code_of, failure_text
from twinlog.console.flow_files import FlowsOfFile
from twinlog.errors import OptionError, TwinlogError
from twinlog.errors.message_ids import told
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control.model import CommandOutcome, CommandState, LogPlace, TopicCommand, TopicVerb

if TYPE_CHECKING:
    from twinlog.ops.topics.reader import TopicsReader

_NOTHING = {TopicVerb.PAUSE: "these topics are paused already", TopicVerb.RESUME: "none of these topics is paused"}

LOOK_S = 5.0
"""How often it is looked whether a process runs the flow."""


@dataclass(frozen=True, slots=True)
class TopicCommandOptions:
    """A verb for the topics that `words` name, with its options; with `sure` the command skips the confirmation."""

    verb: TopicVerb
    words: Sequence[str]
    partitions: Sequence[int]
    place: LogPlace | None
    id: str | None
    sure: bool
    dry_run: bool
    timeout_s: float
    output: DataFormat


def ask(flow: tuple[FlowSettings, FlowsOfFile], asking: TopicCommandOptions) -> None:
    """Ask it of the process that runs the flow, and end with a code that is 0 once it is done."""
    from twinlog.ops.topics.reader import TopicsReader  # noqa: PLC0415 - Kafka's library is slow to import for --help

    settings, known = flow
    try:
        with TopicsReader(settings, known.worker) as reader, waits_reported([reader]):
            code = _ask(reader, settings, asking)
    except OptionError as error:
        raise typer.BadParameter(told(error)) from None
    except TwinlogError as error:
        print_error(failure_text(error))
        code = code_of(error)
    raise typer.Exit(code)


def _ask(reader: TopicsReader, settings: FlowSettings, asking: TopicCommandOptions) -> int:
    from twinlog.ops.topics.reader import this_process  # noqa: PLC0415
    from twinlog.ops.topics.text import outcome_json, outcome_lines  # noqa: PLC0415

    asked = reader.read_asked()
    unchecked = None if asking.verb.moves or asking.dry_run else _note_unchecked
    meant = reader.selectors(asking.words, asking.partitions, unchecked=unchecked)
    command = TopicCommand(asking.id or uuid.uuid4().hex[:12], asking.verb, meant, asking.place, by=this_process())
    new = asked.outcome(command.id) is None
    done = new and reader.is_redundant(command, asked)
    if new and (asking.dry_run or not asking.sure or asking.verb.moves or done):
        code = _show(reader, settings, command, asking, done=done)
        if code is not None:
            return code
    outcome = reader.submit_command(command)
    if outcome.result.over or reader.read_state().runs:
        outcome = reader.wait(outcome, asking.timeout_s, _runs(reader))
    seen = None if outcome.result.over else reader.read_state()
    if seen is not None and not seen.runs:
        print_note(f"no process runs {settings.name} now: {seen.state.word}; the next process carries it out")
    if asking.output is not DataFormat.TABLE:
        typer.echo(shown_data({"flow": settings.name, **outcome_json(outcome)}, asking.output))
    else:
        typer.echo("\n".join(outcome_lines(settings.name, outcome)))
    return _code(reader, outcome)


def _note_unchecked(why: str) -> None:
    print_warning_line(f"TW-COMMAND-13: the source is silent, so the topics are unchecked: {why}")


def _show(
    reader: TopicsReader, settings: FlowSettings, command: TopicCommand, asking: TopicCommandOptions, *, done: bool
) -> int | None:
    """Print what a command costs, and have it confirmed; returns the exit code where the command ends here. `done`
    tells that a `pause` or `resume` is redundant."""
    from twinlog.ops.topics.text import command_json, move_lines, moves_json  # noqa: PLC0415

    moves = reader.preview(command)
    changes = any(move.changes for move in moves) if command.verb.moves else not done
    for_people = asking.output is DataFormat.TABLE
    if not for_people and (asking.dry_run or not changes):
        shown = {"flow": settings.name, **command_json(command), "dry_run": True, "partitions": moves_json(moves)}
        typer.echo(shown_data(shown, asking.output))
    elif for_people:
        typer.echo("\n".join([f"{settings.name}: {command}", *move_lines(command.verb, moves, done=False)]))
    if asking.dry_run:
        return FINE if changes or any(move.repeats for move in moves) else FOUND
    if any(move.repeats for move in moves) and not changes:
        return FINE
    if not changes:
        print_error(f"TW-USE-04: {_NOTHING.get(command.verb, 'nothing changes')}, so the command was dropped")
        return FOUND
    if asking.sure:
        return None
    try:
        agreed = typer.confirm("Do it?", err=not for_people)
    except typer.Abort:
        typer.echo("", err=True)
        raise typer.BadParameter("the input is closed; give --yes to skip the question") from None
    if agreed:
        return None
    print_note("the command was dropped")
    return FOUND


def _runs(reader: TopicsReader) -> Callable[[], bool]:
    """Whether a process still runs the flow, looked up now and then."""
    runs, look_at = True, SYSTEM.monotonic() + LOOK_S

    def look() -> bool:
        nonlocal runs, look_at
        if SYSTEM.monotonic() >= look_at:
            runs, look_at = reader.read_state().runs, SYSTEM.monotonic() + LOOK_S
        return runs

    return look


def _code(reader: TopicsReader, outcome: CommandOutcome) -> int:
    if outcome.result is CommandState.APPLIED:
        return FOUND if outcome.reason else FINE
    if outcome.result is CommandState.REFUSED:
        return FOUND
    if not reader.read_state().runs:
        return FINE
    topic = reader.control_topic
    print_error(
        "TW-COMMAND-14: the command is written, and still waits for the process that runs the flow. `twinlog topics "
        f"FILE` shows whether it is done; the process needs READ and WRITE on topic {topic}"
    )
    return UNREACHABLE
