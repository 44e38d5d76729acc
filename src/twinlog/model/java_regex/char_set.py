"""Sets of characters as ranges of code points, and the characters that Java adds to them when it ignores case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

TOP = 0x10FFFF
_CASED_BELOW = 0x20000
"""The scripts above have a single case."""

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CharSet:
    """Ranges of code points, ends included, in order, apart from each other."""

    ranges: tuple[Range, ...]

    def __or__(self, other: CharSet) -> CharSet:
        return char_set([*self.ranges, *other.ranges])

    def __and__(self, other: CharSet) -> CharSet:
        return ~(~self | ~other)

    def __invert__(self) -> CharSet:
        gaps, begin = [], 0
        for low, high in self.ranges:
            if begin < low:
                gaps.append((begin, low - 1))
            begin = high + 1
        return CharSet((*gaps, (begin, TOP)) if begin <= TOP else tuple(gaps))


def char_set(ranges: Iterable[Range]) -> CharSet:
    """The set of ranges in any order, which may overlap."""
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return CharSet(tuple(merged))


def chars(*texts: str) -> CharSet:
    """A set of characters and ranges: `chars("a-z", "_")`."""
    return char_set((ord(text[0]), ord(text[-1])) for text in texts)


def codes(found: Iterable[int]) -> CharSet:
    """A set of code points."""
    return char_set((code, code) for code in found)


EVERY = CharSet(((0, TOP),))


def upper(code: int) -> int:
    """`Character.toUpperCase(int)`: a single code point; Python may return several."""
    char = chr(code)
    for found in (char.upper(), char.title()):
        if len(found) == 1:
            return ord(found)
    return code


def lower(code: int) -> int:
    """`Character.toLowerCase(int)`."""
    # Only for the I with a dot above Python returns two characters.
    return ord(chr(code).lower()[0])


def folded(code: int) -> int:
    """The code point by which Java compares characters when it ignores the case of all of Unicode."""
    return lower(upper(code))


@lru_cache(maxsize=1)
def _cased() -> tuple[int, ...]:
    return tuple(code for code in range(_CASED_BELOW) if upper(code) != code or lower(code) != code)


@lru_cache(maxsize=1)
def _by_fold() -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for code in _cased():
        found[folded(code)].append(code)
    return found


def swapped(code: int) -> int:
    """The other case of a letter of US-ASCII, any other code point itself."""
    return code ^ 0x20 if code < 128 and chr(code).isalpha() else code


def one_in_any_case(code: int, *, of_unicode: bool) -> CharSet:
    """The characters that a single character matches under the flag `i`, and under `u` with `of_unicode`."""
    if not of_unicode:
        return codes({code, swapped(code)})
    if upper(code) == folded(code):
        return codes([code])
    return codes({folded(code), *_by_fold().get(folded(code), ())})


def range_in_any_case(low: int, high: int, *, of_unicode: bool) -> CharSet:
    """The characters that a range matches under the flag `i`, and under `u` with `of_unicode`."""
    if of_unicode:
        more = [code for code in _cased() if low <= upper(code) <= high or low <= folded(code) <= high]
    else:
        more = [code for code in range(128) if low <= swapped(code) <= high]
    return char_set([(low, high), *((code, code) for code in more)])
