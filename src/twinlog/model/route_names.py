"""Names of topics that no record may be routed to, by a transform or as a dead letter, whatever topic it comes from."""

from __future__ import annotations

import re

from twinlog.errors import TransformError
from twinlog.model.topics import is_legal_topic

_INTERNAL = re.compile(r"__.*|.*[.-]internal|heartbeats")


def check_name(name: str) -> None:
    """Raise TransformError where records cannot be routed to topic `name`, whatever topic they come from."""
    if not is_legal_topic(name):
        raise TransformError(f"it routes records to {name!r}, which is no legal topic name")
    if _INTERNAL.fullmatch(name):
        raise TransformError(f"it routes records to {name}, which is an internal topic")
