"""Keys and values as data, as Connect's JsonConverter and StringConverter read and write them.

Schemaless data has the types of JSON. Data with a schema keeps its form in JSON (bytes in base64, a date as its number
of days). A struct is completed: a missing field gets its default, or null.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from twinlog.errors import TransformError
from twinlog.settings.transform import SmtConverter
from twinlog.transforms.smt.java_forms import DateFormat, number_text

Schema = dict[str, Any]

_PLAIN: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "int8": (int,),
    "int16": (int,),
    "int32": (int,),
    "int64": (int,),
    "float": (int, float),
    "double": (int, float),
    "string": (str,),
    "bytes": (str,),
}
TYPES = "org.apache.kafka.connect.data."
"""The prefix of the names of decimals and times."""

DECIMAL = f"{TYPES}Decimal"
DAY_MS = 86_400_000
_UNIT_MS = {f"{TYPES}Date": DAY_MS, f"{TYPES}Time": 1, f"{TYPES}Timestamp": 1}
JAVA_DATE = DateFormat("EEE MMM dd HH:mm:ss zzz yyyy")
"""The form of `java.util.Date.toString`, for example `Thu Feb 29 00:00:00 UTC 2024`."""

TEXT: Schema = {"type": "string", "optional": True}


def complete(schema: Any, value: Any, defaults: bool, where: str = "") -> Any:
    """`value` with every field of `schema`; nulls are replaced by defaults if `defaults` is true.

    Raises TransformError for a value that differs from the schema, or for an invalid schema.
    """
    place = f"the field {where}" if where else "the payload"
    if not isinstance(schema, dict) or not isinstance(schema.get("type"), str):
        raise TransformError(f"{place} has a schema that lacks a type")
    if value is None:
        if defaults and schema.get("default") is not None:
            return complete(schema, schema["default"], defaults, where)
        if schema.get("optional") is True:
            return None
        raise TransformError(f"{place} is null, but its schema requires it")
    kind = schema["type"]
    if kind == "struct":
        if not isinstance(value, dict):
            raise TransformError(f"{place} should be an object, as its schema is a struct")
        return {
            field["field"]: complete(field, value.get(field["field"]), defaults, _below(where, field["field"]))
            for field in fields_of(schema)
        }
    if kind == "array":
        if not isinstance(value, list):
            raise TransformError(f"{place} should be an array")
        return [complete(schema.get("items"), item, defaults, where) for item in value]
    if kind == "map":
        return _complete_map(schema, value, defaults, where, place)
    kinds = _PLAIN.get(kind)
    if kinds is None:
        raise TransformError(f"{place} has a schema of the unknown type {kind!r}")
    if schema.get("name") == DECIMAL and isinstance(value, (int, float, str)):
        return value
    if not isinstance(value, kinds) or (isinstance(value, bool) and kind != "boolean"):
        raise TransformError(f"{place} is {value!r}, and {kind} is expected")
    return value


def _complete_map(schema: Schema, value: Any, defaults: bool, where: str, place: str) -> Any:
    keys, values = schema.get("keys"), schema.get("values")
    if isinstance(keys, dict) and keys.get("type") == "string":
        if not isinstance(value, dict):
            raise TransformError(f"{place} should be an object, as its schema is a map of strings")
        return {key: complete(values, item, defaults, _below(where, key)) for key, item in value.items()}
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        raise TransformError(f"{place} should be an array of pairs, as its schema is a map")
    return [[complete(keys, key, defaults, where), complete(values, item, defaults, where)] for key, item in value]


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def fields_of(schema: Schema) -> list[Schema]:
    """The fields of a struct. Raises TransformError for nameless fields."""
    fields = schema.get("fields")
    if not isinstance(fields, list) or not all(
        isinstance(field, dict) and isinstance(field.get("field"), str) for field in fields
    ):
        raise TransformError("a struct's schema lacks a list of fields with names")
    return fields


def field_of(schema: Schema, name: str, shown: str | None = None) -> Schema:
    """The field of this name.

    Raises TransformError, with the text `shown` for the name, if the schema lacks the field.
    """
    fields = fields_of(schema) if schema.get("type") == "struct" else []
    for field in fields:
        if field["field"] == name:
            return field
    raise TransformError(f"its schema lacks a field {name if shown is None else shown!r}")


def without_name(field: Schema) -> Schema:
    """The schema of a field, apart from its name."""
    return {key: part for key, part in field.items() if key != "field"}


def basics(schema: Schema) -> Schema:
    """The parts of a schema that Connect keeps when it rebuilds the schema (Kafka class SchemaUtil).

    Default and optional are dropped.
    """
    return {key: schema[key] for key in ("name", "version", "doc", "parameters") if schema.get(key) is not None}


def struct_of(fields: list[Schema], kept: Schema) -> Schema:
    """A struct of these fields. Raises TransformError for two fields of the same name."""
    names = [field["field"] for field in fields]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TransformError(f"there would be two fields {twice!r}")
    return {"type": "struct", "fields": fields, "optional": False} | kept


def with_default(field: Schema, value: Any, defaults: bool) -> Any:
    """A field's value; with `defaults` its default in the place of null (`replace.null.with.default`)."""
    return field.get("default") if value is None and defaults else value


def cells_of(fields: list[Schema], value: dict[str, Any], defaults: bool) -> dict[str, Any]:
    """The values of these fields of a struct; with `defaults` their defaults in the place of nulls."""
    return {field["field"]: with_default(field, value[field["field"]], defaults) for field in fields}


@dataclass(frozen=True, slots=True)
class SchemaAndValue:
    """A key or a value; `schema` is Connect's, in its JSON form, and None for schemaless data."""

    schema: Schema | None
    value: Any


@dataclass(frozen=True, slots=True)
class RecordContext:
    """The facts that a transform may write into a record beside its own data; `timestamp` in milliseconds."""

    topic: str
    partition: int | None
    timestamp: int | None


NOTHING = SchemaAndValue(None, None)


def read(converter: SmtConverter, content: bytes | None, side: str) -> SchemaAndValue:
    """The data of a key or value. Raises TransformError for bytes that the converter refuses."""
    if content is None:
        return SchemaAndValue(TEXT, None) if converter.kind == "text" else NOTHING
    if converter.kind == "text":
        return SchemaAndValue(TEXT, content.decode(errors="replace"))
    if not content.strip():
        return NOTHING
    try:
        value = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise TransformError(f"the {side} is invalid JSON: {error}") from None
    if not converter.schemas:
        return SchemaAndValue(None, value)
    if not isinstance(value, dict) or value.keys() != {"schema", "payload"}:
        raise TransformError(
            f"the {side} is JSON that lacks the envelope of schema and payload; set {side}.converter.schemas.enable = "
            "false for bare JSON"
        )
    schema = value["schema"]
    return SchemaAndValue(
        schema, value["payload"] if schema is None else complete(schema, value["payload"], converter.defaults)
    )


def write(converter: SmtConverter, data: SchemaAndValue) -> bytes | None:
    """The bytes of a key or value; schemaless null is null. Raises TransformError for data impossible to encode."""
    if converter.kind == "text":
        return None if data.value is None else _text_of(data).encode()
    if data.value is None and (data.schema is None or not converter.schemas):
        return None if data.schema is None else b"null"
    payload = _filled(data.schema, data.value) if converter.defaults else data.value
    content = {"schema": data.schema, "payload": payload} if converter.schemas else payload
    try:
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except ValueError as error:
        if isinstance(error, UnicodeEncodeError):
            raise
        raise TransformError(f"a number lacks a form in JSON: {error}") from None


def _filled(schema: Schema | None, value: Any) -> Any:
    """The value with the defaults of its structs' fields in the place of nulls."""
    if schema is None or schema.get("type") != "struct" or value is None:
        return value
    return {
        field["field"]: with_default(field, _filled(field, value[field["field"]]), defaults=True)
        for field in fields_of(schema)
    }


def _text_of(data: SchemaAndValue) -> str:
    """`toString` of a key or value; a date or a time has the form of `java.util.Date`, in UTC."""
    value = data.value
    unit_ms = _UNIT_MS.get(str(data.schema.get("name"))) if isinstance(data.schema, dict) else None
    if unit_ms is not None and isinstance(value, int):
        return JAVA_DATE.format(value * unit_ms)
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return number_text(value)
    raise TransformError("the text form takes a single field; take a field by ExtractField, or name JsonConverter")


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is an invalid number in JSON")
