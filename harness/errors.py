"""What the harness raises when real brokers cannot be had; the message names the way out."""

from __future__ import annotations


class HarnessError(Exception):
    """A child process, its jars or its Java could not be made to work."""
