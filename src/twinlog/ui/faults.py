"""Unexpected errors of the console: only the log has the place in the code."""

from __future__ import annotations

import logging
import traceback

_LOG = logging.getLogger(__name__)


def log_fault(error: Exception, where: str) -> str:
    """Log an unexpected error, and return the text for the page; only the log has the kind of the error.

    The error's own text is left out of both: it may contain a value of a configuration or of a record.
    """
    kind, stack = type(error).__name__, "".join(traceback.format_tb(error.__traceback__))
    _LOG.error("TW-FAULT-04: an unexpected %s at %s:\n%s", kind, ascii(where), stack)
    return "TW-FAULT-04: the console failed; its log has the stack"
