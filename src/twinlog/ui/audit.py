"""The audit log of the console: a line for each action, with the user, the address and the object."""

from __future__ import annotations

import json
import logging

_LOG = logging.getLogger("twinlog.audit")


def audit(user: str, address: str, action: str, **facts: object) -> None:
    """Log an action. Each text is quoted as JSON in ASCII: a name of a topic is unable to forge a line."""
    fields = {"user": user or "-", "address": address, "action": action, **facts}
    _LOG.info("console: %s", " ".join(f"{name}={json.dumps(str(value))}" for name, value in fields.items()))
