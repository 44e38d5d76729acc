"""The check of the documents finds what it is there to find."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import typer.main

from scripts.check_docs import problems


@pytest.fixture
def cli() -> Any:
    app = typer.Typer()
    offsets = typer.Typer()

    @app.command()
    def run(path: Path, clusters: str = "", quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False) -> None: ...

    @offsets.command("list")
    def listing(path: Path) -> None: ...

    app.add_typer(offsets, name="offsets")
    return typer.main.get_command(app)


def found(root: Path, cli: Any, readme: str) -> list[str]:
    (root / "README.md").write_text(readme, encoding="utf-8")
    (root / "Makefile").write_text("test: check\n\ncheck:\n\ttrue\n", encoding="utf-8")
    source = root / "src" / "twinlog" / "read"
    source.mkdir(parents=True, exist_ok=True)
    (source / "batches.py").write_text("LIMIT = 1\n\ndef scan(): ...\n\nclass Batch:\n    def end(self): ...\n")
    return list(problems(root, cli))


@pytest.mark.parametrize(
    "command",
    [
        "twinlog run mm2.properties --clusters b -q",
        "twinlog run mm2.properties --clusters=b | tail -n 1",
        "A=1 .venv/bin/twinlog offsets list x.properties && make test ARGS=-x",
        "twinlog run \\\n    mm2.properties",
        "twinlog --help",
        "echo twinlog walk",
    ],
)
def test_commands_that_exist_are_accepted(tmp_path: Path, cli: Any, command: str) -> None:
    assert found(tmp_path, cli, f"```console\n$ {command}\nsome output of twinlog walk\n```\n") == []
    assert found(tmp_path, cli, f"```bash\n{command}\n```\n") == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("twinlog walk mm2.properties", "twinlog has no command walk"),
        ("twinlog offsets show", "twinlog offsets has no command show"),
        ("twinlog run mm2.properties --loud", "twinlog run has no option --loud"),
        ("cat x | twinlog run - --fast", "twinlog run has no option --fast"),
        ("make check && make coffee", "make has no target coffee"),
    ],
)
def test_commands_that_do_not_exist_are_reported(tmp_path: Path, cli: Any, command: str, expected: str) -> None:
    (problem,) = found(tmp_path, cli, f"# Title\n\n```console\n$ {command}\n```\n")
    assert problem.startswith("README.md: ")
    assert problem.endswith(expected)


@pytest.mark.parametrize(
    "name",
    ["read/batches.py", "read/batches.py:scan", "src/twinlog/read/batches.py:Batch.end", "read/batches.py:LIMIT"],
)
def test_names_that_exist_are_accepted(tmp_path: Path, cli: Any, name: str) -> None:
    assert found(tmp_path, cli, f"See `{name}` and [it](src/twinlog/read/batches.py#L1), [web](https://x.test/).") == []


@pytest.mark.parametrize("name", ["read/batch.py", "read/batches.py:scam", "read/batches.py:Batch.start"])
def test_names_that_do_not_exist_are_reported(tmp_path: Path, cli: Any, name: str) -> None:
    assert len(found(tmp_path, cli, f"See `{name}`.")) == 1


def test_links_to_nowhere_are_reported(tmp_path: Path, cli: Any) -> None:
    assert found(tmp_path, cli, "See [that](docs/that.md).") == [
        "README.md: links to docs/that.md, which does not exist"
    ]
