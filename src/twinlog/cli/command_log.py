"""What commands that print answers leave to the log, which is on stderr."""

from __future__ import annotations

import logging


def log_warnings() -> None:
    """Log warnings and errors, without those of Kafka's library: a command reports what could not be read."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


def log_checks() -> None:
    """Log only what no line of the output has: warnings of the checks before a run."""
    log_warnings()
    logging.getLogger("twinlog").setLevel(logging.CRITICAL)
    logging.getLogger("twinlog.mirror.checks").setLevel(logging.WARNING)
