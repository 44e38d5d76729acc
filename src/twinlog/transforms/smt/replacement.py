"""The replacement of a match, as Java's `Matcher.replaceFirst` reads it: `$1`, `${name}` and backslashes."""

from __future__ import annotations

import re

from twinlog.errors import TransformError
from twinlog.model.java_regex.pattern import JavaPattern


class Replacement:
    """A replacement for matches of `pattern`. Raises TransformError for a text that Java would refuse."""

    def __init__(self, text: str, pattern: JavaPattern) -> None:
        self._pattern = pattern
        self._parts = tuple(_parts(text, pattern))

    def first(self, name: str) -> str:
        """`name` with its first match replaced, at any place; a group outside the match is empty."""
        found = self._pattern.find(name)
        if found is None:
            return name
        put = "".join(part if isinstance(part, str) else found.groups[part] or "" for part in self._parts)
        return name[: found.begin] + put + name[found.end :]


def _parts(text: str, pattern: JavaPattern) -> list[str | int]:
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            if at + 1 == len(text):
                raise TransformError("it ends in a lone backslash; write two for one")
            parts.append(text[at + 1])
            at += 2
        elif char == "$":
            group, at = _group(text, at + 1, pattern)
            parts.append(group)
        else:
            parts.append(char)
            at += 1
    return parts


def _group(text: str, at: int, pattern: JavaPattern) -> tuple[int, int]:
    named = re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}").match(text, at)
    if named is not None:
        if named[1] not in pattern.names:
            raise TransformError(f"the expression has no group named {named[1]!r}")
        return pattern.names[named[1]], named.end()
    if at == len(text) or text[at] not in "0123456789":
        raise TransformError(r"a $ begins a group such as $1 or ${name}; write \$ for the character")
    group, at = int(text[at]), at + 1
    if group > pattern.groups:
        raise TransformError(f"${group} is a group that the expression does not have")
    while at < len(text) and text[at] in "0123456789" and group * 10 + int(text[at]) <= pattern.groups:
        group, at = group * 10 + int(text[at]), at + 1
    return group, at
