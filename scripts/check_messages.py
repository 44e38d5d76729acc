"""Checks that the messages that docs/messages.md explains are messages of the code.

A message in the table is cut where it stands for something that differs: at `...`, capital letters, numbers, names of
clusters, and punctuation. Each piece of two words or more has to be in a string of src/twinlog. What a string fills in
(`{...}`, `%s`) may be nothing, the ending of a plural, or another string of the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_DIFFERS = re.compile(r"\.\.\.|\b(?:east|west)\b[.\w]*|\b[A-Z][A-Z0-9_-]*\b(?!')|'T'|\b\d+\b|[:;,()]|->")
_FILLED = re.compile(r"%[sdr]|%\.\d+f|%[\d,]*d")
_HOLE = "\0"

_OF_OTHERS = {"can't start new thread", "collides with existing topics"}
"""Pieces that Python and Kafka's brokers put into messages."""


def wrong_messages(root: Path) -> Iterator[str]:
    """One line for each piece of a message in docs/messages.md below `root` that the code does not have."""
    page = root / "docs" / "messages.md"
    if not page.is_file():
        return
    strings = {text for file in (root / "src" / "twinlog").rglob("*.py") for text in _strings(file)}
    filled = {text.replace(_HOLE, ending) for text in strings for ending in ("", "s", "ies")}
    corpus = "\n".join(strings | filled)
    begun = "\n" + "\n".join(sorted(strings))
    for row in re.findall(r"^\| (`.+?) \| ", page.read_text(encoding="utf-8"), re.MULTILINE):
        for message in re.findall(r"`([^`]+)`", row):
            for piece in (piece.strip() for piece in _DIFFERS.split(message)):
                known = piece in corpus or piece in _OF_OTHERS or _filled_in(piece, corpus, begun)
                if " " in piece and not known:
                    yield f"docs/messages.md: no string of src/twinlog has `{piece}`, of the message `{message}`"


def _filled_in(piece: str, corpus: str, begun: str) -> bool:
    """Whether the piece is the end of one string up to what it fills in, and then the beginning of another one."""
    spaces = [at for at, letter in enumerate(piece) if letter == " "]
    cuts = spaces + [at + 1 for at in spaces]
    return any(piece[:cut] + _HOLE in corpus and "\n" + piece[cut:] in begun for cut in cuts)


def _strings(file: Path) -> Iterator[str]:
    """The strings of a module with holes for what they fill in, without docstrings."""
    docstrings = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        text = None
        if isinstance(node, ast.Expr):
            # It comes before what is in it.
            docstrings.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else _HOLE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            text = node.value
        if text:
            yield _FILLED.sub(_HOLE, re.sub(r"\s+", " ", text))
