"""A class in brackets: ranges, negation, classes inside of it, intersections with `&&`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from twinlog.model.java_regex.char_set import (
    CharSet,
    char_set,
    codes,
    lower,
    one_in_any_case,
    range_in_any_case,
    swapped,
    upper,
)
from twinlog.model.java_regex.escapes import escaped
from twinlog.model.java_regex.source import Flags, Source

_FOLDED_WITH_OTHERS = frozenset(map(ord, "ÿµIiSsKkÅå"))
"""The characters below 256 that are another case of a character beyond."""


@dataclass(slots=True)
class _Singles:
    """The single characters of a class.

    Java keeps them in a single set, so later characters also count in the parts that were made of the set before.
    """

    found: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Any:
    parts: tuple[_Part, ...]


@dataclass(frozen=True, slots=True)
class _Both:
    one: _Part
    other: _Part


@dataclass(frozen=True, slots=True)
class _Not:
    part: _Part


_Part: TypeAlias = CharSet | _Singles | _Any | _Both | _Not


def char_class(source: Source) -> CharSet:
    """The set of a class, read from its bracket on. Raises PatternError."""
    return _value(_read(source, source.at, closes=True))


def one_of(code: int, flags: Flags) -> CharSet:
    """The characters that a single character matches under these flags."""
    if Flags.IGNORE_CASE in flags:
        return one_in_any_case(code, of_unicode=Flags.UNICODE_CASE in flags)
    return codes([code])


def _value(part: _Part) -> CharSet:
    if isinstance(part, CharSet):
        return part
    if isinstance(part, _Singles):
        return codes(part.found)
    if isinstance(part, _Any):
        return char_set(found for each in part.parts for found in _value(each).ranges)
    if isinstance(part, _Both):
        return _value(part.one) & _value(part.other)
    return ~_value(part.part)


def _joined(one: _Part | None, other: _Part) -> _Part:
    if one is None or one is other:
        return other
    return _Any((*one.parts, other) if isinstance(one, _Any) else (one, other))


def _read(source: Source, begin: int, *, closes: bool) -> _Part:
    """Read the part between a bracket, or `&&`, and its closing bracket; with `closes` also the closing bracket.

    The class begins at `begin`.
    """
    singles, waits = _Singles(), False
    found: _Part | None = None
    last: _Part | None = None
    char = source.after()
    negative = char == "^" and source.raw(-1) == "["
    if negative:
        char = source.after()
    while True:
        if char == "[":
            last = _read(source, source.at, closes=True)
            found = _joined(found, last)
        elif char == "&" and source.after() == "&":
            right = _right(source, begin)
            if waits:
                last = singles if found is None else last
                found, waits = _joined(found, singles), False
            last = last if right is None else right
            if last is None:
                raise source.error("an intersection && without a right side", begin)
            found = last if found is None else _Both(found, last)
        elif char == "]" and (found is not None or waits):
            if closes:
                source.at += 1
            found = _joined(found, singles) if waits else found
            assert found is not None
            return _Not(found) if negative else found
        elif not char:
            raise source.error("a [ that is never closed", begin)
        else:
            # Step back before a single &.
            source.at -= char == "&"
            last = _range(source, singles)
            if last is None:
                waits = True
            else:
                found = _joined(found, last)
        char = source.peek()


def _right(source: Source, begin: int) -> _Part | None:
    """Read the part after `&&`, up to the next `&` or the end of the class; None for an empty part."""
    found: _Part | None = None
    char = source.after()
    while char not in {"]", "&"}:
        if char == "[":
            part = _read(source, source.at, closes=True)
        else:
            # Read as if a bracket preceded the character.
            source.at -= 1
            part = _read(source, begin, closes=False)
        found = _joined(found, part)
        char = source.peek()
    return found


def _range(source: Source, singles: _Singles) -> _Part | None:
    """A character, a range or an escape; None for a single character that was added to `singles`."""
    at = source.at
    code = _end(source, begins=True)
    if isinstance(code, CharSet):
        return code
    if source.peek() == "-" and source.raw(1) not in {"[", "]"}:
        source.after()
        high = _end(source, begins=False)
        if isinstance(high, CharSet) or high < code:
            raise source.error("a range that ends before its beginning, or at no single character", at)
        if source.has(Flags.IGNORE_CASE):
            return range_in_any_case(code, high, of_unicode=source.has(Flags.UNICODE_CASE))
        return char_set([(code, high)])
    both = Flags.IGNORE_CASE | Flags.UNICODE_CASE
    if code > 255 or (both in source.flags and code in _FOLDED_WITH_OTHERS):
        return one_of(code, source.flags)
    singles.found.add(code)
    if source.has(Flags.IGNORE_CASE):
        singles.found.add(swapped(code))
        if code > 127 and source.has(Flags.UNICODE_CASE):
            singles.found |= {upper(code), lower(code)}
    return None


def _end(source: Source, *, begins: bool) -> int | CharSet:
    """An end of a range."""
    char, at = source.peek(), source.at
    source.at += 1
    if char != "\\":
        if not char:
            raise source.error("a range without an end", at)
        return ord(char)
    found = escaped(source, begins_range=not begins or source.raw(1) == "-")
    if found is None or (not begins and source.chars[at + 1] in "pP"):
        raise source.error(f"an escape \\{source.chars[at + 1]} that has no meaning in a class", at)
    return found
