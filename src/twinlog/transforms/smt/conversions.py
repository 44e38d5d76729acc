"""Transforms that convert a value: Cast to a number, a boolean or text, and TimestampConverter."""

from __future__ import annotations

import math
import re
from typing import Any

from twinlog.errors import TransformError
from twinlog.transforms.smt.data import (
    DAY_MS,
    DECIMAL,
    TYPES,
    RecordContext,
    Schema,
    SchemaAndValue,
    basics,
    fields_of,
    struct_of,
    with_default,
)
from twinlog.transforms.smt.fields import FieldTransform, Settings, as_object, defaults, names, text
from twinlog.transforms.smt.java_forms import (
    BITS,
    BLANK,
    DateFormat,
    DateFormatError,
    ShortInteger,
    narrowed,
    number_text,
    widened,
    wrapped,
)
from twinlog.transforms.smt.literal import in_its_type, moment_text

CAST_TO = (*BITS, "float32", "float64", "boolean", "string")
_IN_JSON = {"float32": "float", "float64": "double"}

_PER_SECOND = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_SCHEMAS: dict[str, Schema] = {
    "string": {"type": "string"},
    "unix": {"type": "int64"},
    "Date": {"type": "int32", "name": TYPES + "Date", "version": 1},
    "Time": {"type": "int32", "name": TYPES + "Time", "version": 1},
    "Timestamp": {"type": "int64", "name": TYPES + "Timestamp", "version": 1},
}
_TYPE_OF = {TYPES + name: name for name in ("Date", "Time", "Timestamp")}


def parsed_spec(entries: tuple[str, ...]) -> dict[str, str]:
    """The type of each field, or of all under the name "". Raises TransformError."""
    spec: dict[str, str] = {}
    for entry in entries:
        name, colon, kind = entry.partition(":")
        name, kind = (name.strip(), kind.strip().lower()) if colon and kind else ("", name.strip().lower())
        if ":" in kind or kind not in CAST_TO:
            raise TransformError(f"{entry!r} is wrong; expected field:type with a type out of {', '.join(CAST_TO)}")
        spec[name] = kind
    if "" in spec and len(entries) > 1:
        raise TransformError("a bare type is for the whole record, and excludes further entries")
    return spec


def cast(settings: Settings) -> FieldTransform:
    """Cast fields or the whole. A number loses its bits beyond the range of the type, as in Java; null stays null."""
    spec, with_defaults = parsed_spec(names(settings, "spec")), defaults(settings)

    def apply(data: SchemaAndValue, _: RecordContext) -> SchemaAndValue:
        if data.value is None:
            return data
        if "" in spec:
            kept = data.schema.get("name") if data.schema is not None else None
            if kept in _TYPE_OF:
                raise TransformError(f"its schema keeps the name {kept}, and Connect writes only times under this name")
            return SchemaAndValue(_cast_schema(data.schema, spec[""]), _cast(data.value, data.schema, spec[""], "it"))
        value = as_object(data)
        if data.schema is None:
            return SchemaAndValue(
                None, value | {name: _cast(value.get(name), None, kind, name) for name, kind in spec.items()}
            )
        fields, cells = [], {}
        for field in fields_of(data.schema):
            name, kind = field["field"], spec.get(field["field"])
            cell = with_default(field, value[name], with_defaults)
            fields.append(field if kind is None else _cast_field(field, kind))
            cells[name] = cell if kind is None else _cast(cell, field, kind, name)
        schema = struct_of(fields, basics(data.schema))
        return SchemaAndValue(schema | {"optional": data.schema.get("optional") is True}, cells)

    return apply


def _cast_schema(schema: Schema | None, kind: str) -> Schema | None:
    if schema is None:
        return None
    more = {} if schema.get("default") is None else {"default": _cast(schema["default"], schema, kind, "its default")}
    return {"type": _IN_JSON.get(kind, kind), "optional": schema.get("optional") is True} | basics(schema) | more


def _cast_field(field: Schema, kind: str) -> Schema:
    name = field["field"]
    more = {} if field.get("default") is None else {"default": _cast(field["default"], field, kind, name)}
    return {"type": _IN_JSON.get(kind, kind), "optional": field.get("optional") is True, "field": name} | more


def _cast(value: Any, schema: Schema | None, kind: str, name: str) -> Any:
    if value is None:
        return None
    if isinstance(value, (list, dict)):
        raise TransformError(f"{name} is neither number, boolean nor text, and is impossible to cast to {kind}")
    if schema is not None:
        if schema.get("name") == DECIMAL:
            raise TransformError(f"{name} is a decimal, which twinlog leaves uncast")
        if schema.get("type") == "bytes" and kind != "string":
            raise TransformError(f"{name} is bytes, which are cast to text only")
        moment = moment_text(value, schema) if kind == "string" and not isinstance(value, str) else None
        value = in_its_type(value, schema) if moment is None else moment
    if kind == "string":
        return value if isinstance(value, str) else number_text(value)
    return _of_text(value, kind, name) if isinstance(value, str) else _of_number(value, kind)


def _of_number(value: float, kind: str) -> Any:
    if kind == "boolean":
        return value if isinstance(value, bool) else _whole(value, 64) != 0
    if kind in BITS:
        # For a smaller type a float goes through int first, and stops at the ends of int (JLS 5.1.3).
        return _integer(wrapped(_whole(value, 64 if kind == "int64" else 32), BITS[kind]), kind)
    return narrowed(float(value)) if kind == "float32" else widened(value)


def _integer(number: int, kind: str) -> int:
    return number if kind == "int64" else ShortInteger(number)


def _whole(value: float, bits: int) -> int:
    if isinstance(value, int):
        return int(value)
    if math.isnan(value):
        return 0
    most: int = 1 << (bits - 1)
    whole = math.trunc(widened(value)) if math.isfinite(value) else int(math.copysign(most, value))
    return max(-most, min(most - 1, whole))


def _of_text(value: str, kind: str, name: str) -> Any:
    if kind == "boolean":
        return value.lower() == "true"
    if kind in BITS:
        number = int(value) if re.fullmatch(r"[+-]?[0-9]+", value) else None
        if number is None or not -(2 ** (BITS[kind] - 1)) <= number < 2 ** (BITS[kind] - 1):
            raise TransformError(f"{name} is {value!r}, and {kind} is expected")
        return _integer(number, kind)
    trimmed = value.strip(BLANK)
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?", trimmed):
        raise TransformError(f"{name} is {value!r}, and {kind} is expected")
    number_ = float(trimmed.rstrip("fFdD"))
    return narrowed(number_) if kind == "float32" else number_


def timestamp_converter(settings: Settings) -> FieldTransform:
    """Convert the field, or the whole if `field` is empty. Times are read and written in UTC."""
    name, target = text(settings, "field") or "", str(settings["target.type"])
    pattern = text(settings, "format") or ""
    how = DateFormat(pattern) if pattern.strip() else None
    per_second, with_defaults = _PER_SECOND[str(settings["unix.precision"])], defaults(settings)

    def converted(value: Any, given: str | None) -> Any:
        if value is None:
            return None
        try:
            return _written(_ms(value, given, how, per_second), target, how, per_second)
        except DateFormatError as error:
            raise TransformError(str(error)) from None

    def apply(data: SchemaAndValue, _: RecordContext) -> SchemaAndValue:
        if data.schema is None:
            if data.value is None or not name:
                return SchemaAndValue(None, _schemaless(converted(data.value, None), target))
            value = as_object(data)
            return SchemaAndValue(None, value | {name: _schemaless(converted(value.get(name), None), target)})
        if not name:
            schema = _SCHEMAS[target] | {"optional": data.schema.get("optional") is True}
            return SchemaAndValue(schema, converted(data.value, _given(data.schema)))
        struct = as_object(data) if data.value is not None else None
        fields, cells = [], {}
        for field in fields_of(data.schema):
            mine = field["field"] == name
            optional = field.get("optional") is True
            fields.append(_SCHEMAS[target] | {"optional": optional, "field": name} if mine else field)
            if struct is not None:
                cell = with_default(field, struct[field["field"]], with_defaults)
                cells[field["field"]] = converted(cell, _given(field)) if mine else cell
        more: Schema = {"optional": data.schema.get("optional") is True}
        return SchemaAndValue(struct_of(fields, basics(data.schema)) | more, None if struct is None else cells)

    return apply


def _given(schema: Schema) -> str:
    named = _TYPE_OF.get(str(schema.get("name")))
    if named is not None:
        return named
    if schema.get("type") in {"string", "int64"}:
        return "string" if schema["type"] == "string" else "unix"
    raise TransformError(f"a field of the type {schema.get('type')} is unable to hold a time")


def _schemaless(value: Any, target: str) -> Any:
    if value is not None and target not in {"string", "unix"}:
        raise TransformError(f"schemaless JSON lacks {target}; use target.type = unix or string")
    return value


def _ms(value: Any, given: str | None, how: DateFormat | None, per_second: int) -> int:
    if isinstance(value, str) and given in {None, "string"}:
        if how is None:
            raise TransformError("it has a time as text, and format is missing")
        return how.parse(value)
    if not isinstance(value, int) or isinstance(value, bool) or given == "string":
        raise TransformError(f"{value!r} is an invalid time")
    if given is None and isinstance(value, ShortInteger):
        # TimestampConverter.inferTimestampType knows no other class of whole numbers than Long.
        raise TransformError(f"a time has 64 bits, and {value!r} was cast to fewer")
    if given == "Date":
        return value * DAY_MS
    if given in {"Time", "Timestamp"}:
        return value
    if per_second <= 1000:
        return value * (1000 // per_second)
    # Java divides towards zero.
    whole = abs(value) // (per_second // 1000)
    return whole if value >= 0 else -whole


def _written(ms: int, target: str, how: DateFormat | None, per_second: int) -> Any:
    if target == "string":
        assert how is not None
        return how.format(ms)
    if target == "unix":
        if per_second >= 1000:
            return ms * (per_second // 1000)
        return ms // 1000 if ms >= 0 else -(-ms // 1000)
    days = ms // DAY_MS
    if target == "Date" and not -(2**31) <= days < 2**31:
        raise DateFormatError(f"the time {ms} ms is beyond the days that Connect can count to")
    return {"Date": days, "Time": ms % DAY_MS}.get(target, ms)
