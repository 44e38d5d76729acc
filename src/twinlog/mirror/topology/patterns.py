"""Lists of Java's regular expressions, as MirrorMaker 2 files contain them.

A filter is a list of expressions joined by `|` that must match a whole name, as `MirrorUtils.compilePatternList` of
Kafka makes it.
"""

from __future__ import annotations

from functools import lru_cache

from twinlog.errors import PatternError
from twinlog.model.java_regex.parser import parsed
from twinlog.model.java_regex.pattern import JavaPattern, java_pattern
from twinlog.model.java_regex.tree import UNLIMITED, Choice, Node, OneOf, QuantifierKind, Repeat, Sequence, Text


@lru_cache(maxsize=1024)
def compile_list(patterns: tuple[str, ...]) -> JavaPattern | None:
    """A compiled expression for the whole list; None for an empty list, which has no match.

    Raises PatternError, which names the entry of the list and the place in the entry.
    """
    if not patterns:
        return None
    try:
        return java_pattern("|".join(patterns))
    except PatternError as error:
        raise _of_entry(error, patterns) from None


def _of_entry(error: PatternError, patterns: tuple[str, ...]) -> PatternError:
    """The error with the entry that it is about."""
    if error.at is None:
        return error
    at = error.at
    for pattern in patterns:
        if at <= len(pattern):
            break
        at -= len(pattern) + 1
    why = error.why
    if pattern == "*":
        why += "; for every name write .*"
    elif pattern[at:].startswith("{") and len(patterns) > 1:
        why += "; a comma inside it splits the entry of a list in two"
    return PatternError(why, at, pattern)


@lru_cache(maxsize=1024)
def spelled_out(patterns: tuple[str, ...]) -> frozenset[str]:
    """The names that a list spells out: its alternatives outside groups whose only metacharacters are plain dots.

    A plain dot matches any character, but a user who writes `orders.v1` means that name. Raises PatternError.
    """
    names = (_spelled(option) for option in _alternatives(patterns))
    return frozenset(name for name in names if name)


def _alternatives(patterns: tuple[str, ...]) -> list[tuple[Node, ...]]:
    item = parsed("|".join(patterns)).item
    options = item.options if isinstance(item, Choice) else (item,)
    return [option.items if isinstance(option, Sequence) else (option,) for option in options]


def _spelled(parts: tuple[Node, ...]) -> str | None:
    """The text that a part of an expression matches if it matches a single text; otherwise None."""
    found = ""
    for part in parts:
        text = part.text if isinstance(part, Text) else part.written if isinstance(part, OneOf) else None
        if text is None:
            return None
        found += text
    return found


def share_no_name(patterns: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether the lists share no name, by the alternatives that are names or beginnings of names with `.*`."""
    here, there = _beginnings(patterns), _beginnings(others)
    return here is not None and there is not None and all(_are_apart(one, two) for one in here for two in there)


def _beginnings(patterns: tuple[str, ...]) -> list[tuple[str, bool]] | None:
    """The alternatives of a list, each with whether more may follow; None if an alternative has another form."""
    found = []
    for parts in _alternatives(patterns):
        more = bool(parts) and _is_anything(parts[-1])
        begins = parts[:-1] if more else parts
        text = _spelled(begins)
        if text is None or any(isinstance(part, OneOf) and part.written != "." for part in begins):
            return None
        found.append((text, more))
    return found


def _is_anything(part: Node) -> bool:
    return (
        isinstance(part, Repeat)
        and isinstance(part.item, OneOf)
        and part.item.written == "."
        and (part.least, part.most, part.how) == (0, UNLIMITED, QuantifierKind.GREEDY)
    )


def _are_apart(one: tuple[str, bool], other: tuple[str, bool]) -> bool:
    (here, more_here), (there, more_there) = one, other
    # A dot matches any character.
    if any(a != b and "." not in (a, b) for a, b in zip(here, there, strict=False)):
        return True
    return (len(here) < len(there) and not more_here) or (len(there) < len(here) and not more_there)
