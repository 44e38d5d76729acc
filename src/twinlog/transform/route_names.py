"""Names of topics that no transform may route records to."""

from __future__ import annotations

import re

from twinlog.errors import TransformError

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_INTERNAL = re.compile(r"__.*|.*[.-]internal|(.*\.)?heartbeats")


def check_name(name: str) -> None:
    """Raise TransformError where records cannot be routed to topic `name`, whatever topic they come from."""
    if not _LEGAL.fullmatch(name) or name in {".", ".."}:
        raise TransformError(f"it routes records to {name!r}, which is no legal topic name")
    if _INTERNAL.fullmatch(name):
        raise TransformError(f"it routes records to {name}, which is an internal topic")
