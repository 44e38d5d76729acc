"""ExtractField: one field in the place of all, by its name or by a path."""

from __future__ import annotations

from twinlog.errors import TransformError
from twinlog.transforms.smt.converters import Data, Facts
from twinlog.transforms.smt.fields import FieldTransform, Settings, as_object, defaults, text
from twinlog.transforms.smt.paths import path_of
from twinlog.transforms.smt.schemas import field_of, with_default, without_name


def extract_field(settings: Settings) -> FieldTransform:
    """The field becomes the key or the value; null where there is none, and an error where a schema lacks it."""
    name = text(settings, "field") or ""
    path = path_of(name, str(settings["field.syntax.version"]))
    with_defaults = defaults(settings)

    def apply(data: Data, _: Facts) -> Data:
        if data.schema is None:
            return Data(None, None if data.value is None else _found(data, path))
        schema = data.schema
        for step in path:
            schema = field_of(schema, step, shown=name)
        found = None if data.value is None else _found(data, path)
        return Data(without_name(schema), with_default(schema, found, with_defaults))

    return apply


def _found(data: Data, path: tuple[str, ...]) -> object:
    current: object = as_object(data)
    for step in path:
        if current is None:
            return None
        if not isinstance(current, dict):
            raise TransformError(f"there is no field {step!r} in what is no object")
        current = current.get(step)
    return current
