"""Reads JAAS entries: the login of a `sasl.jaas.config` line, and the sections of a JAAS file.

A line has the form of an entry of a file: `<LoginModule class> <flag> <name>=<value> ... ;` (Kafka class JaasConfig).
Only the modules that log in with a password or a token are accepted. A file has several sections,
`NAME { MODULE FLAG option="value" ...; };`, with comments as in Java. The JVM of a Connect worker gets its path by an
option, which an installation passes in KAFKA_OPTS.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

Family = Literal["PLAIN", "SCRAM", "OAUTHBEARER"]

EXPECTED: Mapping[str, str] = {
    "PLAIN": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";',
    "SCRAM": 'org.apache.kafka.common.security.scram.ScramLoginModule required username="..." password="...";',
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required; "
    "with the client's id and secret in sasl.oauthbearer.client.credentials.*",
}
"""The form of the line for the mechanisms of a family."""

_MODULES: dict[str, Family] = {
    "PlainLoginModule": "PLAIN",
    "ScramLoginModule": "SCRAM",
    "OAuthBearerLoginModule": "OAUTHBEARER",
}
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})

FILE_OPTION = "java.security.auth.login.config"
"""The JVM's option that names a JAAS file."""


class JaasError(ValueError):
    """A line or a file differs from the accepted form. The text leaves out all values."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """A login module with its control flag, in lower case, and its options."""

    module: str
    flag: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def simple_name(self) -> str:
        return self.module.rsplit(".", 1)[-1]


@dataclass(frozen=True, slots=True)
class Login:
    """The options of the module, and the family of mechanisms it is for.

    A module for passwords always has `username` and `password`.
    """

    family: Family
    options: Mapping[str, str] = field(repr=False)

    @property
    def username(self) -> str:
        return self.options["username"]

    @property
    def password(self) -> str:
        return self.options["password"]


def parse_jaas(text: str) -> Login:
    """The login that `text` describes. Raises JaasError."""
    entry = parse_entry(text)
    options = entry.options
    family = _MODULES.get(entry.simple_name)
    if family is None:
        raise JaasError("the login module differs from PlainLoginModule, ScramLoginModule and OAuthBearerLoginModule")
    for name in () if family == "OAUTHBEARER" else ("username", "password"):
        if name not in options:
            raise JaasError(f"{name} is missing")
    if family == "SCRAM" and options.get("tokenauth", "").lower() == "true":
        raise JaasError("it logs in with a delegation token, which is unsupported here")
    return Login(family, options)


def parse_entry(text: str) -> JaasEntry:
    """The single entry that `text` holds, as Kafka's class JaasConfig reads it. Raises JaasError."""
    tokens = tokens_of(text, _OF_LINE)
    module, flag = next(tokens, SEMICOLON), next(tokens, SEMICOLON)
    if module.sign:
        raise JaasError("the line lacks a login module at its begin and a semicolon at its end")
    if flag.sign or flag.text.lower() not in _FLAGS:
        raise JaasError("the word 'required' is missing after the login module")
    options: dict[str, str] = {}
    for name in tokens:
        if name == SEMICOLON:
            if next(tokens, None) is not None:
                raise JaasError("something follows the semicolon; the line takes a single login module")
            return JaasEntry(module.text, flag.text.lower(), options)
        equals, value = next(tokens, None), next(tokens, None)
        if equals != EQUALS or value is None or value.sign:
            raise JaasError(f"an option differs from the form name=value{_hint(text)}")
        if not name.sign:
            options[name.text] = value.text
    raise JaasError(f"the line lacks a semicolon at its end{_hint(text)}")


def _hint(text: str) -> str:
    """The place at which the line differs from the probable intention."""
    for token in tokens_of(text, _OF_LINE, comments=True):
        if not token.closed:
            return "; a quote is unclosed"
        if token.comment:
            return "; a '/' outside of quotes begins a comment"
        if token.sign and token not in {SEMICOLON, EQUALS}:
            return "; only a plain word is free of quotes"
    return ""


def named_file(options: str) -> Path | None:
    """The file that these options of a JVM name; the last option counts, as in a JVM. None if they lack a file.

    The option may be a URL, and may have a second equals sign, which is ignored here. Raises JaasError.
    """
    try:
        words = shlex.split(options)
    except ValueError:
        raise JaasError("a quote is unclosed") from None
    found = [word.partition("=")[2] for word in words if word.startswith(f"-D{FILE_OPTION}=")]
    if not found:
        return None
    location = found[-1].removeprefix("=")
    return Path(unquote(urlsplit(location).path)) if location.startswith("file:") else Path(location)


def parse_jaas_file(text: str) -> Mapping[str, tuple[JaasEntry, ...]]:
    """The login modules of each section. Raises JaasError, whose text repeats only names of the file."""
    tokens = _JaasTokens(tokens_of(text, _OF_FILE))
    sections: dict[str, tuple[JaasEntry, ...]] = {}
    while tokens.more:
        name = tokens.word("the name of a section")
        tokens.sign("{", f"after {name}")
        entries: list[JaasEntry] = []
        while not tokens.takes("}"):
            entries.append(_entry(tokens, name))
        tokens.sign(";", f"after section {name}")
        if name in sections:
            raise JaasError(f"section {name} is there twice")
        sections[name] = tuple(entries)
    return sections


def _entry(tokens: _JaasTokens, section: str) -> JaasEntry:
    module = tokens.word(f"a login module in section {section}")
    flag = tokens.word(f"'required' after {module}").lower()
    if flag not in _FLAGS:
        raise JaasError(f"the word 'required' is missing after {module}")
    options: dict[str, str] = {}
    while not tokens.takes(";"):
        name = tokens.word(f"an option of {module}, or a semicolon after the last option,")
        tokens.sign("=", f"after an option of {module}")
        options[name] = tokens.word(f"the value of {name}")
    return JaasEntry(module, flag, options)


class _JaasTokens:
    """The tokens of a file, taken in order."""

    def __init__(self, tokens: Iterator[JaasToken]) -> None:
        self._left = [*tokens][::-1]

    @property
    def more(self) -> bool:
        return bool(self._left)

    def word(self, what: str) -> str:
        if not self._left or self._left[-1].sign:
            raise JaasError(f"{what} is missing")
        return self._left.pop().text

    def takes(self, sign: str) -> bool:
        if self._left and self._left[-1] == JaasToken(sign, sign=True):
            self._left.pop()
            return True
        return False

    def sign(self, sign: str, where: str) -> None:
        if not self.takes(sign):
            raise JaasError(f"a '{sign}' {where} is missing")


_OF_LINE = re.compile(
    r"""
    [\0-\x20]+
    | (?P<word>[A-Za-z_$\xa0-\U0010ffff][A-Za-z_$\xa0-\U0010ffff0-9.-]*)
    | (?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\\n\r])*)(?P<end>(?P=quote)|\\?(?=[\n\r]|\Z))
    | (?P<comment>/\*.*?(?:\*/|\Z)|//[^\n\r]*|/(?:[^*/][^\n\r]*)?)
    | (?P<sign>-?(?=[.0-9])[0-9]*\.?[0-9]*|.)
    """,
    re.DOTALL | re.VERBOSE,
)
"""The tokens of a line, as Java's class StreamTokenizer finds them with the syntax that Kafka's class JaasConfig sets.

Quotes are double or single. A `/` outside of quotes begins a comment. A word begins with a letter, `_` or `$`, and may
have digits, `.` and `-` after that. A text that looks like a number is a sign, and every other character is a token of
its own.
"""

_OF_FILE = re.compile(
    r"""
    \s+
    | (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<quote>")(?P<quoted>(?:[^"\\]|\\.)*)(?P<end>")
    | (?P<sign>[=;{}])
    | (?P<word>(?:(?!//|/\*)[^\s=;{}"])+)
    | (?P<unclosed>.)
    """,
    re.DOTALL | re.VERBOSE,
)
"""The tokens of a file: a word ends at a blank, a double quote, a comment or a sign."""

_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class JaasToken:
    """A word or a quoted text; or a `sign`: a number, or a single other character.

    An unclosed quote ends with its line.
    """

    text: str
    sign: bool = False
    closed: bool = True
    comment: bool = False


SEMICOLON, EQUALS = JaasToken(";", sign=True), JaasToken("=", sign=True)


def tokens_of(text: str, pattern: re.Pattern[str], *, comments: bool = False) -> Iterator[JaasToken]:
    """The tokens of `text` by the pattern of a line or of a file; with `comments` these, too. Raises JaasError."""
    for match in pattern.finditer(text):
        found = match.groupdict()
        if found["word"] is not None:
            yield JaasToken(match["word"])
        elif found["quote"] is not None:
            yield JaasToken(_unescaped(match["quoted"]), closed=match["end"] == match["quote"])
        elif found["sign"] is not None:
            yield JaasToken(match["sign"], sign=True)
        elif found["comment"] is not None and comments:
            yield JaasToken(match["comment"], comment=True)
        elif found.get("unclosed") is not None:
            raise JaasError("a quote or a comment is unclosed")


def _unescaped(quoted: str) -> str:
    """The text between two quotes. A backslash begins an escape: `\\n`, `\\t` and their like and octal numbers like
    `\\101` mean a single character, and any other character means itself."""
    return _ESCAPE.sub(lambda match: _character(match[1]), quoted)


def escaped(text: str) -> str:
    """`text` in the form that it has between two double quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


def _character(escape: str) -> str:
    return chr(int(escape, 8)) if escape[0] in "01234567" else _NAMED.get(escape, escape)
