"""The check of the documents finds what it is there to find."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import typer.main

from scripts.check_docs import problems
from scripts.check_pages import wrong_pages


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


def test_links_out_of_the_site_are_reported(tmp_path: Path, cli: Any) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "page.md").write_text("[a](page.md) [b](../README.md)\n")
    assert found(tmp_path, cli, "[a](docs/page.md)\n") == [
        "docs/page.md: links to ../README.md, which the documentation site does not have; name it in backticks"
    ]


def test_links_to_headings_that_are_not_there_are_reported(tmp_path: Path, cli: Any) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "that.md").write_text(
        "# Topics, settings & `ACLs`\n```\n# no heading\n```\n", encoding="utf-8"
    )
    assert found(tmp_path, cli, "# Here\n[a](docs/that.md#topics-settings--acls) [b](#here)") == []
    assert found(tmp_path, cli, "[a](docs/that.md#no-heading) [b](#there)") == [
        "README.md: links to docs/that.md#no-heading, and there is no such heading",
        "README.md: links to #there, and there is no such heading",
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("| 1 | [Copy batches](0001-copy.md) | so | accepted |", None),
        ("| 1 | [Copy batches](0001-copy.md) | so | superseded by 2 |", None),
        ("| 1 | [Copy batches](0001-copy.md) | so | perhaps |", "has no row"),
        ("", "has no row"),
        ("| 1 | [Copy records](0001-copy.md) | so | accepted |", "its own title is `1. Copy batches`"),
        (
            "| 1 | [Copy batches](0001-copy.md) | so | accepted |\n| 2 | [B](0002.md) | so | accepted |",
            "a row for 0002.md",
        ),
    ],
)
def test_the_index_of_decisions_has_each_with_its_title(tmp_path: Path, row: str, problem: str | None) -> None:
    decisions = tmp_path / "docs" / "decisions"
    decisions.mkdir(parents=True)
    (decisions / "0001-copy.md").write_text("# 1. Copy batches\n", encoding="utf-8")
    (decisions / "index.md").write_text(f"# Decisions\n\n| | | | |\n|---|---|---|---|\n{row}\n", encoding="utf-8")
    reported = list(wrong_pages(tmp_path))
    assert not reported if problem is None else [problem in line for line in reported] == [True]


def test_the_table_of_changes_names_files_and_folders_that_exist(tmp_path: Path) -> None:
    (tmp_path / "src" / "twinlog" / "read").mkdir(parents=True)
    page = tmp_path / "CONTRIBUTING.md"
    page.write_text(
        "## Where do I change\n| a `flag` | files | tests |\n|---|---|---|\n"
        "| a `flag` | `read`, `src/twinlog/read` | `write`; `tests/unit` |\n\n## Else\n| `x` | `y` |\n",
        encoding="utf-8",
    )
    assert list(wrong_pages(tmp_path)) == [
        f"CONTRIBUTING.md: `{name}` does not exist" for name in ("write", "tests/unit")
    ]
    page.write_text("# Contributing\n", encoding="utf-8")
    assert list(wrong_pages(tmp_path)) == ["CONTRIBUTING.md: has no section `## Where do I change`"]


def test_the_site_has_a_place_for_each_page_but_single_decisions(tmp_path: Path) -> None:
    (tmp_path / "docs" / "decisions").mkdir(parents=True)
    for page in ("index.md", "running.md", "decisions/0001-copy.md"):
        (tmp_path / "docs" / page).write_text("# Page\n", encoding="utf-8")
    (tmp_path / "zensical.toml").write_text('nav = [{ "a" = "index.md" }, { "b" = "gone.md" }]\n', encoding="utf-8")
    assert list(wrong_pages(tmp_path)) == [
        "zensical.toml: has no place for docs/running.md in its navigation",
        "zensical.toml: names docs/gone.md, which does not exist",
    ]


def test_each_word_of_the_glossary_stands_once_in_its_order_with_its_place(tmp_path: Path) -> None:
    words = {"flow": "`x.py:X`", "grant": "`x.py`", "copier": "`X`"}
    rows = "\n".join(f"| **{word}** | a | {words[word]} | b |" for word in ("flow", "grant", "grant", "copier"))
    (tmp_path / "docs" / "design").mkdir(parents=True)
    text = f"# Glossary\n\n| word | | | |\n|---|---|---|---|\n{rows}\n"
    (tmp_path / "docs" / "design" / "glossary.md").write_text(text, encoding="utf-8")
    assert list(wrong_pages(tmp_path)) == [
        "docs/design/glossary.md: `copier` stands after `grant`",
        "docs/design/glossary.md: `grant` has two rows",
        "docs/design/glossary.md: `**copier**` names no place in the code",
    ]
