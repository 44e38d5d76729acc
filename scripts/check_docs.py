"""Checks that what the documents ask a reader to type or to open exists.

In the Markdown files of the root, of bench, docs and examples: every `twinlog ...` command and `make ...` target in a
console, bash or sh block; every `path/file.py:name` in backticks (from the root or from src/twinlog; name is a
function, class, constant or Class.method); every relative link, with the heading that it points to; and that no page
of the documentation site links to what is outside of it. What single pages
promise is checked in `scripts/check_pages.py` and `scripts/check_messages.py`. Prints one line for each problem, and
ends with status 1 if there is any.
"""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from scripts.check_messages import stale_pages, wrong_messages, wrong_options
from scripts.check_pages import wrong_pages
from twinlog.cli.reference import render

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"`([\w/.-]+\.py)(?::([\w.]+))?`")
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)
_TARGET = re.compile(r"^([a-z][\w-]*):", re.MULTILINE)
_SEPARATORS = {"|", "||", "&&", ";", "&", ">", ">>", "<", "2>", "(", ")"}


def problems(root: Path, cli: Any) -> Iterator[str]:
    """One line for each thing in the documents below `root` that does not exist; `cli` is the real command tree."""
    makefile = root / "Makefile"
    targets = set(_TARGET.findall(makefile.read_text(encoding="utf-8"))) if makefile.is_file() else set()
    folders = ("*.md", "bench/*.md", "docs/**/*.md", "examples/*.md")
    documents = [path for folder in folders for path in sorted(root.glob(folder))]
    for document in documents:
        text = document.read_text(encoding="utf-8")
        where = document.relative_to(root)
        for language, block in _BLOCK.findall(text):
            for words in commands(language, block):
                found = wrong_command(words, cli, targets)
                if found:
                    yield f"{where}: `{shlex.join(words)}`: {found}"
        prose = _BLOCK.sub("", text)
        for path, name in _NAME.findall(prose):
            found = wrong_name(root, path, name)
            if found:
                yield f"{where}: {found}"
        for link, anchor in _LINK.findall(prose):
            target = document.parent / link if link else document
            if not target.exists():
                yield f"{where}: links to {link}, which does not exist"
            elif where.parts[0] == "docs" and root.resolve() / "docs" not in target.resolve().parents:
                yield f"{where}: links to {link}, which the documentation site does not have; name it in backticks"
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                yield f"{where}: links to {link}#{anchor}, and there is no such heading"
    yield from wrong_pages(root)
    if (root / "src" / "twinlog" / "ops" / "explain").is_dir():
        yield from wrong_messages(root)
        yield from wrong_options(root, cli)
        yield from stale_pages(root)


def anchors(document: Path) -> set[str]:
    """What a link may point to in a document: its headings, as GitHub and the documentation site spell them."""
    text = _BLOCK.sub("", document.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(text)}


def commands(language: str, block: str) -> Iterator[list[str]]:
    """The simple commands of a block, split at pipes and the like; in a console block only lines after a prompt."""
    if language not in {"console", "bash", "sh", "shell"}:
        return
    prompted = language == "console"
    for line in block.replace("\\\n", " ").splitlines():
        if prompted and not line.startswith("$ "):
            continue
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in _SEPARATORS:
                words.append(word)
            elif words:
                yield words
                words = []


def wrong_command(words: list[str], cli: Any, targets: set[str]) -> str | None:
    """What is wrong with one command, if it is twinlog or make; assignments before it are skipped."""
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    if not words:
        return None
    program = Path(words[0]).name
    if program == "make":
        asked = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
        return next((f"make has no target {word}" for word in asked if word not in targets), None)
    return _wrong_twinlog(words[1:], cli) if program == "twinlog" else None


def _wrong_twinlog(words: list[str], command: Any) -> str | None:
    name = "twinlog"
    rest = iter(words)
    for word in rest:
        subcommands = getattr(command, "commands", {})
        if word.startswith("-") and word != "-":
            option = word.split("=")[0]
            known = {text: param for param in command.params for text in [*param.opts, *param.secondary_opts]}
            if option in {"--help", "--install-completion", "--show-completion"}:
                continue
            if option not in known:
                return f"{name} has no option {option}"
            if "=" not in word and not getattr(known[option], "is_flag", False):
                next(rest, None)
        elif subcommands:
            default = getattr(command, "default_command", None)
            if word not in subcommands and default is None:
                return f"{name} has no command {word}"
            if word not in subcommands:
                # The word is the first argument of the command that needs no name.
                command, name = subcommands[default], f"{name} {default}"
                continue
            command, name = subcommands[word], f"{name} {word}"
    return None


def wrong_name(root: Path, path: str, name: str) -> str | None:
    """What is wrong with `path:name`; the path counts from the root or from src/twinlog."""
    file = next((found for found in (root / path, root / "src" / "twinlog" / path) if found.is_file()), None)
    if file is None:
        return f"`{path}` does not exist"
    return f"`{path}` has no `{name}`" if name and name not in _names(file.read_text(encoding="utf-8")) else None


@cache
def _names(module: str) -> frozenset[str]:
    """What may be named of a module, by its text: documents name most modules several times."""
    return frozenset(_names_in(ast.parse(module).body, ""))


def _names_in(scope: list[ast.stmt], outer: str) -> Iterator[str]:
    for node in scope:
        name = _called(node)
        if name is not None:
            yield outer + name
        if isinstance(node, ast.ClassDef):
            yield from _names_in(node.body, f"{outer}{node.name}.")


def _called(node: ast.stmt) -> str | None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def main() -> int:
    import typer.main  # noqa: PLC0415

    app = getattr(importlib.import_module("twinlog.cli.main"), "app", None)
    if app is None:
        print("twinlog.cli.main has no `app`, the Typer command tree that the documents are checked against.")
        return 1
    cli = typer.main.get_command(app)
    found = list(problems(ROOT, cli))
    if (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") != render():
        found.append("docs/commands.md differs from the help of the commands: make reference")
    print("\n".join(found) or "The documents name only commands, targets, files, functions and messages that exist.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
