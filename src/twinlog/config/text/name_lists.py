"""Doubtful and impossible entries in lists of names: `topics`, `groups` and the patterns at the end of keys.

MirrorMaker 2 splits such a list at commas alone, drops blanks around an entry, and takes the entry for a regular
expression (Kafka classes ConfigDef and MirrorUtils). An entry with a blank, a semicolon or a quote inside is a legal
expression that matches no topic: a topic name holds a-z A-Z 0-9 . _ - only. A group may have any name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twinlog.config.keys.key import Key, ValueForm
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.values import Value
from twinlog.errors.mistakes import ConfigWarning, MistakeKind

_WILDCARD = re.compile(r"[\w.-]*[\w-]\*")
_QUOTES = ("'", '"')
_OF_TOPICS = frozenset({"topics", "topics.exclude", "topics.blacklist"})
_CHOICE = re.compile(r"[|(\[]")
"""An expression with alternatives, groups or classes may match a topic in spite of an impossible character."""

_ESCAPED = re.compile(r"\\.")
_IMPOSSIBLE = re.compile(r"([^\w.*+?{}^$\\-])(?![*?{])", re.ASCII)
_SEPARATORS = re.compile(r"[\s;]+")
_PLAIN = re.compile(r"[\w.*+-]+", re.ASCII)
_HTTP = re.compile(r"(?i)https?://(.+)")


def warnings_of_value(entry: PropertyEntry, key: Key, value: Value) -> Iterator[ConfigWarning]:
    """Warnings of a value that is legal and surely unintended; an impossible name has a kind of its own."""
    if not isinstance(value, tuple):
        return
    if key.form is ValueForm.PATTERNS:
        topics = key.name in _OF_TOPICS
        for item in value:
            found = _impossible(item) if topics else None
            if found is not None:
                yield entry.warning(found[0], MistakeKind.IMPOSSIBLE_NAME, found[1])
        for text in doubts(tuple(item for item in value if not topics or _impossible(item) is None)):
            yield entry.warning(text, MistakeKind.DOUBTFUL_PATTERN)
    elif key.form is ValueForm.SERVERS:
        for item in value:
            if (server := _HTTP.fullmatch(item)) is not None:
                text = f"{item!r} is read as {server[1]}, because brokers speak Kafka's protocol instead of HTTP"
                yield entry.warning(text, MistakeKind.READ_OTHERWISE, server[1])


def doubts(patterns: tuple[str, ...]) -> list[str]:
    """Warnings of regular expressions for names."""
    found = [
        f"{item!r} is a regular expression, and its * repeats the character before it; for every name that begins so "
        f"write {item[:-1]}.*"
        for item in patterns
        if _WILDCARD.fullmatch(item)
    ]
    doubled = next((item for item in patterns if item.startswith("=")), None)
    if doubled is not None:
        found.append(f"{doubled!r} is impossible as a name: a second = belongs to the value; write a single =")
    quoted = next((item for item in patterns if item.startswith(_QUOTES) or item.endswith(_QUOTES)), None)
    if quoted is not None:
        found.append(f"the quotes of {quoted} count as part of the name; write it bare")
    return found


def _impossible(item: str) -> tuple[str, str] | None:
    """Why no topic can match an expression, and the text to write; None if one may match."""
    if _CHOICE.search(item):
        return None
    character = _IMPOSSIBLE.search(_ESCAPED.sub("x", item))
    if character is None:
        return None
    if item.startswith("="):
        return f"{item!r} matches no topic, because a second = belongs to the value", item.lstrip("= ")
    bare = item.strip("'\"")
    if bare != item:
        return f"{item!r} matches no topic, because quotes count as part of a name", bare
    several = [part for part in _SEPARATORS.split(item) if part]
    if len(several) > 1 and all(_PLAIN.fullmatch(part) for part in several):
        sign = "semicolon" if ";" in item else "blank"
        why = f"{item!r} matches no topic, because a topic name holds no {sign}"
        return why, f"commas between several topics: {', '.join(several)}"
    return f"{item!r} matches no topic, because a topic name holds only a-z A-Z 0-9 . _ -", "names that can exist"
