"""Cast: converts between numbers, booleans and text."""

from __future__ import annotations

import math
import re
from typing import Any

from twinlog.errors import TransformError
from twinlog.transforms.smt.converters import RecordContext, SchemaAndValue
from twinlog.transforms.smt.fields import FieldTransform, Settings, as_object, defaults, names
from twinlog.transforms.smt.java_numbers import BITS, BLANK, narrowed, number_text, widened, wrapped
from twinlog.transforms.smt.literal import in_its_type, moment_text
from twinlog.transforms.smt.schemas import DECIMAL, Schema, basics, fields_of, struct_of, with_default

CAST_TO = (*BITS, "float32", "float64", "boolean", "string")
_IN_JSON = {"float32": "float", "float64": "double"}


def parsed_spec(entries: tuple[str, ...]) -> dict[str, str]:
    """The type of each field, or of all under the name "". Raises TransformError."""
    spec: dict[str, str] = {}
    for entry in entries:
        name, colon, kind = entry.partition(":")
        name, kind = (name.strip(), kind.strip().lower()) if colon and kind else ("", name.strip().lower())
        if ":" in kind or kind not in CAST_TO:
            raise TransformError(f"{entry!r} is no field:type with one of {', '.join(CAST_TO)}")
        spec[name] = kind
    if "" in spec and len(entries) > 1:
        raise TransformError("a type without a field is for the whole, and stands alone")
    return spec


def cast(settings: Settings) -> FieldTransform:
    """Cast fields or the whole. A number loses its bits beyond the range of the type, as in Java; null stays null."""
    spec, with_defaults = parsed_spec(names(settings, "spec")), defaults(settings)

    def apply(data: SchemaAndValue, _: RecordContext) -> SchemaAndValue:
        if data.value is None:
            return data
        if "" in spec:
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
        raise TransformError(f"{name} is no number, boolean or text, and has no form as {kind}")
    if schema is not None:
        if schema.get("name") == DECIMAL:
            raise TransformError(f"{name} is a decimal, which is not cast here")
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
        return wrapped(_whole(value, 64 if kind == "int64" else 32), BITS[kind])
    return narrowed(float(value)) if kind == "float32" else widened(value)


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
            raise TransformError(f"{name} is {value!r}, which is no {kind}")
        return number
    trimmed = value.strip(BLANK)
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?", trimmed):
        raise TransformError(f"{name} is {value!r}, which is no {kind}")
    number_ = float(trimmed.rstrip("fFdD"))
    return narrowed(number_) if kind == "float32" else number_
