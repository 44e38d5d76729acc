"""A Java properties text as a list of entries that know their line.

Rules of `java.util.Properties.load`: a key ends at the first unescaped `=`, `:` or blank; a trailing backslash joins
lines; a backslash before any other character disappears; bytes are ISO-8859-1; comments only at the start of a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import javaproperties

from twinlog.errors import ConfigError, ConfigProblem

_LINE_END = re.compile(r"\r\n?|\n")
_INLINE_COMMENT = re.compile(r"(?:^|\s+)#.*$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key = value` of a file. `value` is what counts, `written` what stands in the file.

    The two differ where a trailing comment was cut off or a `${...}` reference was resolved. `unresolved` says why a
    reference could not be resolved; such an entry is an error only where its value is needed. `doubt` says why a
    reference was taken for plain text, in case the value turns out wrong.
    """

    key: str
    value: str
    file: str
    line: int
    written: str
    unresolved: str | None = None
    doubt: str | None = None

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"


def read_properties(path: Path) -> list[Entry]:
    """The entries of the file at `path`, duplicates included, in order. Raises ConfigError."""
    try:
        text = path.read_bytes().decode("iso-8859-1")
    except OSError as error:
        problem = ConfigProblem(str(path), None, "(file)", str(error.strerror or error), "a readable properties file")
        raise ConfigError([problem]) from None
    return parse_properties(text, str(path))


def parse_properties(text: str, file: str) -> list[Entry]:
    """The entries of `text`; `file` is the name for messages. Raises ConfigError for a broken unicode escape."""
    entries: list[Entry] = []
    line = 1
    elements = javaproperties.parse(text)
    while True:
        try:
            element = next(elements, None)
        except javaproperties.InvalidUEscapeError as error:
            problem = ConfigProblem(file, line, error.escape, "a broken escape", "\\u and four hexadecimal digits")
            raise ConfigError([problem]) from None
        if element is None:
            return entries
        if isinstance(element, javaproperties.KeyValue):
            entries.append(Entry(element.key, element.value, file, line, element.value))
        line += len(_LINE_END.findall(element.source))


def without_inline_comment(value: str) -> str:
    """`value` without ` # text` at its end: manuals write that, though Java properties have no such comments."""
    return _INLINE_COMMENT.sub("", value)
