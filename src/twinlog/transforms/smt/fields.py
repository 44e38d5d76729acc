"""Transforms of keys, values and their fields, on an object or on a struct with its schema.

Each function changes a record as the Java class of its name does (Kafka 4.3): ExtractField, Flatten, HoistField,
InsertField, MaskField, ReplaceField, SetSchemaMetadata, ValueToKey.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from twinlog.errors import TransformError
from twinlog.settings.transform import SmtValue
from twinlog.transforms.smt.data import (
    DECIMAL,
    TYPES,
    RecordContext,
    Schema,
    SchemaAndValue,
    basics,
    cells_of,
    field_of,
    fields_of,
    struct_of,
    with_default,
    without_name,
)
from twinlog.transforms.smt.java_forms import BITS, narrowed, wrapped

_TIMESTAMP: Schema = {"type": "int64", "name": f"{TYPES}Timestamp", "version": 1}
_TYPES: dict[str, Schema] = {
    "topic.field": {"type": "string"},
    "partition.field": {"type": "int32"},
    "timestamp.field": _TIMESTAMP,
    "static.field": {"type": "string"},
}
_DATES = frozenset(f"{TYPES}{name}" for name in ("Date", "Time", "Timestamp"))
Settings = Mapping[str, SmtValue]
FieldTransform = Callable[[SchemaAndValue, RecordContext], SchemaAndValue]
"""Changes the key or the value of a record. Raises TransformError for data that Connect's class refuses."""


def extract_field(settings: Settings) -> FieldTransform:
    """Put the field in place of the key or the value; a missing field is null, or an error if the schema lacks it."""
    name = text(settings, "field") or ""
    path = path_of(name, str(settings["field.syntax.version"]))
    with_defaults = defaults(settings)

    def apply(data: SchemaAndValue, _: RecordContext) -> SchemaAndValue:
        if data.schema is None:
            return SchemaAndValue(None, None if data.value is None else _found(data, path))
        schema = data.schema
        for step in path:
            schema = field_of(schema, step, shown=name)
        found = None if data.value is None else _found(data, path)
        return SchemaAndValue(without_name(schema), with_default(schema, found, with_defaults))

    return apply


def _found(data: SchemaAndValue, path: tuple[str, ...]) -> object:
    current: object = as_object(data)
    for step in path:
        if current is None:
            return None
        if not isinstance(current, dict):
            raise TransformError(f"the field {step!r} is missing: its parent is a plain value")
        current = current.get(step)
    return current


def flatten(settings: Settings) -> FieldTransform:
    """Flatten objects and structs. Lists stay as they are; null stays null."""
    delimiter = text(settings, "delimiter") or ""

    def apply(data: SchemaAndValue, _: RecordContext) -> SchemaAndValue:
        if data.value is None:
            return data
        value = as_object(data)
        flat: dict[str, Any] = {}
        if data.schema is None:
            _flatten(value, "", delimiter, flat)
            return SchemaAndValue(None, flat)
        schema = data.schema
        fields: list[Schema] = []
        default = schema.get("default") if isinstance(schema.get("default"), dict) else None
        _flatten_schema(schema, value, "", delimiter, (fields, flat), schema.get("optional") is True, default)
        return SchemaAndValue(struct_of(fields, basics(schema)), flat)

    return apply


def _flatten(value: dict[str, Any], before: str, delimiter: str, flat: dict[str, Any]) -> None:
    for key, cell in value.items():
        name = f"{before}{delimiter}{key}" if before else key
        if isinstance(cell, dict):
            _flatten(cell, name, delimiter, flat)
        else:
            flat[name] = cell


def _flatten_schema(
    schema: Schema,
    value: dict[str, Any] | None,
    before: str,
    delimiter: str,
    out: tuple[list[Schema], dict[str, Any]],
    optional: bool,
    default: dict[str, Any] | None,
) -> None:
    fields, flat = out
    for field in fields_of(schema):
        key = field["field"]
        name = f"{before}{delimiter}{key}" if before else key
        may_lack = optional or field.get("optional") is True
        instead = field.get("default")
        if instead is None and default is not None:
            instead = default.get(key)
        cell = None if value is None else value.get(key)
        if field["type"] == "struct":
            nested = instead if isinstance(instead, dict) else None
            _flatten_schema(field, cell, name, delimiter, out, may_lack, nested)
            continue
        if field["type"] == "map":
            raise TransformError(f"the field {name} is a map, which Flatten refuses in records with a schema")
        shape = {part: field[part] for part in ("type", "items") if part in field}
        more: Schema = {} if instead is None else {"default": instead}
        fields.append(shape | basics(field) | {"optional": may_lack, "field": name} | more)
        # A field of a missing struct stays null, and the converter decides over its default.
        flat[name] = instead if cell is None and value is not None else cell


def hoist_field(settings: Settings) -> FieldTransform:
    """Put the whole into a field of a new object; the field of a tombstone is null."""
    name = text(settings, "field") or ""

    def apply(data: SchemaAndValue, _: RecordContext) -> SchemaAndValue:
        schema = None if data.schema is None else struct_of([data.schema | {"field": name}], {})
        return SchemaAndValue(schema, {name: data.value})

    return apply


def insert_field(settings: Settings) -> FieldTransform:
    """Adds fields to an object or struct; null stays null."""
    wanted = [(key, *_parsed(name)) for key in _TYPES if (name := text(settings, key)) is not None]
    with_defaults, static = defaults(settings), text(settings, "static.value")

    def apply(data: SchemaAndValue, facts: RecordContext) -> SchemaAndValue:
        if data.value is None:
            return data
        known: dict[str, Any] = {
            "topic.field": facts.topic,
            "partition.field": facts.partition,
            "timestamp.field": facts.timestamp,
            "static.field": static,
        }
        added = {name: known[key] for key, name, _ in wanted if known[key] is not None}
        value = as_object(data)
        if data.schema is None:
            return SchemaAndValue(None, value | added)
        new = [_TYPES[key] | {"optional": optional, "field": name} for key, name, optional in wanted]
        fields = fields_of(data.schema)
        kept = cells_of(fields, value, with_defaults)
        schema = struct_of([*fields, *new], basics(data.schema))
        return SchemaAndValue(schema, dict.fromkeys((field["field"] for field in new), None) | kept | added)

    return apply


def _parsed(name: str) -> tuple[str, bool]:
    """The name of a field, and whether the field is optional: a `!` after the name makes it required."""
    return (name[:-1], name[-1] == "?") if name[-1:] in {"?", "!"} else (name, True)


def mask_field(settings: Settings) -> FieldTransform:
    """Mask the named fields: numbers become 0, text becomes empty, or all become `replacement`; null stays null."""
    masked, replacement = frozenset(names(settings, "fields")), text(settings, "replacement")
    with_defaults = defaults(settings)

    def apply(data: SchemaAndValue, _: RecordContext) -> SchemaAndValue:
        value = as_object(data)
        if data.schema is None:
            found = {name: _masked(None, value.get(name), replacement, name) for name in masked}
            return SchemaAndValue(None, value | found)
        cells = {}
        for field in fields_of(data.schema):
            name = field["field"]
            cell = with_default(field, value[name], with_defaults)
            cells[name] = _masked(field, cell, replacement, name) if name in masked else cell
        return SchemaAndValue(data.schema, cells)

    return apply


def _masked(field: Schema | None, value: Any, replacement: str | None, name: str) -> Any:
    if value is None:
        return None
    kind = _kind(value) if field is None else str(field["type"])
    logical = None if field is None else field.get("name")
    if logical == DECIMAL:
        raise TransformError(f"the field {name} is a decimal, which twinlog leaves unmasked")
    if replacement is None:
        return _nothing(kind, name)
    if logical in _DATES or kind in {"boolean", "array", "map", "struct", "bytes"}:
        raise TransformError(f"the field {name} is of the type {kind}, which refuses a replacement")
    return replacement if kind == "string" else _as_number(kind, replacement)


def _kind(value: Any) -> str:
    for kind, name in ((bool, "boolean"), (int, "int64"), (float, "double"), (str, "string"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "map"


def _nothing(kind: str, name: str) -> Any:
    if kind in {"struct", "bytes"}:
        raise TransformError(f"the field {name} is of the type {kind}, which MaskField refuses")
    nothing: dict[str, Any] = {"boolean": False, "string": "", "array": [], "map": {}, "float": 0.0, "double": 0.0}
    return nothing.get(kind, 0)


def _as_number(kind: str, text: str) -> int | float:
    try:
        number = Decimal(text) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) else Decimal("nan")
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise TransformError(f"the replacement {text!r} is an invalid number")
    if kind in {"float", "double"}:
        return narrowed(float(number)) if kind == "float" else float(number)
    return wrapped(int(number), BITS[kind])


def replace_field(settings: Settings) -> FieldTransform:
    """Keep the fields that `include` names, or all fields; the fields of `exclude` are left out. Null stays null."""
    exclude, include = frozenset(names(settings, "exclude")), frozenset(names(settings, "include"))
    pairs = [entry.split(":") for entry in names(settings, "renames")]
    renames = {old: new for old, new, *_ in pairs}
    with_defaults = defaults(settings)

    def kept(name: str) -> bool:
        return name not in exclude and (not include or name in include)

    def apply(data: SchemaAndValue, _: RecordContext) -> SchemaAndValue:
        if data.value is None:
            return data
        value = as_object(data)
        if data.schema is None:
            return SchemaAndValue(None, {renames.get(name, name): cell for name, cell in value.items() if kept(name)})
        fields = [field for field in fields_of(data.schema) if kept(field["field"])]
        new = [field | {"field": renames.get(field["field"], field["field"])} for field in fields]
        cells = {renames.get(name, name): cell for name, cell in cells_of(fields, value, with_defaults).items()}
        return SchemaAndValue(struct_of(new, basics(data.schema)), cells)

    return apply


def value_to_key(settings: Settings) -> Callable[[SchemaAndValue], SchemaAndValue]:
    """Make the key of fields of the value. A missing field is null, or an error if there is a schema."""
    wanted, with_defaults = names(settings, "fields"), defaults(settings)

    def apply(data: SchemaAndValue) -> SchemaAndValue:
        value = as_object(data)
        if data.schema is None:
            return SchemaAndValue(None, {name: value.get(name) for name in wanted})
        fields = [field_of(data.schema, name) for name in wanted]
        return SchemaAndValue(struct_of(fields, {}), cells_of(fields, value, with_defaults))

    return apply


def set_schema_metadata(settings: Settings) -> FieldTransform:
    """Set the name and the version of a schema; a schemaless null stays as it is."""
    new = {"name": settings["schema.name"], "version": settings["schema.version"]}
    new = {part: value for part, value in new.items() if value is not None}
    with_defaults = defaults(settings)

    def apply(data: SchemaAndValue, _: RecordContext) -> SchemaAndValue:
        if data.schema is None:
            if data.value is None:
                return data
            raise TransformError("it lacks a schema to name")
        if data.schema.get("type") != "struct":
            # Connect's class asks every schema for its fields.
            raise TransformError("its schema differs from a struct, and Connect only names structs")
        value = data.value
        if isinstance(value, dict):
            value = cells_of(fields_of(data.schema), value, with_defaults)
        return SchemaAndValue(data.schema | new, value)

    return apply


def names(settings: Settings, key: str) -> tuple[str, ...]:
    """A setting that is a list."""
    found = settings[key]
    assert isinstance(found, tuple)
    return found


def text(settings: Settings, key: str) -> str | None:
    """A setting that is text; None if it is unset."""
    found = settings[key]
    assert found is None or isinstance(found, str)
    return found


def defaults(settings: Settings) -> bool:
    """Whether a null has the default of its schema."""
    return settings["replace.null.with.default"] is True


def as_object(data: SchemaAndValue) -> dict[str, Any]:
    """The fields of data. Raises TransformError for data that lacks fields."""
    if data.schema is not None and data.schema.get("type") != "struct":
        raise TransformError(f"it lacks fields: its schema is {data.schema.get('type')}")
    if not isinstance(data.value, dict):
        raise TransformError(f"it lacks fields: it is {_shown(data.value)}")
    return data.value


def _shown(value: Any) -> str:
    kinds = {type(None): "null", str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list"}
    return kinds.get(type(value), type(value).__name__)


def path_of(text: str, version: str) -> tuple[str, ...]:
    """The names that lead to a field; in version V1 the text is a single name. Raises TransformError."""
    if version.upper() == "V1":
        return (text,)
    steps: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "`":
            step, at = _quoted(text, at)
        else:
            end = text.find(".", at)
            step, at = (text[at:], len(text)) if end < 0 else (text[at:end], end + 1)
        steps.append(step)
    if text.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted(text: str, begin: int) -> tuple[str, int]:
    name = ""
    start = at = begin + 1
    while True:
        at = text.find("`", at)
        escaped = at > 0 and text[at - 1] == "\\"
        if at < 0 or (at >= len(text) - 1 and escaped):
            raise TransformError(f"the backtick at character {begin + 1} is unclosed")
        if at >= len(text) - 1:
            return name + text[start:at], at + 1
        if text[at + 1] != ".":
            at += 1
        elif escaped:
            name += text[start : at - 1] + "`"
            at += 1
            start = at
        else:
            return name + text[start:at], at + 2
