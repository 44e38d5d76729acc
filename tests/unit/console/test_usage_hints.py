"""The right form that the error of a wrong command line names."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from twinlog.cli.main import app


def error(*words: str) -> str:
    """The error of a command line, in a single line."""
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2, done.output
    return " ".join(done.stderr.partition("Error: ")[2].split())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mm2.properties").write_text("clusters = east, west\n")
    (tmp_path / "worker.properties").write_text("bootstrap.servers = w:1\ngroup.id = g\nkey.converter = c\n")
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "right"),
    [
        ("mm2.properties --clusters west", "run mm2.properties --clusters west"),
        ("mm2.properties status -v", "status mm2.properties -v"),
        ("worker.properties source.json", "connect worker.properties source.json"),
        ("missing.yaml", "run missing.yaml"),
        ("run --config mm2.properties", "run mm2.properties"),
        ("run --file=mm2.properties -v", "run mm2.properties -v"),
        ("run --file", "run FILE"),
        ("status -f mm2.properties", "status mm2.properties"),
        ("topics pause orders mm2.properties", "topics pause mm2.properties orders"),
        ("topics pause orders.* --flow a:b mm2.properties", "topics pause mm2.properties 'orders.*' --flow a:b"),
        ("groups mm2.properties -g shop", "groups mm2.properties --group shop"),
        ("run mm2.properties --dry-run", "plan mm2.properties"),
        ("run --dry-run mm2.properties --conf spark.x=1", "plan mm2.properties"),
    ],
)
def test_the_error_names_the_right_form(words: str, right: str) -> None:
    text = error(*words.split())
    assert text.startswith("TW-USE-01: ")
    assert text.endswith(f"; did you mean: twinlog {right}")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("chekc mm2.properties", "No such command 'chekc'. Did you mean 'check'?"),
        ("status mm2.properties -f east:west", "No such option: -f"),
        ("check mm2.properties -g shop", "No such option: -g"),
        (
            "topics pause mm2.properties",
            "Invalid value for TOPIC: missing; choose topics by --topic, or as words behind FILE",
        ),
    ],
)
def test_other_errors_stay(words: str, text: str) -> None:
    assert error(*words.split()) == f"TW-USE-01: {text}"


def test_a_missing_file_before_a_topic_is_named_as_before(folder: Path) -> None:
    assert (
        "orders: error: No such file or directory" in CliRunner().invoke(app, ["topics", "pause", "orders", "x"]).stderr
    )
