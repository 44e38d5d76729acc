"""A Java properties text as a list of entries that know their line.

Rules of `java.util.Properties.load`: a key ends at the first unescaped `=`, `:` or blank; a trailing backslash joins
lines; a backslash before any other character disappears; bytes are ISO-8859-1; comments only at the start of a line.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from dataclasses import dataclass, replace
from pathlib import Path

import javaproperties

from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning, MistakeKind

_LINE_END = re.compile(r"\r\n?|\n")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
_INLINE_COMMENT = re.compile(r"(?:^|\s+)#.*$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PropertyEntry:
    """An entry `key = value` of a file. `value` is the effective value, `written` the text in the file.

    An entry from outside of files, for example from a connector's configuration, has its origin as `file` and None as
    line.

    The two differ if a trailing comment was cut off or a `${...}` reference was resolved. `unresolved` is the reason
    why a reference failed to resolve, and `way_out` the remedy; this entry is an error only if its value is needed.
    `kept_reference` is the reason why a reference stayed plain text, in case the value turns out wrong. `remarks` are
    warnings about changes of the text by Java's rules; they leave out secrets.
    """

    key: str
    value: str
    file: str
    line: int | None
    written: str
    unresolved: str | None = None
    way_out: str = ""
    kept_reference: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """`file:line`."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def warning(self, text: str, kind: MistakeKind, expected: str = "") -> ConfigWarning:
        """A warning about this entry."""
        return ConfigWarning(self.file, self.line, self.key, text, expected, kind)

    def problem(self, text: str, expected: str, kind: MistakeKind | None = None) -> ConfigProblem:
        """A problem with this entry."""
        return ConfigProblem(self.file, self.line, self.key, text, expected, kind)

    @property
    def named(self) -> str:
        """The key with its line, for a message that already names the file."""
        return self.key if self.line is None else f"{self.key} of line {self.line}"


def read_properties(path: Path) -> list[PropertyEntry]:
    """The entries of the file at `path`, duplicates included, in order. Raises ConfigError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = ConfigProblem(
            *(str(path), None, "", str(error.strerror or error), "a readable properties file"),
            MistakeKind.UNREADABLE_FILE,
        )
        raise ConfigError([problem]) from None
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        problem = ConfigProblem(
            *(str(path), None, "", "UTF-16 text", "the file in ISO-8859-1, or plain ASCII"), MistakeKind.UNREADABLE_FILE
        )
        raise ConfigError([problem])
    require_text(data, path)
    entries = parse_properties(data.removeprefix(BOM_UTF8).decode("iso-8859-1"), str(path))
    if data.startswith(BOM_UTF8) and entries:
        remark = "the file begins with a byte order mark, which is left out; MirrorMaker 2 takes it for part of a key"
        entries[0] = replace(entries[0], remarks=(remark, *entries[0].remarks))
    return entries


def require_text(data: bytes, path: Path) -> None:
    """Raise ConfigError for a binary file, for example a key store: its bytes would be read as keys."""
    if b"\0" in data:
        found = "binary: it contains NUL bytes"
        raise ConfigError([ConfigProblem(str(path), None, "", found, "a text file", MistakeKind.UNREADABLE_FILE)])


def parse_properties(text: str, file: str) -> list[PropertyEntry]:
    """The entries of `text`; `file` is the name for messages. Raises ConfigError for a broken unicode escape."""
    entries: list[PropertyEntry] = []
    line = 1
    elements = javaproperties.parse(text)
    while True:
        try:
            element = next(elements, None)
        except javaproperties.InvalidUEscapeError:
            # The characters after the backslash may be a part of a secret, so the problem leaves them out.
            problem = ConfigProblem(
                *(file, line, "", "a broken \\u escape", "write \\u and four hexadecimal digits, or two backslashes"),
                MistakeKind.BROKEN_SYNTAX,
            )
            raise ConfigError([problem]) from None
        if element is None:
            return entries
        if isinstance(element, javaproperties.KeyValue):
            remarks = _remarks(element.value, element.source)
            entries.append(PropertyEntry(element.key, element.value, file, line, element.value, remarks=remarks))
        line += len(_LINE_END.findall(element.source))


def property_line(key: str, value: str) -> str:
    """A line of a properties file, as Java reads it."""
    text = "".join(_ESCAPES.get(one) or (one if " " <= one <= "~" else javaproperties.escape(one)) for one in value)
    return f"{javaproperties.escape(key)} = {chr(92) * value.startswith(' ')}{text}\n"


def _remarks(value: str, source: str) -> tuple[str, ...]:
    remarks = []
    if any(char.isascii() and char.isalnum() and char not in "tnrfu" for char in _ESCAPE.findall(source)):
        remarks.append("a backslash before a letter or digit is dropped, as in every properties file; write two")
    if not value.isascii() and _looks_like_utf8(value):
        remarks.append("looks like UTF-8 and is read as ISO-8859-1, as every properties file; write \\uXXXX instead")
    return tuple(remarks)


def _looks_like_utf8(value: str) -> bool:
    try:
        value.encode("iso-8859-1").decode("utf-8")
    except UnicodeError:
        return False
    return True


def without_inline_comment(value: str) -> str:
    """`value` with ` # text` cut off at its end: manuals write comments there, though Java properties lack them."""
    return _INLINE_COMMENT.sub("", value)
