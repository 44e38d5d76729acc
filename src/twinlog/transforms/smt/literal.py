"""Literals of headers: the type of InsertHeader's text, and values as text (Kafka class Values).

`parseString` and `convertToString` behave as in a JVM in the zone UTC.
"""

from __future__ import annotations

import math
from base64 import b64decode
from decimal import Decimal, InvalidOperation
from typing import Any

from twinlog.errors import TransformError
from twinlog.transforms.smt.data import DAY_MS, DECIMAL, TYPES, Schema, fields_of
from twinlog.transforms.smt.java_forms import BLANK, DateFormat, DateFormatError, narrowed, number_text

DATE, TIME = DateFormat("yyyy-MM-dd"), DateFormat("HH:mm:ss.SSS'Z'")
TIMESTAMP = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
_UNIT_MS = {f"{TYPES}Date": DAY_MS, f"{TYPES}Time": 1, f"{TYPES}Timestamp": 1}

_DELIMITERS = frozenset(':,{}[]"')
_BY_LENGTH = {10: DATE, 13: TIME, 24: TIMESTAMP}


def header_bytes(value: Any, schema: Schema | None = None) -> bytes | None:
    """The content of a header; null stays null. Raises TransformError for data that lacks a form as text."""
    if value is None:
        return None
    if schema is not None and schema.get("type") == "bytes" and not _is_decimal(schema):
        return b64decode(value)
    return (value if isinstance(value, str) and not _is_decimal(schema) else _embedded(value, schema)).encode()


def time_text(ms: int) -> str:
    """A time as Connect writes it: on the first day only the time of day, at midnight only the date."""
    if ms < DAY_MS:
        return TIME.format(ms)
    return (DATE if ms % DAY_MS == 0 else TIMESTAMP).format(ms)


def moment_text(value: int, schema: Schema) -> str | None:
    """A time by its schema; None if the schema is of another kind. Raises TransformError beyond the year 9999."""
    unit = _UNIT_MS.get(str(schema.get("name")))
    try:
        return None if unit is None else time_text(value * unit)
    except DateFormatError as error:
        raise TransformError(str(error)) from None


def _is_decimal(schema: Schema | None) -> bool:
    return schema is not None and schema.get("name") == DECIMAL


def _embedded(value: Any, schema: Schema | None) -> str:
    if value is None:
        return "null"
    if _is_decimal(schema):
        raise TransformError("a decimal lacks a form as a header here")
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, dict):
        return f"{{{','.join(f'{_embedded(name, None)}:{text}' for name, text in _fields(value, schema))}}}"
    if isinstance(value, list):
        if schema is not None and schema.get("type") == "map":
            pairs = (f"{_embedded(k, schema['keys'])}:{_embedded(v, schema['values'])}" for k, v in value)
            return f"{{{','.join(pairs)}}}"
        return f"[{','.join(_embedded(item, None if schema is None else schema['items']) for item in value)}]"
    if schema is None:
        return number_text(value)
    moment = moment_text(value, schema)
    return number_text(in_its_type(value, schema)) if moment is None else moment


def in_its_type(value: Any, schema: Schema) -> Any:
    """A number as Java holds it: of 32 bits for the schema `float`, always a float for the schema `double`."""
    if schema.get("type") == "float":
        return narrowed(value)
    return float(value) if schema.get("type") == "double" else value


def _fields(value: dict[str, Any], schema: Schema | None) -> list[tuple[str, str]]:
    if schema is None or schema.get("type") == "map":
        of_values = None if schema is None else schema["values"]
        return [(name, _embedded(cell, of_values)) for name, cell in value.items()]
    return [
        (field["field"], _embedded(field.get("default") if (cell := value[field["field"]]) is None else cell, field))
        for field in fields_of(schema)
    ]


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
