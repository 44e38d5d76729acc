"""How a flow is doing, in a word."""

from __future__ import annotations

from enum import Enum


class FlowState(Enum):
    STARTING = "starting"
    RUNNING = "running"
    DONE = "caught up"
    HELD = "caught up, but for held partitions"
    """All records were copied, except in held partitions."""
    NOTHING = "nothing to copy"
    """All topics were left out, so the run had nothing to copy."""
    FAILED = "failed"
    STOPPED = "stopped"
