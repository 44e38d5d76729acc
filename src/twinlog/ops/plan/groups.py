"""Plans the result for each consumer group of the source: its offsets are committed on the target, or the reason
against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.mirror.groups.followed_groups import accepted_offsets, choose_groups, why_without
from twinlog.mirror.groups.group_moves import GroupMoves
from twinlog.mirror.groups.group_sync import in_use
from twinlog.mirror.groups.move_facts import MoveFacts
from twinlog.mirror.groups.safe_move import Obstacle, Reason, judge
from twinlog.mirror.topology.filters import DefaultGroupFilter
from twinlog.mirror.unlisted_topics import HiddenOffsets
from twinlog.model.groups import CommittedOffset
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.groups.places import GroupPlaces
from twinlog.ops.inventory import Inventory
from twinlog.ops.plan.flow_plan import GroupPlan
from twinlog.settings.flow import FlowSettings


@dataclass(frozen=True, slots=True)
class FlowCopies:
    """The facts about a flow's copies: the target name of a source topic or the reason for its absence, how far
    partitions are copied, the places of groups on the target, the commits of finished switchovers there and back, and
    the first offsets of source logs, translated for groups that stand before them."""

    remote_name: Callable[[TopicName], TopicName]
    not_mirrored: Callable[[TopicName], str | None]
    came_from_target: Callable[[TopicName], bool]
    left_to_switchover: Callable[[TopicName], bool]
    copied_up_to: Mapping[TopicPartition, SourceOffset]
    places: GroupPlaces
    moves: GroupMoves
    returns: GroupMoves = field(default_factory=dict)
    starts_there: Mapping[TopicPartition, TargetOffset] = field(default_factory=dict)


def plan_groups(
    flow: FlowSettings,
    filter_: DefaultGroupFilter,
    accepts: Callable[[TopicName], bool],
    source: Inventory,
    target: Inventory,
    copied: FlowCopies,
    hidden: HiddenOffsets | None = None,
) -> list[GroupPlan]:
    """Each consumer group of the source, by name; `accepts` is which topics' offsets are translated.

    `hidden` are topics whose offsets the source hides.
    """
    followed, reasons = choose_groups(filter_, source.groups)
    found = [GroupPlan(group, 0, "stays", why) for group, why in reasons.items()]
    for group in followed:
        if group not in source.committed:
            continue
        offsets = accepted_offsets(source.committed[group], accepts)
        if not offsets:
            found.append(GroupPlan(group, 0, "stays", why_without(hidden)))
            continue
        off = _switched_off(flow)
        if off is not None:
            found.append(GroupPlan(group, len(offsets), "stays", off))
            continue
        facts = [_facts(group, where, committed, source, target, copied) for where, committed in offsets.items()]
        found.append(_group_plan(flow, group, facts))
    return sorted(found, key=lambda one: one.group)


def _switched_off(flow: FlowSettings) -> str | None:
    if flow.emit_checkpoints_interval_s is None:
        return f"checkpoints are off, as {flow.switch('emit_checkpoints_interval_s')} is false"
    if flow.sync_group_offsets_interval_s is None:
        return (
            "its checkpoints are written, and commits on the target are off, as "
            f"{flow.switch('sync_group_offsets_interval_s')} is false"
        )
    return None


def _facts(
    group: GroupId,
    where: TopicPartition,
    committed: CommittedOffset,
    source: Inventory,
    target: Inventory,
    copied: FlowCopies,
) -> MoveFacts:
    from_target = copied.came_from_target(where.topic)
    place = copied.places.get((group, where))
    not_mirrored = None if from_target else copied.not_mirrored(where.topic)
    remote = TopicPartition(copied.remote_name(where.topic), where.partition)
    if place is not None:
        remote = place.partition
    there = target.committed.get(group, {}).get(remote)
    here = target.groups.get(group)
    log = source.logs.get(where)
    there_log = target.logs.get(remote)
    return MoveFacts(
        group,
        where,
        remote,
        SourceOffset(committed.offset),
        source_start=None if log is None else SourceOffset(log.start),
        source_end=None if log is None else SourceOffset(log.end),
        source_start_there=copied.starts_there.get(where),
        copied=copied.copied_up_to.get(where),
        translated=None if place is None or place.offset is None else TargetOffset(place.offset),
        exact=place is not None and place.exact,
        past_copies=None if place is None or place.past is None else TargetOffset(place.past),
        target_committed=None if there is None else TargetOffset(there.offset),
        target_start=None if there_log is None else TargetOffset(there_log.start),
        target_end=None if there_log is None else TargetOffset(there_log.end),
        from_target=from_target,
        left_to_switchover=copied.left_to_switchover(where.topic),
        not_mirrored=not_mirrored,
        active_on_target=here is not None and in_use(here),
        move=copied.moves.get((group, remote)),
        returned=copied.returns.get((group, remote)),
    )


def _group_plan(flow: FlowSettings, group: GroupId, facts: Sequence[MoveFacts]) -> GroupPlan:
    verdicts = {one.source: judge(one) for one in facts}
    if any(one.active_on_target for one in facts):
        return GroupPlan(group, len(verdicts), "stays", f"it is in use on {flow.target}, its offsets are left alone")
    own = [one.source for one in facts if not one.left_to_switchover]
    if own and all(verdicts[where].moved for where in own) and all(verdict.done for verdict in verdicts.values()):
        text = f"it has moved to {flow.target} by a switchover, its offsets are left alone"
        return GroupPlan(group, len(verdicts), "stays", text)
    against: dict[Reason, list[TopicPartition]] = {}
    waiting = False
    for where, verdict in verdicts.items():
        for reason in verdict.reasons:
            if reason.heals:
                waiting = True
            else:
                against.setdefault(reason, []).append(where)
    texts = [
        # This text names its topic.
        reason.text if reason.obstacle is Obstacle.NOT_MIRRORED else f"{listed(map(str, parts))}: {reason.text}"
        for reason, parts in against.items()
    ]
    why = "; ".join(texts) or None
    if waiting:
        return GroupPlan(group, len(verdicts), "moves", why)
    return GroupPlan(group, len(verdicts), "stays" if why else "in-step", why)
