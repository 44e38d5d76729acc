"""A start imports only the modules of its subcommand; and the help of each subcommand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from typer.main import get_command
from typer.testing import CliRunner

from twinlog.cli.main import app

SLOW = ["cryptography", "numpy", "pyarrow", "pyspark", "rich", "ruamel", "starlette", "twinlog.cli.connectors"]
PROGRAM = f"""
import sys
from twinlog.cli.main import app
app(["check", sys.argv[1]], standalone_mode=False)
print("imported", *sorted(set({SLOW}) & sys.modules.keys()))
"""


def test_a_plain_file_is_checked_without_what_is_slow_to_import(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported"


def test_each_subcommand_has_the_name_that_it_is_listed_by() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert {name: command.name for name, command in commands.items()} == {name: name for name in commands}
    assert "run" in commands
    assert "walk" not in commands


def test_a_misspelt_subcommand_is_answered_with_the_right_one() -> None:
    found = CliRunner().invoke(app, ["chekc"])
    assert (found.exit_code, "'check'" in found.output) == (2, True)


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
        assert f"Usage:\n  {' '.join(('twinlog', *words))} " in result.output
        options = [option for shown in command.params if not getattr(shown, "hidden", False) for option in shown.opts]
        assert [option for option in options if option.startswith("--") and option not in result.output] == [], words
