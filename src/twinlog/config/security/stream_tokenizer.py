"""Tokens of a line as Java's class StreamTokenizer finds them, with the syntax that Kafka's class JaasConfig sets.

Quotes are double or single. A backslash in them begins an escape: `\\n`, `\\t` and their like and octal numbers like
`\\101` mean a single character, and any other character means itself. A `/` outside of quotes begins a comment. A word
begins with a letter, `_` or `$`, and may have digits, `.` and `-` after that. A text that looks like a number is a
sign, and every other character is a token of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    [\0-\x20]+
    | (?P<number>-?(?=[.0-9])[0-9]*\.?[0-9]*)
    | (?P<word>[A-Za-z_$\xa0-\U0010ffff][A-Za-z_$\xa0-\U0010ffff0-9.-]*)
    | (?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\\n\r])*)(?P<end>(?P=quote)|\\?(?=[\n\r]|\Z))
    | (?P<comment>/\*.*?(?:\*/|\Z)|//[^\n\r]*|/(?:[^*/][^\n\r]*)?)
    | (?P<sign>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class StreamToken:
    """A word or a quoted text; or a `sign`: a number, or a single other character.

    A quote that is not `closed` ends with its line.
    """

    text: str
    sign: bool = False
    closed: bool = True
    comment: bool = False


SEMICOLON, EQUALS = StreamToken(";", sign=True), StreamToken("=", sign=True)


def tokens_of(text: str, *, comments: bool = False) -> Iterator[StreamToken]:
    """The tokens of `text`; with `comments` these, too."""
    for match in _TOKEN.finditer(text):
        if match["word"] is not None:
            yield StreamToken(match["word"])
        elif match["quote"] is not None:
            yield StreamToken(unescaped(match["quoted"]), closed=match["end"] == match["quote"])
        elif match["sign"] is not None or match["number"] is not None:
            yield StreamToken(match[0], sign=True)
        elif comments and match["comment"] is not None:
            yield StreamToken(match["comment"], comment=True)


def unescaped(quoted: str) -> str:
    """The text between two quotes, with each escape replaced by its character."""
    return _ESCAPE.sub(lambda match: _character(match[1]), quoted)


def escaped(text: str) -> str:
    """`text` in the form that it has between two double quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


def _character(escape: str) -> str:
    return chr(int(escape, 8)) if escape[0] in "01234567" else _NAMED.get(escape, escape)
