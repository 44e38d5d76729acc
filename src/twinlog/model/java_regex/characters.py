r"""The characters of an expression: escapes (`\t`, `\x41`, `\p{Alpha}`) and classes in brackets.

The text of an expression is read character by character, after `\Q...\E` and comments. A class has ranges, negation,
classes inside of it, and intersections with `&&`.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import TypeAlias

from twinlog.errors import PatternError
from twinlog.model.java_regex.char_set import (
    TOP,
    CharSet,
    char_set,
    codes,
    letter_class,
    lower,
    named,
    one_in_any_case,
    range_in_any_case,
    swapped,
    upper,
)


class Flags(Flag):
    """The flags that `(?...)` switches."""

    NONE = 0
    UNIX_LINES = auto()
    IGNORE_CASE = auto()
    COMMENTS = auto()
    MULTILINE = auto()
    DOTALL = auto()
    UNICODE_CASE = auto()
    UNICODE_CLASSES = auto()


_BLANKS = frozenset(" \t\n\v\f\r")
_LINE_ENDS = frozenset("\n\r\x85\u2028\u2029")


class Source:
    """A position in an expression, and the flags at the position.

    Past the end every character is empty.

    Under the flag `x`, `peek`, `after` and `read` skip blanks and comments, `raw` reads them: Java knows both, too.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.chars, self._places = _unquoted(text)
        self.at = 0
        self.flags = Flags.NONE

    def has(self, flag: Flags) -> bool:
        """Whether a flag is set at the position."""
        return flag in self.flags

    def peek(self) -> str:
        """The next character; the position stays."""
        if Flags.COMMENTS in self.flags:
            self._skip()
        return self.chars[self.at : self.at + 1]

    def after(self) -> str:
        """The character after the next character; the position moves to it."""
        self.at += 1
        return self.peek()

    def read(self) -> str:
        """The next character; the position moves behind it."""
        char = self.peek()
        self.at += 1
        return char

    def raw(self, ahead: int = 0) -> str:
        """The character so far ahead, blanks and comments included."""
        at = self.at + ahead
        return self.chars[at : at + 1]

    def error(self, why: str, at: int | None = None) -> PatternError:
        """The error for the part that begins at an index of `chars`, or at the position."""
        return PatternError(why, self.place(self.at if at is None else at), self.text)

    def place(self, at: int) -> int:
        """The place in the user's text from which a character of `chars` comes."""
        return self._places[min(at, len(self.chars))] if self._places else min(at, len(self.text))

    def _skip(self) -> None:
        ends = "\n" if Flags.UNIX_LINES in self.flags else _LINE_ENDS
        while (char := self.raw()) and (char in _BLANKS or char == "#"):
            self.at += 1
            if char == "#":
                while (char := self.raw()) and char not in ends:
                    self.at += 1


def _unquoted(text: str) -> tuple[str, list[int] | None]:
    r"""The text after removal of `\Q` and `\E`, and the place of each character in the original text.

    A backslash precedes each quoted sign. Letters stay as they are, in the middle of an escape or of flags, too.
    """
    if r"\Q" not in text:
        return text, None
    chars: list[str] = []
    places: list[int] = []
    at, quotes, begins = 0, False, False
    while at < len(text):
        char, pair = text[at], text[at : at + 2]
        written, taken = char, 1
        if quotes and pair == r"\E":
            quotes, written, taken = False, "", 2
        elif not quotes and char == "\\":
            written, taken = pair, len(pair)
            if pair == r"\Q":
                quotes, begins, written = True, True, ""
        elif quotes and begins and char.isascii() and char.isdigit():
            # The digit might count as the end of an escape before it.
            written = rf"\x3{char}"
        elif quotes and char.isascii() and not char.isalnum():
            written = f"\\{char}"
        if written:
            begins = False
        chars.append(written)
        places += [at] * len(written) if len(written) != taken else range(at, at + taken)
        at += taken
    return "".join(chars), [*places, len(text)]


_CONTROLS = {"a": 7, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9}
_HEX = frozenset("0123456789abcdefABCDEF")
_OCTAL = frozenset("01234567")


def escaped(source: Source, *, begins_range: bool = False) -> int | CharSet | None:
    r"""The code point or the set of an escape, read from the character after its backslash on.

    For an escape of another kind, for example `\b`, the function returns None and stays at its place. Raises
    PatternError for an invalid escape.
    """
    letter, at = source.raw(), source.at - 1
    if not letter:
        raise source.error("a backslash at the end", at)
    if letter in "pP":
        return _property(source, at)
    if letter == "v" and begins_range:
        source.at += 1
        return 11
    found = letter_class(letter, of_unicode=source.has(Flags.UNICODE_CLASSES))
    if found is not None or letter in _CONTROLS or not (letter.isascii() and letter.isalnum()):
        source.at += 1
        return found if found is not None else _CONTROLS.get(letter, ord(letter))
    reads = {"0": _octal, "x": _hexadecimal, "u": _unicode, "c": _control, "N": _name}.get(letter)
    if reads is None:
        return None
    source.at += 1
    return reads(source, at)


def _property(source: Source, at: int) -> CharSet:
    complement = source.raw() == "P"
    name = source.after()
    if name == "{":
        source.after()
        begin = source.at
        while (char := source.read()) != "}":
            if not char:
                raise source.error(r"an unclosed \p{", at)
        name = source.chars[begin : source.at - 1]
    else:
        source.at += 1
    found = named(name, any_case=source.has(Flags.IGNORE_CASE), of_unicode=source.has(Flags.UNICODE_CLASSES))
    if found is None:
        raise source.error(rf"a class \p{{{name}}} that Java lacks", at)
    return ~found if complement else found


def _octal(source: Source, at: int) -> int:
    digits = ""
    while len(digits) < (3 if digits[:1] in {"", "0", "1", "2", "3"} else 2) and source.peek() in _OCTAL:
        digits += source.read()
    if not digits:
        raise source.error(r"a \0 that lacks octal digits behind it", at)
    return int(digits, 8)


def _hexadecimal(source: Source, at: int) -> int:
    digits = source.read()
    if digits == "{":
        digits = ""
        while (char := source.read()) in _HEX:
            digits += char
            if int(digits, 16) > TOP:
                raise source.error("a code beyond the last character of Unicode", at)
        if char != "}" or not digits:
            raise source.error(r"a \x{ that lacks hexadecimal digits and a } behind it", at)
    elif digits not in _HEX or (char := source.read()) not in _HEX:
        raise source.error(r"a \x that lacks two hexadecimal digits behind it", at)
    else:
        digits += char
    return int(digits, 16)


def _unicode(source: Source, at: int) -> int:
    code = _four(source, at)
    if 0xD800 <= code < 0xDC00:
        back = source.at
        if source.read() == "\\" and source.read() == "u":
            low = _four(source, at)
            if 0xDC00 <= low < 0xE000:
                return 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00
        source.at = back
    return code


def _four(source: Source, at: int) -> int:
    digits = [source.read() for _ in range(4)]
    if not all(digit in _HEX for digit in digits):
        raise source.error(r"a \u that lacks four hexadecimal digits behind it", at)
    return int("".join(digits), 16)


def _control(source: Source, at: int) -> int:
    char = source.read()
    if not char:
        raise source.error(r"a \c that lacks a character behind it", at)
    return ord(char) ^ 64


def _name(source: Source, at: int) -> int:
    if source.read() != "{":
        raise source.error(r"a \N that lacks a name in braces behind it", at)
    begin = source.at
    while (char := source.read()) != "}":
        if not char:
            raise source.error(r"an unclosed \N{", at)
    name = source.chars[begin : source.at - 1].strip()
    try:
        found = unicodedata.lookup(name)
    except KeyError:
        raise source.error(f"a name of a character that is unknown, {name}", at) from None
    if len(found) != 1:
        raise source.error(f"a name of several characters, {name}", at)
    return ord(found)


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
                raise source.error("an intersection && that lacks its right side", begin)
            found = last if found is None else _Both(found, last)
        elif char == "]" and (found is not None or waits):
            if closes:
                source.at += 1
            found = _joined(found, singles) if waits else found
            assert found is not None
            return _Not(found) if negative else found
        elif not char:
            raise source.error("an unclosed [", begin)
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
            raise source.error("a range that ends before its beginning, or at a class", at)
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
            raise source.error("a range that lacks its end", at)
        return ord(char)
    found = escaped(source, begins_range=not begins or source.raw(1) == "-")
    if found is None or (not begins and source.chars[at + 1] in "pP"):
        raise source.error(f"an escape \\{source.chars[at + 1]} that is meaningless in a class", at)
    return found
