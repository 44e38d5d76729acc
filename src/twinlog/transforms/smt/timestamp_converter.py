"""TimestampConverter: times as text, as a number, or as a type of time from Connect."""

from __future__ import annotations

from typing import Any

from twinlog.errors import TransformError
from twinlog.transforms.smt.converters import RecordContext, SchemaAndValue
from twinlog.transforms.smt.fields import FieldTransform, Settings, as_object, defaults, text
from twinlog.transforms.smt.java_dates import DateFormat, DateFormatError
from twinlog.transforms.smt.schemas import DAY_MS, TYPES, Schema, basics, fields_of, struct_of, with_default

_PER_SECOND = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_SCHEMAS: dict[str, Schema] = {
    "string": {"type": "string"},
    "unix": {"type": "int64"},
    "Date": {"type": "int32", "name": TYPES + "Date", "version": 1},
    "Time": {"type": "int32", "name": TYPES + "Time", "version": 1},
    "Timestamp": {"type": "int64", "name": TYPES + "Timestamp", "version": 1},
}
_TYPE_OF = {TYPES + name: name for name in ("Date", "Time", "Timestamp")}


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
    raise TransformError(f"a field of the type {schema.get('type')} holds no time")


def _schemaless(value: Any, target: str) -> Any:
    if value is not None and target not in {"string", "unix"}:
        raise TransformError(f"JSON without a schema has no {target}; use target.type = unix or string")
    return value


def _ms(value: Any, given: str | None, how: DateFormat | None, per_second: int) -> int:
    if isinstance(value, str) and given in {None, "string"}:
        if how is None:
            raise TransformError("it has a time as text, and format is not set")
        return how.parse(value)
    if not isinstance(value, int) or isinstance(value, bool) or given == "string":
        raise TransformError(f"{value!r} is no time")
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
        raise DateFormatError(f"the time {ms} ms is on no day that Connect can count to")
    return {"Date": days, "Time": ms % DAY_MS}.get(target, ms)
