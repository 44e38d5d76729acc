"""How a flow is doing, in a word."""

from __future__ import annotations

from enum import Enum


class FlowState(Enum):
    STARTING = "starting"
    RUNNING = "running"
    DONE = "caught up"
    HELD = "caught up, but for held partitions"
    """Everything was copied but for partitions that cannot be copied further."""
    NOTHING = "nothing to copy"
    """No topic is mirrored, so that there was nothing to catch up with."""
    FAILED = "failed"
    STOPPED = "stopped"
