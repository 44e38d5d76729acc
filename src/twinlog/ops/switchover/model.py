"""The values of a switchover: its options, the facts of both clusters, and what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from twinlog.errors import TwinlogError
from twinlog.model.types import Alias, TopicName, TopicPartition

Data = dict[str, Any]
"""What a step writes down: values of JSON only."""


class SwitchoverKind(StrEnum):
    """What is done: a planned switchover, one whose source is lost, or the way back of either."""

    PLANNED = "planned"
    EMERGENCY = "emergency"
    BACK = "back"


class FenceMethod(StrEnum):
    """How producers are kept from the source: refused by an ACL, throttled by a quota, or stopped by the operator."""

    ACL = "acl"
    QUOTA = "quota"
    NONE = "none"


class SwitchoverState(StrEnum):
    """How far a switchover is; the last three are ends. After `RETURNED` there was a way back."""

    RUNNING = "running"
    ABORTING = "aborting"
    ABORTED = "aborted"
    DONE = "done"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class SwitchoverOptions:
    """What the operator asked for. Times are seconds; `fence` None chooses by the source's authorizer.

    `near` is the lag in records below which producers are fenced. When producers have been fenced for `at_most_s` and
    not everything is copied, all is undone.
    """

    kind: SwitchoverKind
    fence: FenceMethod | None = None
    near: int = 10_000
    at_most_s: float = 600.0

    def data(self) -> Data:
        """The options as values of JSON."""
        return {"kind": self.kind, "fence": self.fence, "near": self.near, "at_most_s": self.at_most_s}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> SwitchoverOptions:
        """The options that `data` made."""
        fence = data.get("fence")
        return cls(
            SwitchoverKind(data["kind"]),
            FenceMethod(fence) if fence else None,
            int(data["near"]),
            float(data["at_most_s"]),
        )


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """Where a partition of the source ends: the next offset of its leader, and up to where records are readable: on
    all in-sync replicas, and in no open transaction."""

    end: int
    stable: int


@dataclass(frozen=True, slots=True)
class CopiedPosition:
    """How far a source partition is copied, and the target offset that follows; None when that is not stored."""

    source: int
    target: int | None


@dataclass(frozen=True, slots=True)
class MovedTopic:
    """A topic that moves: its copy on the target, and what its producers write to there."""

    name: TopicName
    remote: TopicName
    partitions: int
    producers: TopicName

    @property
    def keeps_name(self) -> bool:
        """Whether producers go on after the copies, so that the way back must begin at the cut."""
        return self.producers == self.remote


@dataclass(frozen=True, slots=True)
class Preflight:
    """What the pre-flight check found. `problems` prevent the switchover, `notes` are for the operator to know."""

    topics: tuple[MovedTopic, ...]
    fence: FenceMethod
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    lag: int = 0
    rate: float | None = None
    """Records per second copied while it looked; None when nothing had to be."""
    groups: tuple[str, ...] = ()
    """The groups of the source."""


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A committed offset of a group on the source and where it is on the target; `exact` ones repeat nothing."""

    group: str
    source: TopicPartition
    offset: int
    target: TopicPartition
    there: int | None
    exact: bool = False
    present: int | None = None
    """What the group has committed on the target so far."""
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class MovedGroups:
    """The groups of a flow: states on both clusters by group ("" where it is not), and their offsets."""

    source_states: Mapping[str, str]
    target_states: Mapping[str, str]
    offsets: tuple[GroupOffset, ...]
    troubles: Mapping[str, str] = field(default_factory=dict)


class NotReadyError(TwinlogError):
    """The pre-flight found what prevents a switchover; nothing was changed."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class UnderWayError(TwinlogError):
    """Another process works on a switchover of these clusters, or one of another kind is not at its end."""


class TooLongError(TwinlogError):
    """Producers have been fenced for as long as the operator allows."""


@dataclass(frozen=True, slots=True)
class SwitchoverDirection:
    """The clusters: `source` is moved from, `target` moved to. Topics that move apart from others are a `wave`."""

    source: Alias
    target: Alias
    wave: str = ""

    @property
    def back(self) -> SwitchoverDirection:
        """The other direction."""
        return SwitchoverDirection(self.target, self.source, self.wave)

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"
