"""JSON as records and messages hold it: without spaces."""

from __future__ import annotations

import json
from typing import Any


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
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
