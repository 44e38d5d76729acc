"""Checks the table of messages in src/twinlog/ops/explain against the code and the generated pages.

The shape of a line is cut at its placeholders: at `...`, capital letters, numbers, names of clusters, and punctuation.
Each piece of two words or more has to be in a string of src/twinlog outside of the table. A hole of a string (`{...}`,
`%s`) may be empty, the ending of a plural, or another string of the code. A string that names a command of twinlog
names only options that the help of this command has.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from twinlog.ops.explain.message import Message
from twinlog.ops.explain.reference import pages
from twinlog.ops.explain.table import MESSAGES, pieces_of

_FILLED = re.compile(r"%[sdr]|%\.\d+f|%[\d,]*d")
_HOLE = "\0"
_COMMAND = re.compile(r"\btwinlog ([a-z][a-z-]*)((?:(?!\btwinlog )[^`;\n\0])*)")
_OPTION = re.compile(r"(?<![\w-])-{1,2}[a-z][a-z-]*")

_OF_OTHERS = {"can't start new thread", "collides with existing topics", "Invalid value for", "No such option"}
"""Pieces that Python, Typer and Kafka's brokers put into messages."""


def wrong_messages(root: Path, messages: Iterable[Message] = tuple(MESSAGES.values())) -> Iterator[str]:
    """One line for each piece of a message that no string of the code below `root` has."""
    package = root / "src" / "twinlog"
    files = [file for file in package.rglob("*.py") if package / "ops" / "explain" / "pages" not in file.parents]
    strings = {text for file in files for text in _strings(file)}
    filled = {text.replace(_HOLE, ending) for text in strings for ending in ("", "s", "ies")}
    corpus = "\n".join(strings | filled)
    begun = "\n" + "\n".join(sorted(strings))
    for message in messages:
        for shape in () if message.retired or message.shapes[0].startswith("alert ") else message.shapes:
            for piece in pieces_of(shape):
                if not (piece in corpus or piece in _OF_OTHERS or _filled_in(piece, corpus, begun)):
                    yield f"{message.id}: no string of src/twinlog has `{piece}`, of the line `{shape}`"


def wrong_options(root: Path, cli: Any) -> Iterator[str]:
    """One line for each option after a command in a string below `root` that is hidden or unknown in its help.

    `cli` is the real command tree. Former names of options stay hidden.
    """
    for file in sorted((root / "src" / "twinlog").rglob("*.py")):
        named = {found for text in _strings(file) for found in _COMMAND.findall(text)}
        for first, rest in sorted(named):
            name, command = _command(cli.commands.get(first), first, rest.split())
            params = command.params if command is not None else []
            shown = {opt for param in params if not getattr(param, "hidden", False) for opt in param.opts}
            for option in _OPTION.findall(rest) if params else ():
                if option not in {*shown, "-h", "--help"}:
                    yield f"{file.relative_to(root)}: `twinlog {name}` has no option {option}"


def _command(command: Any, name: str, words: list[str]) -> tuple[str, Any]:
    """The command below `command` that the words begin with, with its whole name; None if no command does."""
    while hasattr(command, "commands"):
        word = words.pop(0) if words and words[0] in command.commands else getattr(command, "default_command", None)
        name, command = f"{name} {word}", command.commands.get(word)
    return name, command


def stale_pages(root: Path) -> Iterator[str]:
    """One line for each page of messages that differs from its table."""
    texts = pages()
    there = {f"messages/{path.name}" for path in (root / "docs" / "messages").glob("*.md")}
    for name in sorted(there - texts.keys()):
        yield f"docs/{name}: the table of messages has no such page: make reference"
    for name, text in texts.items():
        path = root / "docs" / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            yield f"docs/{name}: differs from the table of messages: make reference"


def _filled_in(piece: str, corpus: str, begun: str) -> bool:
    """Whether the piece is the end of one string up to what it fills in, and then the beginning of another one."""
    spaces = [at for at, letter in enumerate(piece) if letter == " "]
    cuts = spaces + [at + 1 for at in spaces]
    return any(piece[:cut] + _HOLE in corpus and "\n" + piece[cut:] in begun for cut in cuts)


def _strings(file: Path) -> frozenset[str]:
    return _strings_of(file.read_text(encoding="utf-8"))


@cache
def _strings_of(code: str) -> frozenset[str]:
    """The strings of a module with holes for what they fill in, without docstrings."""
    docstrings = set()
    found = set()
    for node in ast.walk(ast.parse(code)):
        text = None
        if isinstance(node, ast.Expr):
            # It comes before what is in it.
            docstrings.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else _HOLE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            text = node.value
        if text:
            found.add(_FILLED.sub(_HOLE, re.sub(r"\s+", " ", text)))
    return frozenset(found)
