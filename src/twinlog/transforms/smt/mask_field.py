"""MaskField: puts nothing, or a text or number of the user's, in the place of fields."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any

from twinlog.errors import TransformError
from twinlog.transforms.smt.converters import Data, Facts
from twinlog.transforms.smt.fields import FieldTransform, Settings, as_object, defaults, names, text
from twinlog.transforms.smt.java_numbers import BITS, narrowed, wrapped
from twinlog.transforms.smt.schemas import DECIMAL, TYPES, Schema, fields_of, with_default

_DATES = frozenset(f"{TYPES}{name}" for name in ("Date", "Time", "Timestamp"))


def mask_field(settings: Settings) -> FieldTransform:
    """Masks the named fields that are not null: numbers with 0, text with nothing, or all with `replacement`."""
    masked, replacement = frozenset(names(settings, "fields")), text(settings, "replacement")
    with_defaults = defaults(settings)

    def apply(data: Data, _: Facts) -> Data:
        value = as_object(data)
        if data.schema is None:
            found = {name: _masked(None, value.get(name), replacement, name) for name in masked}
            return Data(None, value | found)
        cells = {}
        for field in fields_of(data.schema):
            name = field["field"]
            cell = with_default(field, value[name], with_defaults)
            cells[name] = _masked(field, cell, replacement, name) if name in masked else cell
        return Data(data.schema, cells)

    return apply


def _masked(field: Schema | None, value: Any, replacement: str | None, name: str) -> Any:
    if value is None:
        return None
    kind = _kind(value) if field is None else str(field["type"])
    logical = None if field is None else field.get("name")
    if logical == DECIMAL:
        raise TransformError(f"the field {name} is a decimal, which is not masked here")
    if replacement is None:
        return _nothing(kind, name)
    if logical in _DATES or kind in {"boolean", "array", "map", "struct", "bytes"}:
        raise TransformError(f"the field {name} is of the type {kind}, which takes no replacement")
    return replacement if kind == "string" else _as_number(kind, replacement)


def _kind(value: Any) -> str:
    for kind, name in ((bool, "boolean"), (int, "int64"), (float, "double"), (str, "string"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "map"


def _nothing(kind: str, name: str) -> Any:
    if kind in {"struct", "bytes"}:
        raise TransformError(f"the field {name} is of the type {kind}, which is not masked")
    nothing: dict[str, Any] = {"boolean": False, "string": "", "array": [], "map": {}, "float": 0.0, "double": 0.0}
    return nothing.get(kind, 0)


def _as_number(kind: str, text: str) -> int | float:
    try:
        number = Decimal(text) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) else Decimal("nan")
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise TransformError(f"the replacement {text!r} is no number")
    if kind in {"float", "double"}:
        return narrowed(float(number)) if kind == "float" else float(number)
    return wrapped(int(number), BITS[kind])
