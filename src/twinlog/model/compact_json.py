"""Compact JSON in records and messages."""

from __future__ import annotations

import json
from typing import Any

MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""The errors of a record with malformed JSON, which any program with WRITE on the topic may append.

`1e400` is an OverflowError because it is beyond the integers, 100,000 nested brackets are a RecursionError.
"""


def ascii_json(value: Any) -> bytes:
    """The JSON of any text in ASCII, including text that is invalid Unicode, for example a strange file name."""
    return json.dumps(value, separators=(",", ":")).encode()


def utf8_json(value: Any) -> bytes:
    """The JSON in UTF-8, as Connect's JsonConverter writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def object_of(data: bytes | None) -> dict[str, Any]:
    """The fields of a JSON object; empty for any other data."""
    try:
        fields = json.loads(data or b"{}")
    except MALFORMED:
        return {}
    return fields if isinstance(fields, dict) else {}
