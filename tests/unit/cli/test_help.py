"""Every command renders its help: only then names inside `Annotated[...]` are resolved, and no type checker does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main
from typer.testing import CliRunner

from twinlog.cli.main import app


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*words, name))


def test_every_command_renders_its_help_with_every_option() -> None:
    found = dict(commands(typer.main.get_command(app)))
    assert {(), ("run",), ("topics", "pause"), ("connectors", "create")} <= found.keys()
    for words, command in found.items():
        result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "400"})
        assert result.exit_code == 0, (words, result.output, result.exception)
        assert " ".join(("Usage: twinlog", *words)) in result.output
        options = [option for shown in command.params if not getattr(shown, "hidden", False) for option in shown.opts]
        assert [option for option in options if option.startswith("--") and option not in result.output] == [], words
