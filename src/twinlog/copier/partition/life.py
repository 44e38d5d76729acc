"""The life of a partition in a copier, from its grant to its release, and the requests of a partition to its copier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from twinlog.errors import DifferenceError, TwinlogError
from twinlog.lease.messages import Grant
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition


class PartitionPhase(Enum):
    """The phase of a partition that the driver granted to a copier::

        granted ──> BEGINNING ──> COPYING ──> RELEASING ──> RELEASED
                      │    │                      │            ↑
                      │    │ error                │ error      │ the driver takes the partition back
                      │    └────────> HELD <──────┘            │
                      │                └───────────────────────┤
                      └────────────────────────────────────────┘
                                      withdrawn

    BEGINNING: the copier looks for the start position, for as long as the clusters take to answer. COPYING: the copier
    reads records and appends them. RELEASING: the copier reads nothing more, waits for the answers to its appends, and
    stores the position; a partition with a final error takes the same way. HELD: the partition waits, with its stored
    position, until the driver takes it back. RELEASED: the partition belongs to the driver again.
    """

    BEGINNING = "beginning"
    COPYING = "copying"
    RELEASING = "releasing"
    HELD = "held"
    RELEASED = "released"


_NEXT = {
    PartitionPhase.BEGINNING: {PartitionPhase.COPYING, PartitionPhase.HELD, PartitionPhase.RELEASED},
    PartitionPhase.COPYING: {PartitionPhase.RELEASING},
    PartitionPhase.RELEASING: {PartitionPhase.HELD, PartitionPhase.RELEASED},
    PartitionPhase.HELD: {PartitionPhase.RELEASED},
    PartitionPhase.RELEASED: set(),
}


class PartitionLife:
    """The phase of a granted partition, and the final `error` of the partition, if it has failed.

    `difference` was found before the partition begins, and reported; None without a difference. `opened` has the first
    offset of each transaction that was open on the target then, by producer id.
    """

    __slots__ = ("difference", "error", "grant", "opened", "phase")

    def __init__(self, grant: Grant) -> None:
        self.grant = grant
        self.phase = PartitionPhase.BEGINNING
        self.error: TwinlogError | None = None
        self.difference: DifferenceError | None = None
        self.opened: Mapping[int, TargetOffset] = {}

    @property
    def source(self) -> TopicPartition:
        return self.grant.source

    @property
    def left(self) -> bool:
        """Whether the copier reads the partition no more."""
        return self.phase is not PartitionPhase.COPYING and self.phase is not PartitionPhase.BEGINNING

    @property
    def failed(self) -> bool:
        """Whether the partition has a final error."""
        return self.error is not None

    def fail(self, error: TwinlogError) -> None:
        """Note the final error of the partition."""
        self.error = error

    def note_difference(self, error: DifferenceError) -> None:
        """Note a difference that was reported before the partition begins."""
        self.difference = error

    def note_opened(self, opened: Mapping[int, TargetOffset]) -> None:
        """Note transactions that are open on the target before the partition begins; an earlier note counts, too."""
        self.opened = {**opened, **self.opened}

    def enter_phase(self, phase: PartitionPhase) -> None:
        """Change to the next phase; the present phase may be repeated. Raises AssertionError for any other change."""
        if phase is not self.phase:
            assert phase in _NEXT[self.phase], f"{self.source}: {phase.value} cannot follow {self.phase.value}"
            self.phase = phase


@dataclass(frozen=True, slots=True)
class FailPartition:
    """End the copying of the partition with a final error."""

    error: TwinlogError


@dataclass(frozen=True, slots=True)
class HoldPartition:
    """The partition has failed: take it out of the copier's work, or stop the flow."""

    error: TwinlogError


@dataclass(frozen=True, slots=True)
class ResolvePosition:
    """Find the position again from the remote log: the target lost the state of the producer, or records."""


@dataclass(frozen=True, slots=True)
class CopyAgain:
    """Find the position after the remaining records of committed transactions, of which the target lost some."""


@dataclass(frozen=True, slots=True)
class AbortTransaction:
    """Abort the open transaction: the partition has failed, and the result of its appends is unknown."""


@dataclass(frozen=True, slots=True)
class AskLimit:
    """Ask for the largest batch of the remote topic, because a record exceeds the known limit."""


@dataclass(frozen=True, slots=True)
class AwaitTransform:
    """Continue once the transform can change records again."""


@dataclass(frozen=True, slots=True)
class PauseFetch:
    """Fetch the partition again after a while; `refusals` counts the refused fetches in a row."""

    reason: str
    refusals: int = 1


@dataclass(frozen=True, slots=True)
class CheckSource:
    """Check the source.

    Its log differs from the copied records from `end` on, or lacks the offset (-1), or the topic is another topic
    (None).
    """

    end: SourceOffset | None
    reason: str | None = None


PartitionRequest: TypeAlias = (
    FailPartition
    | HoldPartition
    | ResolvePosition
    | CopyAgain
    | AbortTransaction
    | AskLimit
    | AwaitTransform
    | CheckSource
    | PauseFetch
)
"""A request of a partition to its copier."""
