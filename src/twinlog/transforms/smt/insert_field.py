"""InsertField: fields with the topic, the partition, the time or a fixed text."""

from __future__ import annotations

from typing import Any

from twinlog.transforms.smt.converters import Data, Facts
from twinlog.transforms.smt.fields import FieldTransform, Settings, as_object, defaults, text
from twinlog.transforms.smt.schemas import TYPES, Schema, basics, cells_of, fields_of, struct_of

_TIMESTAMP: Schema = {"type": "int64", "name": f"{TYPES}Timestamp", "version": 1}
_TYPES: dict[str, Schema] = {
    "topic.field": {"type": "string"},
    "partition.field": {"type": "int32"},
    "timestamp.field": _TIMESTAMP,
    "static.field": {"type": "string"},
}


def insert_field(settings: Settings) -> FieldTransform:
    """Adds fields to an object or struct; null stays null."""
    wanted = [(key, *_parsed(name)) for key in _TYPES if (name := text(settings, key)) is not None]
    with_defaults, static = defaults(settings), text(settings, "static.value")

    def apply(data: Data, facts: Facts) -> Data:
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
            return Data(None, value | added)
        new = [_TYPES[key] | {"optional": optional, "field": name} for key, name, optional in wanted]
        fields = fields_of(data.schema)
        kept = cells_of(fields, value, with_defaults)
        schema = struct_of([*fields, *new], basics(data.schema))
        return Data(schema, dict.fromkeys((field["field"] for field in new), None) | kept | added)

    return apply


def _parsed(name: str) -> tuple[str, bool]:
    """The name of a field, and whether it is optional: `!` after it asks for a required one."""
    return (name[:-1], name[-1] == "?") if name[-1:] in {"?", "!"} else (name, True)
