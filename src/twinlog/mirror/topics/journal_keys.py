"""The keys of the journals of switchovers, and the words of their values by which a mirror knows moved groups.

The topic of the journals is on the cluster to move to; each direction of two clusters has a journal there.
"""

from __future__ import annotations

import json
import shlex
from enum import StrEnum
from typing import NamedTuple

from twinlog.model.compact_json import utf8_json
from twinlog.model.types import Alias

RUN = "run"
"""The step of the entry that has the state of the switchover."""


class SwitchoverState(StrEnum):
    """How far a switchover is; the last three are ends. After `RETURNED` there was a way back."""

    RUNNING = "running"
    ABORTING = "aborting"
    ABORTED = "aborted"
    DONE = "done"
    RETURNED = "returned"


class StepPhase(StrEnum):
    """The phase of a step: its intent, or its result."""

    BEGUN = "begun"
    DONE = "done"


class JournalKey(NamedTuple):
    """The key of an entry; a `wave` moves its topics apart from all other topics, and is "" for all topics."""

    direction: str
    wave: str
    step: str
    phase: str = ""

    def encode(self) -> bytes:
        """The key of a record."""
        return utf8_json(self)

    @classmethod
    def decode(cls, key: bytes) -> JournalKey | None:
        """The key that `encode` wrote; None for another key."""
        try:
            parts = json.loads(key)
        except (ValueError, RecursionError):
            return None
        known = isinstance(parts, list) and len(parts) == 4 and all(isinstance(part, str) for part in parts)
        return cls(*parts) if known else None


def direction_name(source: Alias, target: Alias) -> str:
    """The name of a direction in keys and messages."""
    return f"{source}->{target}"


def direction_options(source: Alias, target: Alias, wave: str) -> str:
    """The options of a command that moves the topics of a wave in a direction, for a shell."""
    named = f" --wave {shlex.quote(wave)}" if wave else ""
    return f"--from {source} --to {target}{named}"
