"""`twinlog check` prints problems and warnings apart from its answer, and ends with 1 when something is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from twinlog.cli.check import check

BASE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1,c:1\na->b.enabled = true\n"


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(check)
    return app


def write(folder: Path, text: str) -> str:
    file = folder / "mm2.properties"
    file.write_text(text, "utf-8")
    return str(file)


def test_a_good_file(app: typer.Typer, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [write(tmp_path, BASE + "a->b.topics = x.*, y # some\n")])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "flow a->b",
        "  from       a:1",
        "  to         b:1, c:1",
        "  topics     x.*, y; they become a.<topic>",
        "  except     mm2.*\\.internal, .*\\.replica, __.*",
        "  new topics looked for every 5 s",
        "  tasks      at most 1",
        "  positions  in mm2-offsets.a.internal on b",
        "  on a gap   stop; on a record too large: stop",
        "not enabled, heartbeats only",
        "  b->a",
    ]
    assert result.stderr.startswith("warning: ")
    assert len(result.stderr.splitlines()) == 1


def test_every_problem_is_printed(app: typer.Typer, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [write(tmp_path, BASE + "tasks.max = 0\na->b.enable = true\n")])
    assert result.exit_code == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 2
    assert "mm2.properties:5: tasks.max: '0'" in lines[0]
    assert "did you mean a->b.enabled?" in lines[1]


def test_explain(app: typer.Typer, tmp_path: Path) -> None:
    file = write(tmp_path, BASE + "tasks.max = 3\n")
    result = CliRunner().invoke(app, [file, "--explain", "tasks.max"])
    assert (result.exit_code, result.stdout) == (0, f"a->b: tasks.max = 3  ({file}:5, written as tasks.max)\n")
    assert CliRunner().invoke(app, [file, "--explain", "task.max"]).exit_code == 1


def test_clusters(app: typer.Typer, tmp_path: Path) -> None:
    file = write(tmp_path, BASE)
    assert CliRunner().invoke(app, [file, "--clusters", "b"]).exit_code == 0
    assert "--clusters: 'c'" in CliRunner().invoke(app, [file, "--clusters", "c"]).stderr
