"""The callbacks of a copier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twinlog.errors import TwinlogError
from twinlog.model.held import HeldPartition
from twinlog.model.types import TopicPartition


@dataclass(frozen=True, slots=True)
class CopierListener:
    """The functions that a copier calls.

    A copier calls `failed` once per error that stops the flow, `held` when it holds a partition, and `event(kind,
    text)` for operators.
    """

    failed: Callable[[TopicPartition | None, TwinlogError], None]
    event: Callable[[str, str], None]
    held: Callable[[HeldPartition], None] = lambda held: None
