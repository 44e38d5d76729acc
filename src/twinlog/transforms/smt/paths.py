"""Paths to nested fields: dots between names, backticks around a name with dots (KIP-821, class SingleFieldPath)."""

from __future__ import annotations

from twinlog.errors import TransformError


def path_of(text: str, version: str) -> tuple[str, ...]:
    """The names that lead to a field; in version V1 the text is a single name. Raises TransformError."""
    if version.upper() == "V1":
        return (text,)
    steps: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "`":
            step, at = _quoted(text, at)
        else:
            end = text.find(".", at)
            step, at = (text[at:], len(text)) if end < 0 else (text[at:end], end + 1)
        steps.append(step)
    if text.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted(text: str, begin: int) -> tuple[str, int]:
    name = ""
    start = at = begin + 1
    while True:
        at = text.find("`", at)
        escaped = at > 0 and text[at - 1] == "\\"
        if at < 0 or (at >= len(text) - 1 and escaped):
            raise TransformError(f"the backtick at character {begin + 1} is never closed")
        if at >= len(text) - 1:
            return name + text[start:at], at + 1
        if text[at + 1] != ".":
            at += 1
        elif escaped:
            name += text[start : at - 1] + "`"
            at += 1
            start = at
        else:
            return name + text[start:at], at + 2
