"""Values as text, as Connect's SimpleHeaderConverter writes them (Kafka class Values, `convertToString`), in UTC."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from twinlog.errors import TransformError
from twinlog.transforms.smt.java_dates import DateFormat, DateFormatError
from twinlog.transforms.smt.java_numbers import narrowed, number_text
from twinlog.transforms.smt.schemas import DAY_MS, DECIMAL, TYPES, Schema, fields_of

DATE, TIME = DateFormat("yyyy-MM-dd"), DateFormat("HH:mm:ss.SSS'Z'")
TIMESTAMP = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
_UNIT_MS = {f"{TYPES}Date": DAY_MS, f"{TYPES}Time": 1, f"{TYPES}Timestamp": 1}


def header_bytes(value: Any, schema: Schema | None = None) -> bytes | None:
    """The content of a header; null stays null. Raises TransformError for what has no text."""
    if value is None:
        return None
    if schema is not None and schema.get("type") == "bytes" and not _is_decimal(schema):
        return b64decode(value)
    return (value if isinstance(value, str) and not _is_decimal(schema) else _embedded(value, schema)).encode()


def time_text(ms: int) -> str:
    """A time as Connect writes it: of the first day without its date, of midnight without its time."""
    if ms < DAY_MS:
        return TIME.format(ms)
    return (DATE if ms % DAY_MS == 0 else TIMESTAMP).format(ms)


def moment_text(value: int, schema: Schema) -> str | None:
    """A time by its schema; None where that is of no time. Raises TransformError beyond the year 9999."""
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
        raise TransformError("a decimal has no form as a header here")
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
    """A number as Java holds it: of 32 bits where the schema has `float`, never whole where it has `double`."""
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
