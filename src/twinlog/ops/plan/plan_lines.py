"""A flow's plan as lines for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from twinlog.console.table import shown_duration
from twinlog.model.amounts import shown_bytes
from twinlog.ops.plan.flow_plan import ExcludedTopic, FlowPlan, GroupPlan, NewRemoteTopic, TopicCopyPlan

MOST = 20
"""Lines of a section, unless all are requested."""


def plan_lines(plan: FlowPlan, *, everything: bool = False) -> list[str]:
    """The plan of a flow; each section has `MOST` lines at most, or all lines with `everything`."""
    remotes = [one for one in plan.create if one.source is not None]
    own = [one for one in plan.create if one.source is None]
    sections: list[tuple[str, list[str]]] = [
        ("a run would fail, or not do all of it", [f"! {problem.kind}: {problem.text}" for problem in plan.problems]),
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
    return [*lines[:MOST], f"    ... and {len(lines) - MOST} more (--all, --json)"]


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
        does = [f"{what} {_many(count, one)}" for what, count, one in counts if count]
        if plan.records:
            does.append(f"copy {_amount(plan.records, plan.bytes)}")
        text = "a run would " + (", ".join(does) or "fail, or not do all of it")
        if plan.seconds:
            text += f", in about {shown_duration(plan.seconds)} at {shown_bytes(plan.rate)}/s (--rate)"
    problems = f"; {_many(len(plan.problems), 'problem')}" if plan.problems else ""
    return f"{plan.flow}: {text}{problems}"


def _many(count: int, one: str) -> str:
    return f"{count} {one}{'' if count == 1 else 's'}"


def _amount(records: int, size: int | None) -> str:
    return f"{records:,} records" + (", bytes unknown" if size is None else f", {shown_bytes(size)}")


def _new(one: NewRemoteTopic, *, configs: bool = True) -> str:
    replicas = "the broker's default" if one.replication_factor == -1 else str(one.replication_factor)
    own = ", ".join(f"{name}={value}" for name, value in sorted(one.configs.items())) if configs else ""
    return f"{one.name}: {_many(one.partitions, 'partition')}, replicas: {replicas}" + (f", {own}" if own else "")


def _value(value: str | None) -> str:
    return "default" if value is None else value


def _group(one: GroupPlan, plan: FlowPlan) -> str:
    why = f": {one.why}" if one.why else ""
    partitions = f"{_many(one.partitions, 'partition')}"
    if one.becomes == "moves":
        return f"> {one.group}: offsets of {partitions} are committed on {plan.target} once they are copied{why}"
    if one.becomes == "in-step":
        return f"= {one.group}: offsets of {partitions} are in step{why}"
    return f"- {one.group}: stays{why}"


def _copying(one: TopicCopyPlan) -> str:
    compacted = ", compacted: fewer records than offsets" if one.compacted else ""
    amount = _amount(one.records, one.bytes)
    return f"> {one.topic} -> {one.remote}: {amount} in {_many(one.partitions, 'partition')}{compacted}"


def _left_out(topics: Iterable[ExcludedTopic]) -> list[str]:
    """Topics by the reason, as most share a few."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for one in topics:
        reasons[one.why].append(one.topic)
    return [f"- {why}: {', '.join(names)}" for why, names in reasons.items()]
