"""`twinlog translate` refuses what cannot be meant, before it contacts a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from twinlog.cli.main import app

FLOWS = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"


def ask(folder: Path, *options: str, text: str = FLOWS) -> tuple[int, str]:
    file = folder / "mm2.properties"
    file.write_text(text, "utf-8")
    done = CliRunner().invoke(app, ["translate", str(file), *options])
    return done.exit_code, " ".join(done.output.replace("│", "").split())


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--topic", "t"),
        ("--topic", "t", "--offset", "3"),
        ("--group", "g", "--topic", "t"),
        ("--group", "g", "--offset", "3"),
        ("--topic", "t", "--partition", "-1", "--offset", "3"),
    ],
)
def test_options_without_anything_to_translate_are_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, printed = ask(tmp_path, *options)
    assert code == 2
    assert "--group" in printed or "--partition" in printed


def test_a_flow_that_is_not_in_the_file(tmp_path: Path) -> None:
    code, printed = ask(tmp_path, "--group", "g", "--flow", "b->c")
    assert (code, "there is no flow that copies b->c; the file has a->b" in printed) == (2, True)


def test_several_flows(tmp_path: Path) -> None:
    code, printed = ask(tmp_path, "--group", "g", text=FLOWS + "b->a.enabled = true\n")
    assert (code, "several flows copy, name one: a->b, b->a" in printed) == (2, True)


def test_a_wrong_file(tmp_path: Path) -> None:
    code, printed = ask(tmp_path, "--group", "g", text=FLOWS + "tasks.max = none\n")
    assert code == 2
    assert "problem: " in printed
    assert "tasks.max" in printed
