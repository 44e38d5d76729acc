"""What transforms of fields have in common: they are given an object, or a struct with its schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twinlog.errors import TransformError
from twinlog.settings.smt import SmtValue
from twinlog.transforms.smt.converters import Data, Facts

Settings = Mapping[str, SmtValue]
FieldTransform = Callable[[Data, Facts], Data]
"""What becomes of the key or the value of one record. Raises TransformError where it is not what Connect asks for."""


def names(settings: Settings, key: str) -> tuple[str, ...]:
    """A setting that is a list."""
    found = settings[key]
    assert isinstance(found, tuple)
    return found


def text(settings: Settings, key: str) -> str | None:
    """A setting that is text, None where it is not set."""
    found = settings[key]
    assert found is None or isinstance(found, str)
    return found


def defaults(settings: Settings) -> bool:
    """Whether a null has the default of its schema."""
    return settings["replace.null.with.default"] is True


def as_object(data: Data) -> dict[str, Any]:
    """The fields of data. Raises TransformError where it has none."""
    if data.schema is not None and data.schema.get("type") != "struct":
        raise TransformError(f"it has no fields: its schema is {data.schema.get('type')}")
    if not isinstance(data.value, dict):
        raise TransformError(f"it has no fields: it is {_shown(data.value)}")
    return data.value


def _shown(value: Any) -> str:
    kinds = {type(None): "null", str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list"}
    return kinds.get(type(value), type(value).__name__)
