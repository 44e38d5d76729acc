"""How many records each consumer group would skip or repeat on a failover, per partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from twinlog.mirror.groups.safe_move import MoveVerdict, Obstacle, true_offset
from twinlog.model.amounts import counted, shown_count
from twinlog.model.topics import listed
from twinlog.ops.audit.report import AuditPart, Finding, Severity
from twinlog.ops.groups.snapshot import GroupPartitionStatus, GroupsSnapshot, GroupStatus

SHOWN = 20
"""The most partitions of a group in a finding."""

IN_PASSING = frozenset({Obstacle.CHECKPOINT_OLD, Obstacle.TARGET_BEHIND, Obstacle.FLOW_BEHIND, Obstacle.NOT_EXACT})
"""Obstacles that a group has while it reads: the flow is some records behind."""

_WAYS_OUT = {
    Obstacle.NOT_COMMITTED: "set sync.group.offsets.enabled = true, or commit offsets on {target} before a failover",
    Obstacle.HIDDEN: "grant the right: `twinlog acls FILE --missing` prints the commands",
    Obstacle.NO_CHECKPOINTS: "set emit.checkpoints.enabled = true and sync.group.offsets.enabled = true",
    Obstacle.NOT_TRANSLATED: "MirrorMaker 2 lacks older offset syncs: let the group read on, or move it by timestamps "
    "(kafka-consumer-groups.sh --reset-offsets --to-datetime)",
    Obstacle.LEFT_TO_SWITCHOVER: "move the group by `twinlog switchover`, which commits this position",
    Obstacle.NAME_TAKEN: "give the consumers on {target} another group id",
    Obstacle.BEYOND_END: "the log on one side was cut or recreated: reset the group's offset there",
    Obstacle.BEFORE_START: "raise retention.ms on {target}, or accept that the group begins by auto.offset.reset",
    Obstacle.NOT_COPIED: "see the part about state and lag: the partition is still to be copied",
}


@dataclass(frozen=True, slots=True)
class GroupFailover:
    """A group and the partitions in which a failover would hurt, with the most records that it would skip or repeat."""

    group: str
    skips: tuple[tuple[GroupPartitionStatus, int], ...] = ()
    repeats: tuple[tuple[GroupPartitionStatus, int], ...] = ()
    unclear: tuple[GroupPartitionStatus, ...] = ()


def failover_of(group: GroupStatus) -> GroupFailover:
    """The result of a failover of a group now."""
    skips, repeats, unclear = [], [], []
    for part in group.partitions:
        verdict = part.verdict
        if verdict.moved or verdict.safe:
            continue
        if verdict.least_skips and verdict.skips:
            skips.append((part, verdict.skips))
        elif verdict.repeats and not _has(verdict, Obstacle.BEFORE_START):
            repeats.append((part, verdict.repeats))
        elif not _is_passing(verdict):
            unclear.append(part)
    return GroupFailover(group.group, tuple(skips), tuple(repeats), tuple(unclear))


def _has(verdict: MoveVerdict, obstacle: Obstacle) -> bool:
    return any(reason.obstacle is obstacle for reason in verdict.reasons)


def _is_passing(verdict: MoveVerdict) -> bool:
    return all(reason.obstacle in IN_PASSING for reason in verdict.reasons)


def group_findings(flow: str, target: str, seen: GroupsSnapshot, *, by_twinlog: bool = False) -> list[Finding]:
    """A finding for each group that would skip records, repeat records, or begin at an unknown offset on the target;
    `by_twinlog` is True if twinlog runs the flow now."""
    found: list[Finding] = []
    for group in seen.groups:
        one = failover_of(group)
        found += _of_skips(flow, target, one)
        found += _of_repeats(flow, target, one, by_twinlog=by_twinlog)
        found += _of_unclear(flow, target, one)
        if not group.partitions:
            text = f"group {group.group}: its offsets on the source are gone, and it has checkpoints on {target}"
            way = f"if the group is deleted on purpose, delete it on {target}, too"
            found.append(Finding("group-unclear", Severity.NOTE, AuditPart.GROUPS, text, way, flow=flow))
    if seen.left_out:
        text = (
            f"{counted(len(seen.left_out), 'group')} with offsets in mirrored topics "
            f"{'is' if len(seen.left_out) == 1 else 'are'} outside the filter of groups: {listed(seen.left_out)}"
        )
        way = "add them to groups, or to groups.exclude if they may lose their offsets on a failover"
        found.append(
            Finding(
                "group-outside",
                Severity.WARNING,
                AuditPart.GROUPS,
                text,
                way,
                len(seen.left_out),
                flow,
                tuple(seen.left_out),
            )
        )
    return found


def _of_skips(flow: str, target: str, one: GroupFailover) -> list[Finding]:
    if not one.skips:
        return []
    count = sum(records for _, records in one.skips)
    text = f"group {one.group} would skip {_records(count, exact=False)} on {target}"
    way = (
        f"if the group has yet to read these records on {target}, stop its consumers there, and set its offsets back "
        "to the numbers after 'should be' (kafka-consumer-groups.sh --reset-offsets --to-offset)"
    )
    lines = _lines(one.skips, lambda part, records: f"{part.facts.source}: {_offsets(part)}, {_skipped(records)}")
    return [Finding("group-skips", Severity.CRITICAL, AuditPart.GROUPS, text, way, count, flow, lines, exact=False)]


def _of_repeats(flow: str, target: str, one: GroupFailover, *, by_twinlog: bool) -> list[Finding]:
    if not one.repeats:
        return []
    count = sum(records for _, records in one.repeats)
    exact = all(part.verdict.repeats_exact for part, _ in one.repeats)
    text = f"group {one.group} would repeat {_records(count, exact=exact)} on {target}"
    if any(_has(part.verdict, Obstacle.LEFT_TO_SWITCHOVER) for part, _ in one.repeats):
        way = _WAYS_OUT[Obstacle.LEFT_TO_SWITCHOVER]
    elif not all(part.facts.syncs for part, _ in one.repeats):
        way = f"set sync.group.offsets.enabled = true, so that offsets are committed on {target}"
    elif not by_twinlog:
        way = (
            "the consumers must accept repeats: MirrorMaker 2 translates offsets only at its offset syncs "
            "(offset.lag.max), and commits them once a minute"
        )
    elif all(part.verdict.heals for part, _ in one.repeats):
        way = f"wait until the group may move: `twinlog groups FILE --group {one.group} --wait`"
    else:
        way = (
            "let the group read on to the records that twinlog copied, or accept repeats: offset syncs of "
            "MirrorMaker 2 (offset.lag.max) prove no nearer offset"
        )
    lines = _lines(
        one.repeats, lambda part, records: f"{part.facts.source}: {_offsets(part)}, {_repeated(part, records)}"
    )
    return [Finding("group-repeats", Severity.NOTE, AuditPart.GROUPS, text, way, count, flow, lines, exact=exact)]


def _records(count: int, *, exact: bool) -> str:
    return f"{shown_count(count, exact=exact)} {'record' if count == 1 else 'records'}"


def _skipped(records: int) -> str:
    # The group may have read them on the target.
    return f"{shown_count(records, exact=False)} skipped"


def _repeated(part: GroupPartitionStatus, records: int) -> str:
    return f"{shown_count(records, exact=part.verdict.repeats_exact)} repeated"


def _of_unclear(flow: str, target: str, one: GroupFailover) -> list[Finding]:
    if not one.unclear:
        return []
    reasons = {reason.obstacle: reason for part in one.unclear for reason in part.verdict.reasons}
    first = next(iter(reasons.values()))
    text = f"group {one.group} is unable to move to {target} in {counted(len(one.unclear), 'partition')}: {first.text}"
    way = _WAYS_OUT.get(first.obstacle, "see `twinlog groups`").format(target=target)
    if first.obstacle is Obstacle.NOT_COMMITTED and all(part.facts.syncs for part in one.unclear):
        way = (
            "wait for the next checkpoint (emit.checkpoints.interval.seconds, sync.group.offsets.interval.seconds), "
            f"or commit offsets on {target} before a failover"
        )
    if first.obstacle is Obstacle.BEFORE_START and all(_is_committed_by_switchover(part) for part in one.unclear):
        way = _WAYS_OUT[Obstacle.LEFT_TO_SWITCHOVER]
    critical = any(reason.obstacle in (Obstacle.NOT_COMMITTED, Obstacle.TARGET_AHEAD) for reason in reasons.values())
    severity = Severity.CRITICAL if critical else Severity.WARNING
    shown = [
        f"{part.facts.source}: {'; '.join(reason.text for reason in part.verdict.reasons)}" for part in one.unclear
    ]
    lines, count = _limited(shown), len(one.unclear)
    return [Finding("group-unclear", severity, AuditPart.GROUPS, text, way, count, flow, lines, group=one.group)]


def _is_committed_by_switchover(part: GroupPartitionStatus) -> bool:
    """Whether a switchover moves the group to a record that the target still has."""
    place, _ = true_offset(part.facts)
    start = part.facts.target_start
    return part.facts.left_to_switchover and place is not None and start is not None and place >= start


def _offsets(part: GroupPartitionStatus) -> str:
    facts = part.facts
    place, exact = true_offset(facts)
    return (
        f"committed {facts.committed} on the source, continues at {facts.resumes} on the target, should be "
        f"{'' if exact else 'at least '}{place}"
    )


def _lines(
    parts: Iterable[tuple[GroupPartitionStatus, int]], line: Callable[[GroupPartitionStatus, int], str]
) -> tuple[str, ...]:
    return _limited([line(part, records) for part, records in sorted(parts, key=lambda one: -one[1])])


def _limited(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) <= SHOWN:
        return tuple(lines)
    return (*lines[:SHOWN], f"and {counted(len(lines) - SHOWN, 'more partition')}; `twinlog groups` has all of them")
