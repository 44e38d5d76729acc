"""The plan of a replay of a partition, and its result. Travels between the driver and tasks: plain values only."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from twinlog.model.topics import DEFAULT_MAX_MESSAGE_BYTES
from twinlog.model.types import TopicPartition
from twinlog.settings.flow import FlowSettings

INTO = "{remote}.replay"
"""Flows leave this topic alone, unless their source has a topic of the same name."""


@dataclass(frozen=True, slots=True)
class PartitionToReplay:
    """The records with source offsets from `start` to below `end`, and their target partition.

    With `begin_lost` the range begins at the present begin of the source's log, after the records that retention
    deleted. A partition with a `problem` is left out.
    """

    source: TopicPartition
    into: TopicPartition
    start: int
    end: int
    max_batch_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    source_id: uuid.UUID | None = None
    problem: str | None = None
    begin_lost: bool = False

    @property
    def offsets(self) -> int:
        """How many offsets there are to read; a measure of the work."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class ReplayRules:
    """How tasks reach both clusters, and for how long a partition may stay silent."""

    flow: FlowSettings
    patience_s: float = 120.0


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A row: `found` records were there already from an earlier replay; the remaining records were appended."""

    part: PartitionToReplay
    found: int = 0
    appended: int = 0
    bytes: int = 0
    problem: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The row as a JSON object; the range ends after its last offset."""
        part = self.part
        return {
            "topic": part.source.topic,
            "partition": part.source.partition,
            "start": part.start,
            "end": part.end,
            "into": part.into.topic,
            "found": self.found,
            "appended": self.appended,
            "bytes": self.bytes,
            "problem": self.problem,
        }
