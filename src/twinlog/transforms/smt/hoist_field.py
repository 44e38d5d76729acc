"""HoistField: wraps the key or the value as the only field of an object."""

from __future__ import annotations

from twinlog.transforms.smt.converters import Data, Facts
from twinlog.transforms.smt.fields import FieldTransform, Settings, text
from twinlog.transforms.smt.schemas import struct_of


def hoist_field(settings: Settings) -> FieldTransform:
    """A tombstone, too, becomes an object, whose field is null."""
    name = text(settings, "field") or ""

    def apply(data: Data, _: Facts) -> Data:
        schema = None if data.schema is None else struct_of([data.schema | {"field": name}], {})
        return Data(schema, {name: data.value})

    return apply
