"""The state of the topics of a flow at a moment, by partition, as `twinlog topics` and the console show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.proven_ranges import PartitionProven
from twinlog.ops.status.flow import FlowSnapshot
from twinlog.worker.control.records import ControlState


class TopicState(StrEnum):
    """The state of a topic, or of a partition."""

    COPYING = "copying"
    PAUSED = "paused"
    HELD = "held"
    """The copier is stuck in this partition, see `model.held`."""
    ASKED = "asked"
    """A command for this partition is pending."""
    WAITING = "waiting"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """A source partition: its records are copied up to source offset `copied`, which is target offset `target`; the
    source ends at `end`. `copied` is None before the first copied record. None is unknown. `resume` is an offset before
    `copied`: copying resumes there after the log was created again or cut back. Otherwise it is None. `proven` is the
    proof of equality, None while it is unreported."""

    partition: TopicPartition
    state: TopicState
    detail: str = ""
    copied: SourceOffset | None = None
    target: TargetOffset | None = None
    start: SourceOffset | None = None
    end: SourceOffset | None = None
    resume: SourceOffset | None = None
    proven: PartitionProven | None = None

    @property
    def lag(self) -> int | None:
        """Source offsets still to copy, None while unknown."""
        begin = self.start if self.copied is None else self.copied
        begin = begin if self.resume is None else self.resume
        return None if begin is None or self.end is None else max(0, self.end - begin)


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """A source topic by its partitions; a topic that is left out has an empty tuple."""

    topic: TopicName
    remote: TopicName
    partitions: tuple[PartitionSnapshot, ...] = ()
    left_out: str = ""

    @property
    def states(self) -> Mapping[TopicState, list[PartitionSnapshot]]:
        """The partitions in each state that there is."""
        found: dict[TopicState, list[PartitionSnapshot]] = {}
        for part in self.partitions:
            found.setdefault(part.state, []).append(part)
        return found

    @property
    def lag(self) -> int | None:
        """Source offsets still to copy in all partitions, None if the lag of a partition is unknown."""
        lags = [part.lag for part in self.partitions]
        return None if None in lags else sum(lag for lag in lags if lag is not None)


@dataclass(frozen=True, slots=True)
class TopicsSnapshot:
    """The topics of a flow, and the commands for them. `trouble` is the reason why offsets are unknown."""

    flow: FlowSnapshot
    topics: tuple[TopicSnapshot, ...]
    asked: ControlState = field(default_factory=ControlState)
    trouble: str = ""
