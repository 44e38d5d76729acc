r"""Sets of characters as ranges of code points, and the characters that Java adds to them when it ignores case.

The characters of `\p{...}` and of classes with a letter are those of `java.util.regex` and `java.lang.Character`.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import regex

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


HORIZONTAL = chars("\t", " ", "\xa0", "\u1680", "\u180e", "\u2000-\u200a", "\u202f", "\u205f", "\u3000")
VERTICAL = chars("\n-\r", "\x85", "\u2028-\u2029")
LINE_ENDS = chars("\n", "\r", "\x85", "\u2028-\u2029")

_DIGIT = chars("0-9")
_SPACE = chars("\t-\r", " ")
_LETTER = chars("a-z", "A-Z")
_WORD = _LETTER | _DIGIT | chars("_")
_PUNCT = chars("!-/", ":-@", "[-`", "{-~")
_POSIX = {
    "ASCII": chars("\x00-\x7f"),
    "Alnum": _LETTER | _DIGIT,
    "Alpha": _LETTER,
    "Blank": chars(" ", "\t"),
    "Cntrl": chars("\x00-\x1f", "\x7f"),
    "Digit": _DIGIT,
    "Graph": chars("!-~"),
    "Lower": chars("a-z"),
    "Print": chars(" -~"),
    "Punct": _PUNCT,
    "Space": _SPACE,
    "Upper": chars("A-Z"),
    "XDigit": chars("0-9", "a-f", "A-F"),
    "L1": chars("\x00-\xff"),
    "all": EVERY,
}
_CATEGORIES = re.compile("L[ulmotC]?|M[nec]?|N[dlo]?|Z[slp]?|C[cfosn]?|P[dsecoif]?|S[mcko]?")
_CASES = frozenset({"Lu", "Ll", "Lt"})
_SPACES = r"[\p{Z}\t-\r\x85]"
_ALPHABETIC = r"\p{Alphabetic}"
_IGNORABLE = r"[\x00-\x08\x0e-\x1b\x7f-\x9f\p{Cf}]"
_ANY_CASE = r"[\p{Lowercase}\p{Uppercase}\p{Lt}]"
_JAVA = {
    "LowerCase": r"\p{Lowercase}",
    "UpperCase": r"\p{Uppercase}",
    "TitleCase": r"\p{Lt}",
    "Alphabetic": _ALPHABETIC,
    "Ideographic": r"\p{Ideographic}",
    "Digit": r"\p{Nd}",
    "Defined": r"\P{Cn}",
    "Letter": r"\p{L}",
    "LetterOrDigit": r"[\p{L}\p{Nd}]",
    "JavaIdentifierStart": r"[\p{L}\p{Nl}\p{Sc}\p{Pc}]",
    "JavaIdentifierPart": rf"(?:[\p{{L}}\p{{Nl}}\p{{Sc}}\p{{Pc}}\p{{Nd}}\p{{Mc}}\p{{Mn}}]|{_IGNORABLE})",
    "UnicodeIdentifierStart": r"\p{ID_Start}",
    "UnicodeIdentifierPart": rf"(?:\p{{ID_Continue}}|{_IGNORABLE})",
    "IdentifierIgnorable": _IGNORABLE,
    "SpaceChar": r"\p{Z}",
    "Whitespace": r"(?:(?![\xa0\u2007\u202f])\p{Z}|[\t-\r\x1c-\x1f])",
    "ISOControl": r"[\x00-\x1f\x7f-\x9f]",
    "Mirrored": r"\p{Bidi_Mirrored}",
}
_UNICODE_POSIX = {
    "ALPHA": _ALPHABETIC,
    "LOWER": r"\p{Lowercase}",
    "UPPER": r"\p{Uppercase}",
    "SPACE": _SPACES,
    "PUNCT": r"\p{P}",
    "XDIGIT": r"[\p{Nd}0-9A-Fa-f\uff10-\uff19\uff21-\uff26\uff41-\uff46]",
    "ALNUM": r"[\p{Alphabetic}\p{Nd}]",
    "CNTRL": r"\p{Cc}",
    "DIGIT": r"\p{Nd}",
    "BLANK": r"[\p{Zs}\t]",
    "GRAPH": r"[^\p{Z}\p{Cc}\p{Cs}\p{Cn}]",
    "PRINT": r"(?:[^\p{Z}\p{Cc}\p{Cs}\p{Cn}]|\p{Zs})",
}
_BINARY = {
    "ALPHABETIC": _ALPHABETIC,
    "ASSIGNED": r"\P{Cn}",
    "CONTROL": r"\p{Cc}",
    "HEX_DIGIT": _UNICODE_POSIX["XDIGIT"],
    "IDEOGRAPHIC": r"\p{Ideographic}",
    "JOIN_CONTROL": r"[\u200c\u200d]",
    "LETTER": r"\p{L}",
    "LOWERCASE": r"\p{Lowercase}",
    "NONCHARACTER_CODE_POINT": r"\p{Noncharacter_Code_Point}",
    "TITLECASE": r"\p{Lt}",
    "PUNCTUATION": r"\p{P}",
    "UPPERCASE": r"\p{Uppercase}",
    "WHITE_SPACE": _SPACES,
    "WORD": r"[\p{Alphabetic}\p{Mn}\p{Me}\p{Mc}\p{Nd}\p{Pc}\u200c\u200d]",
}
_TOGETHER = {"HEXDIGIT", "JOINCONTROL", "NONCHARACTERCODEPOINT", "WHITESPACE"}
_CASED_NAMES = {"LOWERCASE", "UPPERCASE", "TITLECASE", "LOWER", "UPPER"}
_NAME = re.compile(r"[A-Za-z0-9_ -]+")


def letter_class(letter: str, *, of_unicode: bool) -> CharSet | None:
    r"""`\d`, `\h`, `\s`, `\v`, `\w`, and with a capital letter all other characters; None for another letter."""
    if letter in "hH":
        found = HORIZONTAL
    elif letter in "vV":
        found = VERTICAL
    elif letter in "dD":
        found = _scanned(r"\p{Nd}") if of_unicode else _DIGIT
    elif letter in "sS":
        found = _scanned(_SPACES) if of_unicode else _SPACE
    elif letter in "wW":
        found = _scanned(_BINARY["WORD"]) if of_unicode else _WORD
    else:
        return None
    return ~found if letter.isupper() else found


def named(name: str, *, any_case: bool, of_unicode: bool) -> CharSet | None:
    r"""The characters of `\p{name}`; None for a name that Java lacks.

    The flags are `i` and `U`.

    For names of scripts and blocks more spellings are accepted than in Java, for example a name that lacks its
    underscore.
    """
    kind, equals, value = name.partition("=")
    if equals:
        kind = kind.lower()
        if kind in {"sc", "script"}:
            return _scanned_if_known("Script", value)
        if kind in {"blk", "block"}:
            return _scanned_if_known("Block", value)
        return _property(value, any_case=any_case) if kind in {"gc", "general_category"} else None
    if name.startswith("In"):
        return _scanned_if_known("Block", name[2:])
    if name.startswith("Is"):
        name = name[2:]
        found = _binary(name.upper(), any_case=any_case) or _property(name, any_case=any_case)
        return found or _scanned_if_known("Script", name)
    posix = _UNICODE_POSIX.get(name.upper()) if of_unicode else None
    if posix is not None:
        return _scanned(_ANY_CASE if any_case and name.upper() in _CASED_NAMES else posix)
    return _property(name, any_case=any_case)


def _binary(name: str, *, any_case: bool) -> CharSet | None:
    if name in _TOGETHER:
        name = next(known for known in _BINARY if known.replace("_", "") == name)
    expression = _BINARY.get(name) or _UNICODE_POSIX.get(name)
    if expression is None:
        return None
    return _scanned(_ANY_CASE if any_case and name in _CASED_NAMES else expression)


def _property(name: str, *, any_case: bool) -> CharSet | None:
    if any_case and (name in _CASES or name in {"javaLowerCase", "javaUpperCase", "javaTitleCase"}):
        return _scanned(r"\p{LC}" if name in _CASES else _ANY_CASE)
    if any_case and name in {"Lower", "Upper"}:
        return _LETTER
    if name in _POSIX:
        return _POSIX[name]
    if _CATEGORIES.fullmatch(name):
        return _scanned(rf"\p{{{name}}}")
    if name == "LD":
        return _scanned(_JAVA["LetterOrDigit"])
    java = _JAVA.get(name.removeprefix("java")) if name.startswith("java") else None
    return None if java is None else _scanned(java)


def _scanned_if_known(kind: str, value: str) -> CharSet | None:
    if _NAME.fullmatch(value) is None:
        return None
    try:
        return _scanned(rf"\p{{{kind}={value}}}")
    except regex.error:
        return None


@lru_cache(maxsize=256)
def _scanned(expression: str) -> CharSet:
    """The code points that a single character of `regex` matches."""
    return char_set((found.start(), found.end() - 1) for found in regex.finditer(f"{expression}+", _every()))


@lru_cache(maxsize=1)
def _every() -> str:
    """A text with each code point at its place."""
    order = "utf-32-le" if sys.byteorder == "little" else "utf-32-be"
    return array("I", range(TOP + 1)).tobytes().decode(order, "surrogatepass")
