"""The mistakes of a file as lines, as JSON, or as annotations of a GitHub workflow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum

import typer

from twinlog.console.command_log import print_mistake_lines, print_note
from twinlog.errors.mistakes import Mistake, counts


class MistakeOutput(StrEnum):
    """The form in which mistakes are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def print_mistakes(mistakes: Sequence[Mistake], output: MistakeOutput = MistakeOutput.TEXT) -> None:
    """Print the mistakes: lines on stderr, which end with the counts, or data on stdout."""
    if output is MistakeOutput.JSON:
        typer.echo(json.dumps([_fields(mistake) for mistake in mistakes], indent=2))
        return
    if output is MistakeOutput.GITHUB:
        for mistake in mistakes:
            typer.echo(_annotation(mistake))
        return
    print_mistake_lines(mistakes)
    print_note(counts(mistakes))


def _fields(mistake: Mistake) -> dict[str, str | int | None]:
    return {
        "file": mistake.file,
        "line": mistake.line,
        "key": mistake.key or None,
        "level": mistake.level,
        "id": mistake.id,
        "text": mistake.described,
        "expected": mistake.expected or None,
    }


def _annotation(mistake: Mistake) -> str:
    """A command of GitHub's workflows, with the escapes of its runner: `::error file=...,line=...::text`."""
    level = "notice" if mistake.level == "note" else mistake.level
    line = "" if mistake.line is None else f",line={mistake.line}"
    key = f"{mistake.key}: " if mistake.key else ""
    place = f"file={_property(mistake.file)}{line},title={_property(f'twinlog {mistake.id}')}"
    return f"::{level} {place}::{_data(key + mistake.sentence)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
