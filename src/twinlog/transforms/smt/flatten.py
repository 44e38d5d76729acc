"""Flatten: fields of nested objects become fields of one, named by their way."""

from __future__ import annotations

from typing import Any

from twinlog.errors import TransformError
from twinlog.transforms.smt.converters import Data, Facts
from twinlog.transforms.smt.fields import FieldTransform, Settings, as_object, text
from twinlog.transforms.smt.schemas import Schema, basics, fields_of, struct_of


def flatten(settings: Settings) -> FieldTransform:
    """Lists stay as they are; null stays null."""
    delimiter = text(settings, "delimiter") or ""

    def apply(data: Data, _: Facts) -> Data:
        if data.value is None:
            return data
        value = as_object(data)
        flat: dict[str, Any] = {}
        if data.schema is None:
            _flatten(value, "", delimiter, flat)
            return Data(None, flat)
        schema = data.schema
        fields: list[Schema] = []
        default = schema.get("default") if isinstance(schema.get("default"), dict) else None
        _flatten_schema(schema, value, "", delimiter, (fields, flat), schema.get("optional") is True, default)
        return Data(struct_of(fields, basics(schema)), flat)

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
            raise TransformError(f"the field {name} is a map, which is not flattened where there is a schema")
        shape = {part: field[part] for part in ("type", "items") if part in field}
        more: Schema = {} if instead is None else {"default": instead}
        fields.append(shape | basics(field) | {"optional": may_lack, "field": name} | more)
        flat[name] = instead if cell is None else cell
