"""The plan of a flow, as values and as lines for people: each topic to create, change and copy, and each problem."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from twinlog.console.table import shown_duration
from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import ID, with_id
from twinlog.model.acls import TopicAcl
from twinlog.model.amounts import counted, shown_bytes
from twinlog.model.types import Alias, GroupId, TopicName
from twinlog.ops.plan.filled_heads import FilledHead

ProblemKind = Literal[
    "cluster",
    "permission",
    "clash",
    "copied-elsewhere",
    "record-limit",
    "replication-factor",
    "refused",
    "disk",
    "gap",
    "offsets",
    "renamed",
    "unread",
    "class",
]

_IDS: Mapping[ProblemKind, str] = {
    "cluster": "TW-CLUSTER-01",
    "permission": "TW-RIGHT-02",
    "clash": "TW-PLAN-01",
    "copied-elsewhere": "TW-TOPIC-25",
    "record-limit": "TW-PLAN-04",
    "replication-factor": "TW-TOPIC-13",
    "refused": "TW-TOPIC-15",
    "disk": "TW-PLAN-05",
    "gap": "TW-GAP-01",
    "offsets": "TW-IDENT-01",
    "renamed": "TW-NAME-01",
    "unread": "TW-PLAN-07",
    "class": "TW-FILE-32",
}
"""The message id of a problem without an id of its own."""

MOST = 20
"""Lines of a section, unless all are requested."""


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

    `bytes` is None if the sizes of logs are unreadable. With `identical` the copies keep the offsets of their sources.
    """

    topic: TopicName
    remote: TopicName
    partitions: int
    records: int
    bytes: int | None
    compacted: bool = False
    identical: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "remote": self.remote,
            "partitions": self.partitions,
            "records": self.records,
            "bytes": self.bytes,
            "compacted": self.compacted,
            "offsets": "identical" if self.identical else "translated",
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
    """A problem that a run would fail at, with the way out. An empty `cause` is the id of the kind."""

    kind: ProblemKind
    text: str
    cause: str = ""

    @classmethod
    def of(cls, kind: ProblemKind, error: TwinlogError) -> Problem:
        """The problem of an error that a run would end with."""
        found = ID.search(str(error))
        return cls(kind, str(error), error.message_id or ("" if found is None else found[0]))

    @property
    def id(self) -> str:
        """The id that `twinlog explain` takes."""
        return self.cause or _IDS[self.kind]

    @property
    def line(self) -> str:
        """`TW-PLAN-05: disk: ...`."""
        return with_id(f"{self.kind}: {self.text}", self.id)

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "id": self.id, "text": self.text}


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
    fill: tuple[FilledHead, ...] = ()
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
            "fill": _json(self.fill),
            "not_copied": _json(self.left_out),
        }


def _json(some: Iterable[Any]) -> list[dict[str, Any]]:
    return [one.as_json() for one in some]


def plan_lines(plan: FlowPlan, *, everything: bool = False) -> list[str]:
    """The plan of a flow; each section has `MOST` lines at most, or all lines with `everything`."""
    remotes = [one for one in plan.create if one.source is not None]
    own = [one for one in plan.create if one.source is None]
    sections: list[tuple[str, list[str]]] = [
        ("a run would fail, or skip a part of it", [f"! {problem.line}" for problem in plan.problems]),
        (f"topics to create on {plan.target}", [f"+ {_new(one)}" for one in remotes]),
        ("topics to create for twinlog itself", [f"+ {one.cluster}: {_new(one, configs=False)}" for one in own]),
        (
            f"partitions to add on {plan.target}",
            [f"~ {one.name}: {one.old} -> {one.new} partitions" for one in plan.grow],
        ),
        (
            "settings to change",
            [
                f"~ {one.cluster}: {one.topic}: {one.name} {_value(one.old)} -> {_value(one.new)}"
                for one in plan.settings
            ],
        ),
        (f"ACLs to create on {plan.target}", [f"+ {acl}" for acl in plan.acls]),
        ("consumer groups", [_group(one, plan) for one in plan.groups]),
        ("to copy", [_copying(one) for one in plan.copy]),
        ("not copied", _left_out(plan.left_out)),
        ("to know", [f"* {note}" for note in plan.notes]),
    ]
    lines = [_summary(plan)]
    for title, found in sections:
        if found:
            lines += [f"  {title}", *limited([f"    {line}" for line in found], everything)]
    return lines


def limited(lines: Sequence[str], everything: bool) -> list[str]:
    """The first of a section's lines, and how many more there are, unless `everything` is wanted."""
    if everything or len(lines) <= MOST:
        return list(lines)
    return [*lines[:MOST], f"    ... and {len(lines) - MOST} more (--all, -o json)"]


def _summary(plan: FlowPlan) -> str:
    if plan.done:
        text = "nothing is left to do"
    else:
        moving = sum(one.becomes == "moves" for one in plan.groups)
        counts = (
            ("create", len(plan.create), "topic"),
            ("add partitions to", len(plan.grow), "topic"),
            ("change", len(plan.settings), "setting"),
            ("create", len(plan.acls), "ACL"),
            ("move", moving, "group"),
        )
        does = [f"{what} {counted(count, one)}" for what, count, one in counts if count]
        if plan.records:
            does.append(f"copy {_amount(plan.records, plan.bytes)}")
        text = "a run would " + (", ".join(does) or "fail, or skip a part of it")
        if plan.seconds:
            text += f", in about {shown_duration(plan.seconds)} at {shown_bytes(plan.rate)}/s (--rate)"
    problems = f"; {counted(len(plan.problems), 'problem')}" if plan.problems else ""
    return f"{plan.flow}: {text}{problems}"


def _amount(records: int, size: int | None) -> str:
    return counted(records, "record") + (", bytes unknown" if size is None else f", {shown_bytes(size)}")


def _new(one: NewRemoteTopic, *, configs: bool = True) -> str:
    replicas = "the broker's default" if one.replication_factor == -1 else str(one.replication_factor)
    own = ", ".join(f"{name}={value}" for name, value in sorted(one.configs.items())) if configs else ""
    return f"{one.name}: {counted(one.partitions, 'partition')}, replicas: {replicas}" + (f", {own}" if own else "")


def _value(value: str | None) -> str:
    return "default" if value is None else value


def _group(one: GroupPlan, plan: FlowPlan) -> str:
    why = f": {one.why}" if one.why else ""
    partitions = counted(one.partitions, "partition")
    if one.becomes == "moves":
        return f"> {one.group}: offsets of {partitions} are committed on {plan.target} once they are copied{why}"
    if one.becomes == "in-step":
        return f"= {one.group}: offsets of {partitions} are in step{why}"
    return f"- {one.group}: stays{why}"


def _copying(one: TopicCopyPlan) -> str:
    compacted = ", compacted: fewer records than offsets" if one.compacted else ""
    identical = ", identical offsets" if one.identical else ""
    amount = _amount(one.records, one.bytes)
    return f"> {one.topic} -> {one.remote}: {amount} in {counted(one.partitions, 'partition')}{compacted}{identical}"


def _left_out(topics: Iterable[ExcludedTopic]) -> list[str]:
    """Topics by the reason, as most share a few."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for one in topics:
        reasons[one.why].append(one.topic)
    return [f"- {why}: {', '.join(names)}" for why, names in reasons.items()]
