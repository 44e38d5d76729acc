"""The last sync of groups: decides which offsets are committed on the target, and gives the reason for each remaining
offset."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from twinlog.errors import ClusterError
from twinlog.mirror.groups.group_moves import COMMITTED, THERE
from twinlog.mirror.groups.move_facts import MoveFacts
from twinlog.mirror.groups.safe_move import MoveVerdict
from twinlog.mirror.groups.safe_move import judge as judge_move
from twinlog.model.amounts import counted
from twinlog.model.groups import MEMBERLESS
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicPartition
from twinlog.ops.switchover.journal import Offsets, from_json
from twinlog.ops.switchover.model import (
    Data,
    GroupOffset,
    MovedGroups,
    MovedTopic,
    RefusedCommits,
    SwitchoverKind,
)
from twinlog.ops.switchover.steps.step import StepContext, SwitchoverClusters

AHEAD, IN_USE, UNKNOWN, REFUSED = "ahead", "in use", "unknown", "refused"
"""The result of an offset that this run left: the target is further, the target's group has members, the place is
unknown, or the target refused the offset."""

MOVED = "moved"
"""The result of an offset that an earlier run committed, and from which the group has read on on the target."""


@dataclass(frozen=True, slots=True)
class GroupOffsetDecision:
    """An offset of a group and its result."""

    offset: GroupOffset
    result: str


def judge(seen: MovedGroups) -> list[GroupOffsetDecision]:
    """Return the result of each offset; an offset never moves back on the target."""
    return [GroupOffsetDecision(one, _result(one, seen)) for one in seen.offsets]


def _result(one: GroupOffset, seen: MovedGroups) -> str:
    if one.move is not None and one.present != one.there:
        facts = facts_of(one, seen, one.present)
        if facts.continues_on_target and judge_move(facts).moved:
            return MOVED
    if one.there is None:
        return UNKNOWN
    if one.present is not None and one.present >= one.there:
        return THERE if one.present == one.there else AHEAD
    return COMMITTED if seen.target_states.get(one.group, "") in MEMBERLESS else IN_USE


def began(world: SwitchoverClusters) -> Offsets:
    """Return the cut of an earlier switchover: earlier records came from the present target, or from here."""
    return from_json((world.read_earlier_journal().done("prove") or {}).get("positions", {}))


def foresee_groups(world: SwitchoverClusters, topics: Collection[MovedTopic], known: Collection[str]) -> MovedGroups:
    """The groups as if producers had stopped now: groups that have read all copied records are at the end of both
    logs."""
    copied = world.read_copied_positions()
    cut = {where: one.source for where, one in copied.items()}
    there = {where: one.target for where, one in copied.items() if one.target is not None}
    # A group at the start of a partition without a copy, for example of an empty topic, has read nothing.
    new = [topic for topic in topics if any(where not in copied for where in topic.source_partitions)]
    if new:
        starts = world.source_starts(new)
        remotes = {
            where: TopicPartition(topic.remote, where.partition)
            for topic in new
            for where in topic.source_partitions
            if where not in copied and where in starts
        }
        ends = world.target_ends(remotes.values())
        cut |= {where: starts[where] for where in remotes}
        there |= {where: ends[remote] for where, remote in remotes.items() if remote in ends}
    return world.groups(topics, cut, there, began(world), known)


def read_lost_groups(
    world: SwitchoverClusters,
    topics: Collection[MovedTopic],
    cut: Mapping[TopicPartition, int],
    known: Collection[str] = (),
) -> MovedGroups:
    """The groups in an emergency: by the offsets on the source if it still answers, else by their last checkpoints."""
    if world.source_answers:
        with suppress(ClusterError):
            return foresee_groups(world, topics, known)
    return world.groups_by_checkpoints(topics, cut)


def read_moving_groups(context: StepContext) -> MovedGroups:
    """The groups of a switchover whose producers are fenced."""
    world, cut = context.world, context.offsets("settle", "cut")
    known = context.done("check").get("groups", ())
    if context.options.kind is SwitchoverKind.EMERGENCY:
        return read_lost_groups(world, context.topics, cut, known)
    return world.groups(context.topics, cut, context.offsets("drain", "there"), began(world), known)


def sync_groups(context: StepContext) -> Data:
    """Commit the place of continuation of every source group, and record the result of each."""
    seen = read_moving_groups(context)
    judged = judge(seen)
    refused = context.world.commit_groups([one.offset for one in judged if one.result == COMMITTED])
    return group_data(seen, judged, refused, (context.entries.done("groups") or {}).get("groups", {}))


def verdict_of(one: GroupOffsetDecision, seen: MovedGroups, *, committed: bool) -> MoveVerdict:
    """Whether the group may move, as far as this partition goes: everything before its offset is copied.

    With `committed` the target has taken the offset. A group that an earlier run moved has the repeats of its move: it
    repeats, or has repeated, the records from there on.
    """
    offset = one.offset
    stands = offset.there if committed else offset.present
    facts = facts_of(offset, seen, stands)
    if one.result == MOVED and offset.move is not None:
        facts = replace(facts, target_committed=offset.move.target)
    if one.result == MOVED or (stands is not None and stands == offset.there):
        # For members on the target, too, the records from there on are repeats.
        facts = replace(facts, move=None, active_on_target=facts.active_on_target and facts.active_on_source)
    return judge_move(facts)


def facts_of(offset: GroupOffset, seen: MovedGroups, stands: int | None) -> MoveFacts:
    """The facts about a group that `stands` at an offset on the target."""
    committed = None if offset.offset is None else SourceOffset(offset.offset)
    return MoveFacts(
        group=GroupId(offset.group),
        source=offset.source,
        remote=offset.target,
        committed=committed,
        source_start=None if offset.source_start is None else SourceOffset(offset.source_start),
        source_start_there=None if offset.source_start_there is None else TargetOffset(offset.source_start_there),
        copied=committed,
        translated=None if offset.there is None else TargetOffset(offset.there),
        exact=offset.exact,
        past_copies=None if offset.past_copies is None else TargetOffset(offset.past_copies),
        checkpoint_source=committed,
        target_committed=None if stands is None else TargetOffset(stands),
        active_on_source=seen.source_states.get(offset.group, "") not in MEMBERLESS,
        active_on_target=seen.target_states.get(offset.group, "") not in MEMBERLESS,
        target_start=None if offset.target_start is None else TargetOffset(offset.target_start),
        target_end=None if offset.target_end is None else TargetOffset(offset.target_end),
        source_answers=seen.source_answers,
        from_target=offset.left_to_switchover,
        left_to_switchover=offset.left_to_switchover,
        move=offset.move,
        returned=offset.returned,
    )


_OF_MOVE = ("skips", "repeats", "repeats_exact", "exact", "why", "again")
"""The values of an offset by the place at its move."""


def _proves_more(known: Data, row: Data) -> bool:
    """Whether an earlier run had a nearer bound for the same offset: offset syncs are deleted, and logs grow since."""
    if known["offset"] != row["offset"] or known.get("repeats") is None:
        return False
    of_move = known["repeats"] - known.get("again", 0)
    return row["repeats"] is None or row["skips"] != 0 or bool(of_move < row["repeats"])


def _read_again(one: GroupOffsetDecision, known: Data | None) -> int:
    """The most records that a group has read on the target since an earlier run, and had read on the source.

    Only in copies of topics of the target: in all other topics, the flow may have committed the later offset.
    """
    if known is None:
        return 0
    offset = one.offset
    before: int = known.get("again", 0)
    stood, present, there = known.get("stood"), offset.present, offset.there
    # The verdict on a moved group has the repeats since its move.
    counts = one.result != MOVED and offset.left_to_switchover
    if not counts or stood is None or present is None or there is None:
        return before
    return before + int(max(0, min(present, there) - stood))


def _with_read_again(row: Data, again: int) -> Data:
    """The values of an offset with the records that its group has read a second time on the target."""
    most = counted(again, "record")
    text = f"on the target the group has read up to {most} again since an earlier run, which it had read on the source"
    repeats = None if row["repeats"] is None else row["repeats"] + again
    why = "; ".join(filter(None, (row["why"], text)))
    return {"again": again, "repeats": repeats, "repeats_exact": False, "why": why}


def _move_of(offset: GroupOffset, result: str, verdict: MoveVerdict) -> list[int | None] | None:
    """The offsets on both clusters from which the group continues on the target by an earlier run, or by itself.

    A group that came back to the source may be further on the target, where it has read these records before.
    """
    if offset.move is not None:
        return [offset.move.source, offset.move.target]
    read_there = offset.returned is not None and not offset.left_to_switchover and verdict.skips == 0
    return [offset.offset, offset.present] if result == AHEAD and read_there else None


def group_data(
    seen: MovedGroups, judged: list[GroupOffsetDecision], refused: RefusedCommits, earlier: Mapping[str, Data]
) -> Data:
    """The groups as values of JSON, for journal and report, with the records that each would skip and repeat if it
    moved now, or that it repeated by its move. `earlier` are the groups by an earlier run of this switchover."""
    before = {
        (name, row["topic"], row["partition"], row["to_topic"]): row
        for name, group in earlier.items()
        for row in group["offsets"]
    }
    groups: dict[str, Data] = {
        name: {"state": state, "offsets": [], "trouble": seen.troubles.get(name)}
        for name, state in seen.source_states.items()
    }
    for one in judged:
        offset = one.offset
        why_refused = refused.get((offset.group, offset.target)) if one.result == COMMITTED else None
        result = one.result if why_refused is None else REFUSED
        group = groups.setdefault(offset.group, {"state": "", "offsets": [], "trouble": None})
        committed = result == COMMITTED
        verdict = verdict_of(one, seen, committed=committed)
        row = {
            "skips": verdict.skips,
            "repeats": verdict.repeats,
            "repeats_exact": verdict.repeats_exact,
            "why": "; ".join(reason.text for reason in verdict.reasons),
            "topic": offset.source.topic,
            "partition": offset.source.partition,
            "offset": offset.offset,
            "to_topic": offset.target.topic,
            "to_offset": offset.there,
            "moved": _move_of(offset, result, verdict),
            "exact": offset.exact,
            "result": result,
            "refused": why_refused,
            "stood": offset.there if committed else offset.present,
        }
        known = before.get((offset.group, *offset.source, offset.target.topic))
        if known is not None and result in (MOVED, THERE) and _proves_more(known, row):
            row |= {name: known[name] for name in _OF_MOVE if name in known}
        elif again := _read_again(one, known):
            row |= _with_read_again(row, again)
        group["offsets"].append(row)
    return {"groups": dict(sorted(groups.items()))}
