"""Reads JSON as Connect's JsonConverter writes it without schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping


def load(data: bytes) -> Mapping[str, object]:
    """A JSON object. Raises ValueError for other content, and for an object that is wrapped with its schema.

    A worker since Kafka 3.0 also refuses an object with its schema.
    """
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("not a JSON object but nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object but {type(value).__name__}")
    if value.keys() == {"schema", "payload"}:
        raise ValueError(
            "it holds its schema too, as written with internal.value.converter.schemas.enable=true before Kafka 3.0; "
            "submit the connector's configuration again"
        )
    return value


def text(fields: Mapping[str, object], name: str) -> str:
    """A field that holds a string. Raises ValueError for another value."""
    value = fields.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is no string but {type(value).__name__}")
    return value


def optional_text(fields: Mapping[str, object], name: str) -> str | None:
    """A field that holds a string, or is null or missing. Raises ValueError for another value."""
    return None if fields.get(name) is None else text(fields, name)


def number(fields: Mapping[str, object], name: str) -> int:
    """A field that holds an integer. Raises ValueError for another value."""
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is no integer but {type(value).__name__}")
    return value


def flag(fields: Mapping[str, object], name: str, *, default: bool) -> bool:
    """A field that holds true or false; another value counts as the default."""
    value = fields.get(name)
    return value if isinstance(value, bool) else default


def strings(fields: Mapping[str, object], name: str) -> dict[str, str]:
    """A field that holds an object of strings; nulls are left out. Raises ValueError for another value."""
    value = fields.get(name)
    if not isinstance(value, dict):
        raise ValueError(f"{name} is no JSON object but {type(value).__name__}")
    for key, one in value.items():
        if one is not None and not isinstance(one, str):
            raise ValueError(f"{name}.{key} is no string but {type(one).__name__}")
    return {key: one for key, one in value.items() if one is not None}
