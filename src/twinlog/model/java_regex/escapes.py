r"""Escapes for characters, alone or in a class: `\t`, `\x41`, `\d`, `\p{Alpha}`."""

from __future__ import annotations

import unicodedata

from twinlog.model.java_regex.char_set import TOP, CharSet
from twinlog.model.java_regex.properties import letter_class, named
from twinlog.model.java_regex.source import Flags, Source

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
        raise source.error("a backslash that nothing follows", at)
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
                raise source.error(r"a \p{ that is never closed", at)
        name = source.chars[begin : source.at - 1]
    else:
        source.at += 1
    found = named(name, any_case=source.has(Flags.IGNORE_CASE), of_unicode=source.has(Flags.UNICODE_CLASSES))
    if found is None:
        raise source.error(rf"a class \p{{{name}}} that Java does not have", at)
    return ~found if complement else found


def _octal(source: Source, at: int) -> int:
    digits = ""
    while len(digits) < (3 if digits[:1] in {"", "0", "1", "2", "3"} else 2) and source.peek() in _OCTAL:
        digits += source.read()
    if not digits:
        raise source.error(r"a \0 without octal digits behind it", at)
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
            raise source.error(r"a \x{ without hexadecimal digits and a } behind it", at)
    elif digits not in _HEX or (char := source.read()) not in _HEX:
        raise source.error(r"a \x without two hexadecimal digits behind it", at)
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
        raise source.error(r"a \u without four hexadecimal digits behind it", at)
    return int("".join(digits), 16)


def _control(source: Source, at: int) -> int:
    char = source.read()
    if not char:
        raise source.error(r"a \c without a character behind it", at)
    return ord(char) ^ 64


def _name(source: Source, at: int) -> int:
    if source.read() != "{":
        raise source.error(r"a \N without a name in braces behind it", at)
    begin = source.at
    while (char := source.read()) != "}":
        if not char:
            raise source.error(r"a \N{ that is never closed", at)
    name = source.chars[begin : source.at - 1].strip()
    try:
        found = unicodedata.lookup(name)
    except KeyError:
        raise source.error(f"a name of a character that is unknown, {name}", at) from None
    if len(found) != 1:
        raise source.error(f"a name of several characters, {name}", at)
    return ord(found)
