"""Kinds of content in headers: whether `Content-Type` is JSON, and whether `Accept` takes it."""

from __future__ import annotations

import re

_TYPE = re.compile(r"\s*([\w!#$&^.+*-]+/[\w!#$&^.+*-]+)\s*(?:;.*)?", re.ASCII | re.DOTALL)
_ACCEPTED = {"application/json", "application/*", "*/*"}


def is_json(content_type: str) -> bool:
    """Whether a body of this type is JSON."""
    match = _TYPE.fullmatch(content_type)
    return match is not None and match[1].lower() == "application/json"


def accepts_json(accept: str) -> bool:
    """Whether an answer in JSON is wanted. Connect looks at no quality, either."""
    found = (_TYPE.fullmatch(part) for part in accept.split(","))
    return any(match is not None and match[1].lower() in _ACCEPTED for match in found)
