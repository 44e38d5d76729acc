"""Kinds of content in headers: whether `Content-Type` is JSON, and whether `Accept` takes it."""

from __future__ import annotations

import re

_TYPE = re.compile(r"\s*([\w!#$&^.+*-]+)/([\w!#$&^.+*-]+)\s*((?:;[^,]*)?)", re.ASCII)
_QUALITY = re.compile(r';\s*q\s*=\s*"?([0-9.]+)"?', re.ASCII | re.IGNORECASE)


def is_json(content_type: str) -> bool:
    """Whether a body of this type is JSON; a pattern such as `*/*` may be it, as JAX-RS sees it."""
    match = _TYPE.fullmatch(content_type)
    return match is not None and _means_json(match)


def accepts_json(accept: str) -> bool:
    """Whether an answer in JSON is wanted: the closest of the header's patterns decides."""
    best: tuple[int, bool] | None = None
    for part in accept.split(","):
        match = _TYPE.fullmatch(part)
        if match is not None and _means_json(match):
            closeness = (match[1] != "*") + (match[2] != "*")
            if best is None or closeness >= best[0]:
                best = (closeness, _wanted(match[3]))
    return best is not None and best[1]


def _means_json(match: re.Match[str]) -> bool:
    return match[1].lower() in ("application", "*") and match[2].lower() in ("json", "*")


def _wanted(parameters: str) -> bool:
    quality = _QUALITY.search(parameters)
    try:
        return quality is None or float(quality[1]) > 0
    except ValueError:
        return True
