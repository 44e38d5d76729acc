"""The table of messages is compared with the strings of the code."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import typer.main

from scripts.check_messages import stale_pages, wrong_messages, wrong_options
from twinlog.ops.explain.message import Message
from twinlog.ops.explain.reference import write_pages

CODE = '''
"""A docstring: the log was eaten by a dog."""
def what(log, topic, group, why, jobs):
    """Another: the log was eaten by a cat."""
    log.warning("%s: removed %d director%s of runs", topic, 2, "ies")
    text = f" for {group}" if group else ""
    log.warning("%s: cannot %s, trying again: %s", topic, jobs["one"], why)
    raise ValueError(f"cluster {topic}: the login was "
                     f"refused{text}: {why}")
JOBS = {"one": "write checkpoints"}
'''


def found(root: Path, message: str) -> list[str]:
    module = root / "src" / "twinlog" / "read" / "reader.py"
    module.parent.mkdir(parents=True)
    module.write_text(CODE, encoding="utf-8")
    entry = Message("TW-TEST-01", "A test", "error", (f"`{message}`",), "x.", "x.", "x.")
    return list(wrong_messages(root, (entry,)))


@pytest.mark.parametrize(
    "message",
    [
        "removed N directories of runs",
        "cannot write checkpoints, trying again: ...",
        "cluster west: the login was refused for USER",
        "the login was refused",
    ],
)
def test_messages_of_the_code_are_accepted(tmp_path: Path, message: str) -> None:
    assert found(tmp_path, message) == []


@pytest.mark.parametrize(
    ("message", "piece"),
    [
        ("removed N folders of runs", "folders of runs"),
        ("cannot write heartbeats, trying again: ...", "cannot write heartbeats"),
        ("... the log was eaten by a cat", "the log was eaten by a cat"),
        ("the login was denied for USER", "the login was denied for"),
    ],
)
def test_messages_that_the_code_does_not_have_are_reported(tmp_path: Path, message: str, piece: str) -> None:
    (problem,) = found(tmp_path, message)
    assert f"`{piece}`" in problem


def test_pages_that_differ_from_the_table_are_reported(tmp_path: Path) -> None:
    (tmp_path / "docs" / "messages").mkdir(parents=True)
    write_pages(tmp_path / "docs")
    assert list(stale_pages(tmp_path)) == []
    (tmp_path / "docs" / "messages" / "held.md").write_text("by hand", encoding="utf-8")
    (tmp_path / "docs" / "messages" / "old.md").write_text("of an earlier table", encoding="utf-8")
    assert list(stale_pages(tmp_path)) == [
        "docs/messages/old.md: the table of messages has no such page: make reference",
        "docs/messages/held.md: differs from the table of messages: make reference",
    ]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (
            "to run twinlog beside it: twinlog canary FILE --topic TOPIC -o DIR",
            ["`twinlog canary write` has no option -o"],
        ),
        ("run twinlog canary {file} --topic TOPIC --output-dir DIR", []),
        ("twinlog connectors offsets reset NAME --yes; --rehearse is no part of it", []),
        ("see twinlog switchover FILE --from A --to B --rehearse", ["`twinlog switchover` has no option --rehearse"]),
        ("twinlog waits, and --never-mind the rest; twinlog connectors does, too", []),
    ],
)
def test_options_in_messages_are_those_of_the_help(tmp_path: Path, text: str, wrong: list[str]) -> None:
    module = tmp_path / "src" / "twinlog" / "read.py"
    module.parent.mkdir(parents=True)
    module.write_text(f"""def told(file):\n    return f"{text}"\n""", encoding="utf-8")
    cli = typer.main.get_command(importlib.import_module("twinlog.cli.main").app)
    assert list(wrong_options(tmp_path, cli)) == [f"src/twinlog/read.py: {line}" for line in wrong]
