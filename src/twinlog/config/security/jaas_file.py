"""Reads JAAS files: sections of login modules, each with its options.

A file has several sections, `NAME { MODULE FLAG option="value" ...; };`, with comments as in Java. The JVM of a Connect
worker gets its path by an option, which an installation passes in KAFKA_OPTS.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from twinlog.config.security.jaas import JaasError
from twinlog.config.security.stream_tokenizer import unescaped

OPTION = "java.security.auth.login.config"
"""The JVM's option that names the file."""

_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN = re.compile(
    r"""(?:\s|//[^\n]*|/\*.*?\*/)*(?:"((?:[^"\\]|\\.)*)"|([=;{}])|((?:(?!//|/\*)[^\s=;{}"])+)|$)""", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class LoginEntry:
    """A login module of a section."""

    module: str
    flag: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def simple_name(self) -> str:
        return self.module.rsplit(".", 1)[-1]


def named_file(options: str) -> Path | None:
    """The file that these options of a JVM name; the last option counts, as in a JVM. None if they lack a file.

    The option may be a URL, and may have a second equals sign, which is ignored here. Raises JaasError.
    """
    try:
        words = shlex.split(options)
    except ValueError:
        raise JaasError("a quote is never closed") from None
    found = [word.partition("=")[2] for word in words if word.startswith(f"-D{OPTION}=")]
    if not found:
        return None
    location = found[-1].removeprefix("=")
    return Path(unquote(urlsplit(location).path)) if location.startswith("file:") else Path(location)


def parse_jaas_file(text: str) -> Mapping[str, tuple[LoginEntry, ...]]:
    """The login modules of each section. Raises JaasError, whose text repeats only names of the file."""
    tokens = _JaasTokens(_tokens(text))
    sections: dict[str, tuple[LoginEntry, ...]] = {}
    while tokens.more:
        name = tokens.word("the name of a section")
        tokens.sign("{", f"after {name}")
        entries: list[LoginEntry] = []
        while not tokens.takes("}"):
            entries.append(_entry(tokens, name))
        tokens.sign(";", f"after section {name}")
        if name in sections:
            raise JaasError(f"section {name} is there twice")
        sections[name] = tuple(entries)
    return sections


def _entry(tokens: _JaasTokens, section: str) -> LoginEntry:
    module = tokens.word(f"a login module in section {section}")
    flag = tokens.word(f"'required' after {module}").lower()
    if flag not in _FLAGS:
        raise JaasError(f"the word 'required' does not follow {module}")
    options: dict[str, str] = {}
    while not tokens.takes(";"):
        name = tokens.word(f"an option of {module}, or a semicolon after the last one,")
        tokens.sign("=", f"after an option of {module}")
        options[name] = tokens.word(f"the value of {name}")
    return LoginEntry(module, flag, options)


class _JaasTokens:
    """Words and signs, taken in order. A sign is a pair, so that quoted text never counts as a sign."""

    def __init__(self, tokens: list[str | tuple[str]]) -> None:
        self._left = tokens[::-1]

    @property
    def more(self) -> bool:
        return bool(self._left)

    def word(self, what: str) -> str:
        if not self._left or isinstance(self._left[-1], tuple):
            raise JaasError(f"{what} is missing")
        return str(self._left.pop())

    def takes(self, sign: str) -> bool:
        if self._left and self._left[-1] == (sign,):
            self._left.pop()
            return True
        return False

    def sign(self, sign: str, where: str) -> None:
        if not self.takes(sign):
            raise JaasError(f"a '{sign}' {where} is missing")


def _tokens(text: str) -> list[str | tuple[str]]:
    tokens: list[str | tuple[str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise JaasError("a quote or a comment is never closed")
        quoted, sign, word = match.groups()
        if quoted is not None:
            tokens.append(unescaped(quoted))
        elif sign is not None:
            tokens.append((sign,))
        elif word is not None:
            tokens.append(word)
        at = match.end()
    return tokens
