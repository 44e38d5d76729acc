"""The plan of a flow, as values: each topic to create, change and copy, and each problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from twinlog.model.acls import TopicAcl
from twinlog.model.types import Alias, GroupId, TopicName

ProblemKind = Literal[
    "cluster",
    "permission",
    "clash",
    "record-limit",
    "replication-factor",
    "refused",
    "disk",
    "gap",
    "cycle",
    "renamed",
    "unread",
    "class",
]


@dataclass(frozen=True, slots=True)
class NewRemoteTopic:
    """A topic to create. `source` is the original of a copy, None for an internal topic of the flow.

    A replication factor of -1 is the broker's default.
    """

    cluster: Alias
    name: TopicName
    source: TopicName | None
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "topic": self.name,
            "source": self.source,
            "partitions": self.partitions,
            "replication_factor": self.replication_factor,
            "configs": dict(self.configs),
        }


@dataclass(frozen=True, slots=True)
class PartitionGrowth:
    """A remote topic that gets more partitions."""

    name: TopicName
    old: int
    new: int

    def as_json(self) -> dict[str, Any]:
        return {"topic": self.name, "old": self.old, "new": self.new}


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting of a topic that changes; `old` None is a default that the topic has, `new` None the cluster's own."""

    cluster: Alias
    topic: TopicName
    name: str
    old: str | None
    new: str | None

    def as_json(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "topic": self.topic,
            "setting": self.name,
            "old": self.old,
            "new": self.new,
        }


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The result for a consumer group's offsets: committed on the target, in step already, or staying, with the
    reason."""

    group: GroupId
    partitions: int
    becomes: Literal["moves", "in-step", "stays"]
    why: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"group": self.group, "partitions": self.partitions, "becomes": self.becomes, "why": self.why}


@dataclass(frozen=True, slots=True)
class TopicCopyPlan:
    """The part of a topic to copy: offsets, which are at least as many as records, and an estimate of bytes.

    `bytes` is None if the sizes of logs are unreadable.
    """

    topic: TopicName
    remote: TopicName
    partitions: int
    records: int
    bytes: int | None
    compacted: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "remote": self.remote,
            "partitions": self.partitions,
            "records": self.records,
            "bytes": self.bytes,
            "compacted": self.compacted,
        }


@dataclass(frozen=True, slots=True)
class ExcludedTopic:
    """A source topic that is left out."""

    topic: TopicName
    why: str

    def as_json(self) -> dict[str, Any]:
        return {"topic": self.topic, "why": self.why}


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that a run would fail at, with the way out."""

    kind: ProblemKind
    text: str

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "text": self.text}


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """The plan of a flow. `rate` is the assumed speed in bytes a second; `notes` are hints for the operator."""

    flow: str
    source: Alias
    target: Alias
    rate: float
    create: tuple[NewRemoteTopic, ...] = ()
    grow: tuple[PartitionGrowth, ...] = ()
    settings: tuple[SettingChange, ...] = ()
    acls: tuple[TopicAcl, ...] = ()
    groups: tuple[GroupPlan, ...] = ()
    copy: tuple[TopicCopyPlan, ...] = ()
    left_out: tuple[ExcludedTopic, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """Offsets to copy."""
        return sum(one.records for one in self.copy)

    @property
    def bytes(self) -> int | None:
        """Bytes to copy, None if the size of a topic is unknown."""
        known = [one.bytes for one in self.copy]
        return None if None in known else sum(one for one in known if one is not None)

    @property
    def seconds(self) -> float | None:
        """How long copying takes at `rate`."""
        return None if self.bytes is None else self.bytes / self.rate

    @property
    def changes(self) -> int:
        """The number of topics, settings and offsets that a run would create, change or commit; 0 when only records are
        left to copy."""
        moving = sum(one.becomes == "moves" for one in self.groups)
        return len(self.create) + len(self.grow) + len(self.settings) + len(self.acls) + moving

    @property
    def done(self) -> bool:
        """Whether a run would be idle; false with a problem, because then it is unknown."""
        return not self.changes and not self.records and not self.problems

    def as_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "source": self.source,
            "target": self.target,
            "done": self.done,
            "problems": _json(self.problems),
            "notes": list(self.notes),
            "create": _json(self.create),
            "grow": _json(self.grow),
            "settings": _json(self.settings),
            "acls": [str(acl) for acl in self.acls],
            "groups": _json(self.groups),
            "copy": {
                "records": self.records,
                "bytes": self.bytes,
                "bytes_per_second": self.rate,
                "seconds": self.seconds,
                "topics": _json(self.copy),
            },
            "not_copied": _json(self.left_out),
        }


def _json(some: Iterable[Any]) -> list[dict[str, Any]]:
    return [one.as_json() for one in some]
