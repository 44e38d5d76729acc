"""SetSchemaMetadata: another name or version for the schema of the key or the value."""

from __future__ import annotations

from twinlog.errors import TransformError
from twinlog.transforms.smt.converters import Data, Facts
from twinlog.transforms.smt.fields import FieldTransform, Settings, defaults
from twinlog.transforms.smt.schemas import cells_of, fields_of


def set_schema_metadata(settings: Settings) -> FieldTransform:
    """A null without a schema stays as it is."""
    new = {"name": settings["schema.name"], "version": settings["schema.version"]}
    new = {part: value for part, value in new.items() if value is not None}
    with_defaults = defaults(settings)

    def apply(data: Data, _: Facts) -> Data:
        if data.schema is None:
            if data.value is None:
                return data
            raise TransformError("it has no schema to be named")
        if data.schema.get("type") != "struct":
            # Connect's class asks every schema for its fields.
            raise TransformError("its schema is no struct, and Connect names no other")
        value = data.value
        if isinstance(value, dict):
            value = cells_of(fields_of(data.schema), value, with_defaults)
        return Data(data.schema | new, value)

    return apply
