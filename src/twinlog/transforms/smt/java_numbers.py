"""Numbers as Java writes them: `Double.toString` writes `1.0E10`, Python writes `10000000000.0`."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
BLANK = "".join(map(chr, range(0x21)))
"""The characters that `String.trim` removes."""


class Float32(float):
    """A number of 32 bits in Java: written with the fewest digits that make it unique in 32 bits."""

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
