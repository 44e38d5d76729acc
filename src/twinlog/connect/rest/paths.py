"""Paths as they were sent: a segment is found before it is percent-decoded, so that a name may hold a slash."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor

_ORIGIN = re.compile(r"^https?://[^/]*", re.IGNORECASE)
_BROKEN = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class _Encoded(Convertor[str]):
    """A segment that is percent-encoded UTF-8; a plus sign in it is one."""

    regex = "[^/;][^/]*"

    def convert(self, value: str) -> str:
        """Without the parameters that a segment may have after a semicolon, as JAX-RS has it."""
        return unquote(value.partition(";")[0], encoding="utf-8", errors="replace")

    def to_string(self, value: str) -> str:
        raise NotImplementedError("URLs of routes are not used")


def register() -> None:
    """Make `{name:encoded}` known to routes."""
    register_url_convertor("encoded", _Encoded())


def normal(raw_path: bytes) -> str | None:
    """The path, still encoded, without the slash at its end and the host that a proxy puts before it.

    None where it cannot be decoded.
    """
    if _BROKEN.search(raw_path):
        return None
    try:
        if b"\0" in unquote_to_bytes(raw_path) or not unquote(raw_path, errors="strict"):
            return None
    except UnicodeDecodeError:
        return None
    path = _ORIGIN.sub("", raw_path.decode("ascii", "replace"))
    return path.rstrip("/") or "/"
