"""The literal of InsertHeader: Connect takes it for a number, a time or a boolean first, and writes it as that.

(Kafka class Values, `parseString` and `convertToString`, in a JVM whose zone is UTC.)
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

from twinlog.errors import TransformError
from twinlog.transforms.smt.header_text import DATE, TIME, TIMESTAMP, time_text
from twinlog.transforms.smt.java_dates import DateFormatError
from twinlog.transforms.smt.java_numbers import BLANK, narrowed, number_text

_DELIMITERS = frozenset(':,{}[]"')
_BY_LENGTH = {10: DATE, 13: TIME, 24: TIMESTAMP}


def literal_bytes(literal: str) -> bytes | None:
    """The value of the header. Raises TransformError for a list or a map, which Connect writes in another way."""
    text = _written(literal)
    return None if text is None else text.encode()


def _written(literal: str) -> str | None:
    if not literal.strip(BLANK):
        return literal
    tokens = _tokens(literal)
    first = tokens[0].strip(BLANK)
    if not first or first in {"[", "{"}:
        raise TransformError("Connect reads a list or a map here; text that begins otherwise is written as it is")
    if first in {"null", "true", "false"} and len(tokens) == 1:
        return None if first == "null" else first
    if first[0].isdigit():
        if len(tokens) >= 5 and (time := _temporal(first + "".join(tokens[1:5]))) is not None:
            return time
        if (time := _temporal(first)) is not None:
            return time
    if first[0].isdigit() or first[0] in "+-":
        number = _number(first)
        if number is not None:
            return number
    return literal


def _tokens(text: str) -> list[str]:
    tokens, begin, escaped = [], 0, False
    for at, char in enumerate(text):
        if char in _DELIMITERS and not escaped:
            tokens += [text[begin:at], char] if begin < at else [char]
            begin = at + 1
        escaped = char == "\\" and not escaped
    return tokens if begin == len(text) else [*tokens, text[begin:]]


def _temporal(token: str) -> str | None:
    token = token.replace("\\:", ":")
    how = _BY_LENGTH.get(len(token))
    if how is None:
        return None
    try:
        return time_text(how.parse(token))
    except DateFormatError:
        return None


def _number(token: str) -> str | None:
    try:
        number = Decimal(token) if "_" not in token else Decimal("nan")
    except InvalidOperation:
        return None
    if not number.is_finite():
        return None
    if number == number.to_integral_value() and -(2**63) <= number < 2**63:
        return str(int(number))
    scale = -int(number.as_tuple().exponent)
    if scale == 0:
        return str(number)
    for fitting in (narrowed(float(number)), float(number)):
        if math.isfinite(fitting):
            return number_text(fitting)
    return str(number)
