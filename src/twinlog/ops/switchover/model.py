"""The values of a switchover: its options, the facts of both clusters, and its errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from twinlog.errors import TwinlogError
from twinlog.mirror.groups.move_facts import GroupMove
from twinlog.mirror.topics.journal_keys import direction_name, direction_options
from twinlog.model.types import Alias, TopicName, TopicPartition

Data = dict[str, Any]
"""The data of a step's entry: values of JSON only."""


class SwitchoverKind(StrEnum):
    """The kind: a planned switchover, a switchover whose source is lost, or the way back of either."""

    PLANNED = "planned"
    EMERGENCY = "emergency"
    BACK = "back"


class FenceMethod(StrEnum):
    """How producers are kept from the source: refused by an ACL, throttled by a quota, or stopped by the operator."""

    ACL = "acl"
    QUOTA = "quota"
    NONE = "none"


class NoteKind(StrEnum):
    """The kind of a note of the pre-flight. A later part of the switchover may replace all notes of a kind."""

    SILENT = "silent"
    """The source is silent, and its producers are unfenced."""
    UNCOPIED = "uncopied"
    """The number of the source's records without a copy."""
    LEFT = "left"
    """Records that only the source has: of held and of paused partitions."""
    MEMBERS = "members"
    """The groups with members on a cluster."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class PreflightNote:
    """A note of the pre-flight, for the operator to know."""

    text: str
    kind: NoteKind = NoteKind.OTHER

    def __str__(self) -> str:
        return self.text


def as_notes(found: Iterable[str | PreflightNote]) -> tuple[PreflightNote, ...]:
    """The notes; a text is a note of kind `OTHER`."""
    return tuple(PreflightNote(one) if isinstance(one, str) else one for one in found)


@dataclass(frozen=True, slots=True)
class SwitchoverOptions:
    """The options of the operator. Times are seconds; `fence` None chooses by the source's authorizer.

    `near` is the lag in records below which producers are fenced. When a wait, or the fence, has lasted for `at_most_s`
    and records are still to copy, all is undone.
    """

    kind: SwitchoverKind
    fence: FenceMethod | None = None
    near: int = 10_000
    at_most_s: float = 600.0
    chosen: frozenset[str] = field(default=frozenset(), compare=False)
    """The names of the options among `near` and `at_most_s` that a switchover under way takes over."""

    def chosen_over(self, first: SwitchoverOptions) -> SwitchoverOptions:
        """The options of a switchover that began with `first`, and continues with the chosen options."""
        return replace(
            first,
            near=self.near if "near" in self.chosen else first.near,
            at_most_s=self.at_most_s if "at_most_s" in self.chosen else first.at_most_s,
        )

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
    """The end of a source partition: the next offset of its leader, and the end of the readable records, which are on
    all in-sync replicas and outside open transactions."""

    end: int
    stable: int


@dataclass(frozen=True, slots=True)
class CopiedPosition:
    """How far a source partition is copied, and the target offset that follows; None when the target offset is
    missing."""

    source: int
    target: int | None


@dataclass(frozen=True, slots=True)
class MovedTopic:
    """A moving topic: its copy on the target, and the topic that its producers write to there."""

    name: TopicName
    remote: TopicName
    partitions: int
    producers: TopicName

    @property
    def source_partitions(self) -> list[TopicPartition]:
        """The partitions on the source."""
        return [TopicPartition(self.name, number) for number in range(self.partitions)]

    @property
    def keeps_name(self) -> bool:
        """Whether producers append after the copies, so that the way back must begin at the cut."""
        return self.producers == self.remote


@dataclass(frozen=True, slots=True)
class Preflight:
    """The result of the pre-flight check. `problems` prevent the switchover, `notes` are for the operator to know."""

    topics: tuple[MovedTopic, ...]
    fence: FenceMethod
    problems: tuple[str, ...] = ()
    notes: tuple[PreflightNote, ...] = ()
    lag: int = 0
    rate: float | None = None
    """Copied records per second during the check; None when all records were copied before."""
    groups: tuple[str, ...] = ()
    """The groups of the source."""
    proven: tuple[TopicName, ...] = ()
    """The source topics whose copies are proven equal while the flow runs: the proof is the gate of the move."""
    proof_lag_s: float = 0.0
    """How far the proof is behind the copying, in seconds."""
    foreseen: MovedGroups | None = None
    """The groups as if producers had stopped during the check; None if the check left them unread."""


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A committed offset of a group on the source and its place on the target; with an `exact` place the group repeats
    no record. The offset is None if only the silent source knows it."""

    group: str
    source: TopicPartition
    offset: int | None
    target: TopicPartition
    there: int | None
    exact: bool = False
    present: int | None = None
    """The group's committed offset on the target so far."""
    metadata: str = ""
    past_copies: int | None = None
    """An offset on the target from which on the group repeats no record, if `there` is inexact."""
    move: GroupMove | None = None
    """The commit of an earlier run of this switchover."""
    returned: GroupMove | None = None
    """The move of a finished switchover in the other direction."""
    left_to_switchover: bool = False
    """Whether the source's topic is a copy from the target, in which no flow commits for the group."""
    target_start: int | None = None
    """The first offset of the partition on the target; None if unknown."""
    target_end: int | None = None
    """The end of the partition on the target; None if unknown."""
    source_start: int | None = None
    """The first offset of the partition on the source; None if unknown, or unless the group `begins_by_reset`."""
    source_start_there: int | None = None
    """An offset on the target before which no copy of the source's present records lies; None if unknown."""

    @property
    def begins_by_reset(self) -> bool:
        """Whether the target has deleted the group's position there, or the place, or neither is known."""
        start, known = self.target_start, [one for one in (self.present, self.there) if one is not None]
        return start is not None and (not known or any(one < start for one in known))


@dataclass(frozen=True, slots=True)
class MovedGroups:
    """The groups of a flow: states on both clusters by group ("" if it is absent), and their offsets."""

    source_states: Mapping[str, str]
    target_states: Mapping[str, str]
    offsets: tuple[GroupOffset, ...]
    troubles: Mapping[str, str] = field(default_factory=dict)
    """The reasons, by group, why its offsets on the source are unreadable."""
    source_answers: bool = True
    """False if the offsets on the source are those of the last checkpoints, as the source is lost."""


RefusedCommits = Mapping[tuple[str, TopicPartition], str]
"""The reason, in words, for each refused commit, by its group and its partition on the target."""


class NotReadyError(TwinlogError):
    """The pre-flight found obstacles of a switchover; both clusters are unchanged."""

    kind_id = "TW-SWITCH-12"

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class UnderWayError(TwinlogError):
    """Another process works on a switchover of these clusters, or a switchover of another kind is unfinished."""

    kind_id = "TW-SWITCH-11"


class TooLongError(TwinlogError):
    """Producers have been fenced for as long as the operator allows."""

    kind_id = "TW-SWITCH-10"


@dataclass(frozen=True, slots=True)
class SwitchoverDirection:
    """The clusters: `source` is moved from, `target` moved to. A `wave` moves its topics apart from all other
    topics."""

    source: Alias
    target: Alias
    wave: str = ""

    @property
    def back(self) -> SwitchoverDirection:
        """The other direction."""
        return SwitchoverDirection(self.target, self.source, self.wave)

    @property
    def as_options(self) -> str:
        """The options of a command that moves in this direction."""
        return direction_options(self.source, self.target, self.wave)

    def __str__(self) -> str:
        return direction_name(self.source, self.target)
