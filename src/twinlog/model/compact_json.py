"""JSON as records and messages hold it: without spaces."""

from __future__ import annotations

import json
from typing import Any

MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""Errors of a record with JSON of another form, as any program with WRITE on the topic may append it: `1e400` is no
integer (OverflowError), and 100,000 brackets are nested too deep (RecursionError)."""


def ascii_json(value: Any) -> bytes:
    """Whatever the text, also what is no Unicode, such as a strange file name."""
    return json.dumps(value, separators=(",", ":")).encode()


def utf8_json(value: Any) -> bytes:
    """As Connect's JsonConverter writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def object_of(data: bytes | None) -> dict[str, Any]:
    """The fields of a JSON object; none where it is none."""
    try:
        fields = json.loads(data or b"{}")
    except MALFORMED:
        return {}
    return fields if isinstance(fields, dict) else {}
