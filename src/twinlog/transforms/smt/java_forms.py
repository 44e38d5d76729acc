"""Numbers, times and replacements of matches as Java writes and reads them."""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from twinlog.errors import TransformError
from twinlog.model.java_regex.pattern import JavaPattern

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
BLANK = "".join(map(chr, range(0x21)))
"""The characters that `String.trim` removes."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST_MS = int((datetime(1582, 10, 15, tzinfo=UTC) - _EPOCH).total_seconds()) * 1000
_LATEST_MS = int((datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH).total_seconds()) * 1000
_MONTHS = tuple(
    "January,February,March,April,May,June,July,August,September,October,November,December".split(",")  # noqa: SIM905
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS = frozenset("GyMLdHkKhmsSDFEuazZX")
_LOCAL = frozenset("YwW")
_SAME_MS = {"s": 1000, "m": 60_000} | dict.fromkeys("HkKha", 3_600_000) | {"S": 1}
_PIECES = re.compile(r"''|'(?:[^']|'')*'?|([A-Za-z])\1*|[^A-Za-z']+")
_READ = frozenset("yMLdHkKhmsSEazZX")


class Float32(float):
    """A number of 32 bits in Java: written with the fewest digits that make it unique in 32 bits."""

    __slots__ = ()


class ShortInteger(int):
    """A whole number of 8, 16 or 32 bits in Java: TimestampConverter takes only a `Long` as a time."""

    __slots__ = ()


def narrowed(number: float) -> Float32:
    """The nearest number of 32 bits; infinity beyond the largest number, as in Java."""
    try:
        near = float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return Float32(math.copysign(math.inf, number))
    return Float32(_shortest_of_32(near)) if math.isfinite(near) else Float32(near)


def widened(number: float) -> float:
    """A number in 64 bits: 0.1 of 32 bits is 0.10000000149011612."""
    if isinstance(number, Float32) and math.isfinite(number):
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    return float(number)


def wrapped(number: int, bits: int) -> int:
    """A whole number in so many bits; higher bits are lost."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def number_text(number: float) -> str:
    """`Long.toString`, `Float.toString` or `Double.toString`; booleans are `true` and `false`."""
    if isinstance(number, bool):
        return "true" if number else "false"
    if isinstance(number, int):
        return str(number)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return _scientific(repr(float(number)))


def _shortest_of_32(number: float) -> str:
    for digits in range(9):
        text = f"{number:.{digits}e}"
        if struct.pack("<f", float(text)) == struct.pack("<f", number):
            return text
    return repr(number)


def _scientific(text: str) -> str:
    parts = Decimal(text).as_tuple()
    assert isinstance(parts.exponent, int)
    sign = "-" if parts.sign else ""
    digits = "".join(map(str, parts.digits))
    point = len(digits) + parts.exponent
    digits = digits.strip("0") if not any(parts.digits) else digits.rstrip("0")
    if not digits:
        return f"{sign}0.0"
    if -3 < point <= 7:
        whole = digits[:point].ljust(point, "0") if point > 0 else "0"
        rest = digits[point:] if point > 0 else "0" * -point + digits
        return f"{sign}{whole}.{rest or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


class DateFormatError(ValueError):
    """The pattern is invalid or unsupported here, or a time differs from its pattern."""


class Piece(NamedTuple):
    """A letter of a pattern and the number of its repetitions; literal text has an empty letter."""

    letter: str
    times: int
    text: str


class DateFormat:
    """A pattern, for example `yyyyMMdd`. Raises DateFormatError for an invalid pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._pieces = tuple(_pieces(pattern))
        letters = {piece.letter for piece in self._pieces if piece.letter}
        self.same_ms = min((_SAME_MS.get(letter, 86_400_000) for letter in letters), default=86_400_000)
        """The length in milliseconds of the spans, counted from the epoch, in which all times have the same text."""

    def format(self, ms: int) -> str:
        """The time `ms` after the epoch. Raises DateFormatError before 1582 and after 9999."""
        if not _EARLIEST_MS <= ms <= _LATEST_MS:
            raise DateFormatError(f"the time {ms} ms is outside of the years 1582 to 9999")
        time = _EPOCH + timedelta(milliseconds=ms)
        return "".join(piece.text if not piece.letter else _written(piece, time) for piece in self._pieces)

    def check_readable(self) -> None:
        """Raise DateFormatError for a pattern that is only for writing times."""
        for piece in self._pieces:
            if piece.letter and piece.letter not in _READ:
                raise DateFormatError(f"twinlog reads times by all letters but {piece.letter * piece.times!r}")
            if piece.letter == "y" and piece.times <= 2:
                raise DateFormatError("years of two digits depend on the day they are read; write yyyy")

    def parse(self, text: str) -> int:
        """Milliseconds after the epoch. Text after the time is ignored, and 32 January is 1 February, as in Java."""
        self.check_readable()
        found: dict[str, int] = {}
        at = 0
        for index, piece in enumerate(self._pieces):
            following = self._pieces[index + 1] if index + 1 < len(self._pieces) else None
            abutting = following is not None and bool(following.letter) and _numeric(following) and _numeric(piece)
            at = self._read(piece, text, at, found, abutting=abutting)
        return _together(found)

    def _read(self, piece: Piece, text: str, at: int, found: dict[str, int], *, abutting: bool) -> int:
        if not piece.letter:
            if not text.startswith(piece.text, at):
                raise self._unfit(text)
            return at + len(piece.text)
        if piece.letter in "zZX":
            zone = re.compile(r"Z|(?:GMT|UTC)?(?:([+-])(\d\d):?(\d\d)?)?").match(text, at)
            if zone is None or zone.end() == at:
                raise self._unfit(text)
            if zone[1]:
                minutes = int(zone[2]) * 60 + int(zone[3] or 0)
                found["zone"] = minutes if zone[1] == "+" else -minutes
            return zone.end()
        if not _numeric(piece):
            names = {"a": ("AM", "PM"), "E": _DAYS}.get(piece.letter, _MONTHS)
            for number, name in enumerate(names):
                for form in (name, name[:3]):
                    if text[at : at + len(form)].lower() == form.lower():
                        found[piece.letter] = number + 1 if names is _MONTHS else number
                        return at + len(form)
            raise self._unfit(text)
        digits = re.compile(rf"[ \t]*(\d{{1,{piece.times}}})" if abutting else r"[ \t]*(\d+)", re.ASCII).match(text, at)
        if digits is None or len(digits[1]) > 18:
            raise self._unfit(text)
        found[piece.letter] = int(digits[1])
        return digits.end()

    def _unfit(self, text: str) -> DateFormatError:
        return DateFormatError(f"the time {text!r} differs from {self.pattern}")


def _numeric(piece: Piece) -> bool:
    return bool(piece.letter) and (piece.letter in "yDFHkKhmsSdu" or (piece.letter in "ML" and piece.times < 3))


def _together(found: dict[str, int]) -> int:
    month = found.get("M", found.get("L", 1)) - 1
    hour = found.get("H", found.get("k", 0) % 24)
    if "h" in found or "K" in found:
        hour = found.get("K", found.get("h", 0) % 12) + 12 * found.get("a", 0)
    try:
        first = datetime(found.get("y", 1970) + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        time = first + timedelta(
            days=found.get("d", 1) - 1,
            hours=hour,
            minutes=found.get("m", 0) - found.get("zone", 0),
            seconds=found.get("s", 0),
            milliseconds=found.get("S", 0),
        )
    except (ValueError, OverflowError):
        raise DateFormatError("the time is beyond the year 9999") from None
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _pieces(pattern: str) -> list[Piece]:
    pieces: list[Piece] = []
    for part in _PIECES.finditer(pattern):
        text = part[0]
        if text == "''":
            pieces.append(Piece("", 0, "'"))
        elif text.startswith("'"):
            if len(text) == 1 or not text.endswith("'"):
                raise DateFormatError("a quote is unclosed")
            pieces.append(Piece("", 0, text[1:-1].replace("''", "'")))
        elif part[1]:
            _check_letter(part[1], len(text))
            pieces.append(Piece(part[1], len(text), text))
        else:
            pieces.append(Piece("", 0, text))
    return pieces


def _check_letter(letter: str, count: int) -> None:
    if letter in _LOCAL:
        raise DateFormatError(f"{letter * count!r} counts weeks, which follow the country that a JVM runs in")
    if letter not in _LETTERS:
        raise DateFormatError(f"{letter!r} is outside of SimpleDateFormat's letters; put text in single quotes")
    if letter == "X" and count > 3:
        raise DateFormatError(f"{letter * count!r} is too long for a zone; at most XXX")


def _written(piece: Piece, time: datetime) -> str:
    letter, count = piece.letter, piece.times
    if letter == "y" and count == 2:
        return f"{time.year % 100:02}"
    if letter in "ML" and count >= 3:
        return _MONTHS[time.month - 1] if count > 3 else _MONTHS[time.month - 1][:3]
    if letter == "E":
        return _DAYS[time.weekday()] if count > 3 else _DAYS[time.weekday()][:3]
    if letter in "GazZX":
        long = "Coordinated Universal Time" if count > 3 else "UTC"
        return {"G": "AD", "a": "AM" if time.hour < 12 else "PM", "z": long, "Z": "+0000", "X": "Z"}[letter]
    number = {
        "y": time.year,
        "M": time.month,
        "L": time.month,
        "d": time.day,
        "H": time.hour,
        "k": time.hour or 24,
        "K": time.hour % 12,
        "h": time.hour % 12 or 12,
        "m": time.minute,
        "s": time.second,
        "S": time.microsecond // 1000,
        "D": time.timetuple().tm_yday,
        "F": (time.day - 1) // 7 + 1,
        "u": time.isoweekday(),
    }[letter]
    return f"{number:0{count}}"


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
                raise TransformError("it ends in a lone backslash; write a double backslash for it")
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
            raise TransformError(f"the expression lacks a group named {named[1]!r}")
        return pattern.names[named[1]], named.end()
    if at == len(text) or text[at] not in "0123456789":
        raise TransformError(r"a $ begins a group, for example $1 or ${name}; write \$ for the character")
    group, at = int(text[at]), at + 1
    if group > pattern.groups:
        raise TransformError(f"${group} is a group that the expression lacks")
    while at < len(text) and text[at] in "0123456789" and group * 10 + int(text[at]) <= pattern.groups:
        group, at = group * 10 + int(text[at]), at + 1
    return group, at
