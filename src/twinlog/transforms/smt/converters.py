"""Keys and values as data, as Connect's JsonConverter and StringConverter read and write them.

Schemaless data has the types of JSON. Data with a schema keeps its form in JSON (bytes in base64, a date as its number
of days). A struct is completed: a missing field gets its default, or null.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from twinlog.errors import TransformError
from twinlog.settings.smt import SmtConverter
from twinlog.transforms.smt.java_numbers import number_text
from twinlog.transforms.smt.schemas import Schema, complete

TEXT: Schema = {"type": "string", "optional": True}


@dataclass(frozen=True, slots=True)
class SchemaAndValue:
    """A key or a value; `schema` is Connect's, in its JSON form, and None for schemaless data."""

    schema: Schema | None
    value: Any


@dataclass(frozen=True, slots=True)
class RecordContext:
    """The facts that a transform may write into a record beside its own data; `timestamp` in milliseconds."""

    topic: str
    partition: int | None
    timestamp: int | None


NOTHING = SchemaAndValue(None, None)


def read(converter: SmtConverter, content: bytes | None, side: str) -> SchemaAndValue:
    """The data of a key or value. Raises TransformError for bytes that the converter refuses."""
    if content is None:
        return SchemaAndValue(TEXT, None) if converter.kind == "text" else NOTHING
    if converter.kind == "text":
        return SchemaAndValue(TEXT, content.decode(errors="replace"))
    if not content.strip():
        return NOTHING
    try:
        value = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise TransformError(f"the {side} is not JSON: {error}") from None
    if not converter.schemas:
        return SchemaAndValue(None, value)
    if not isinstance(value, dict) or value.keys() != {"schema", "payload"}:
        raise TransformError(
            f"the {side} is JSON without the envelope of schema and payload; set {side}.converter.schemas.enable = "
            "false where there is none"
        )
    schema = value["schema"]
    return SchemaAndValue(
        schema, value["payload"] if schema is None else complete(schema, value["payload"], converter.defaults)
    )


def write(converter: SmtConverter, data: SchemaAndValue) -> bytes | None:
    """The bytes of a key or value; schemaless null is null. Raises TransformError for data that has no bytes."""
    if converter.kind == "text":
        return None if data.value is None else _plain(data.value).encode()
    if data.value is None and (data.schema is None or not converter.schemas):
        return None if data.schema is None else b"null"
    content = {"schema": data.schema, "payload": data.value} if converter.schemas else data.value
    try:
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except ValueError as error:
        if isinstance(error, UnicodeEncodeError):
            raise
        raise TransformError(f"a number has no form in JSON: {error}") from None


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return number_text(value)
    raise TransformError("several fields are not written as text; take one by ExtractField, or name JsonConverter")


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number in JSON")
