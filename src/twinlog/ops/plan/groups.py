"""Plans the result for each consumer group of the source: its offsets are committed on the target, or the reason
against it. Commits of switchovers and places on the target are read here, all else is in the inventories."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.groups.followed_groups import accepted_offsets, choose_groups, why_without
from twinlog.mirror.groups.group_moves import GroupMoves, GroupMovesReader, GroupReturnsReader
from twinlog.mirror.groups.group_sync import in_use
from twinlog.mirror.groups.move_facts import MoveFacts
from twinlog.mirror.groups.safe_move import Obstacle, Reason, judge
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topology.filters import DefaultGroupFilter
from twinlog.mirror.topology.plugins import group_filter_of, topic_filter_of
from twinlog.mirror.topology.topology import Topology
from twinlog.mirror.unlisted_topics import HiddenOffsets, find_hidden_offsets
from twinlog.model.groups import CommittedOffset
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.groups.places import GroupPlaces, GroupPlacesReader
from twinlog.ops.inventory import Inventory, logs_of
from twinlog.ops.plan.deciding import PlanFindings
from twinlog.ops.plan.flow_plan import GroupPlan
from twinlog.ops.plan.obstacles import unreadable_groups
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


@dataclass(frozen=True, slots=True)
class _KnownPlaces:
    """How far the partitions with groups are copied, and the places of the groups on the target.

    The inventories `here` and `there` have the offsets that groups need on the target, and the logs of these offsets.
    `starts_there` are the first offsets of source logs, translated for groups that stand before them.
    """

    copied: Mapping[TopicPartition, SourceOffset]
    places: GroupPlaces
    here: Inventory
    there: Inventory
    starts_there: Mapping[TopicPartition, TargetOffset] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupPlanner:
    """Plans the groups of a flow, by the inventories of its clusters: `here` is the source, `there` the target.

    `flows` are all flows of the file. `copier` is the flow that copies the topics of the groups: it has stored
    `positions` in `store`, which is None if they are absent or unreadable.
    """

    flow: FlowSettings
    flows: Sequence[FlowSettings]
    copier: FlowSettings
    topology: Topology
    source: ClusterAdmin
    target: ClusterAdmin
    here: Inventory
    there: Inventory
    store: PositionStore | None
    positions: Mapping[TopicPartition, Position]
    findings: PlanFindings
    one_cluster: bool

    def plan(self, mirrored: Collection[TopicName] | None, left_out: Mapping[TopicName, str]) -> list[GroupPlan]:
        """The plan of each group. `mirrored` are the topics that the flow copies, None if another flow copies;
        `left_out` are the remaining topics, with the reason. Raises ClusterError."""
        flow, topology = self.flow, self.topology
        if flow.emit_checkpoints_interval_s is None and not self.here.groups:
            return []
        filter_ = topic_filter_of(flow)

        def not_mirrored(topic: TopicName) -> str | None:
            if mirrored is None:
                return topology.refusal(topic)
            if topic in mirrored:
                return None
            return left_out.get(topic) or topology.refusal(topic) or f"{flow.source} lacks this topic"

        def accepts(topic: TopicName) -> bool:
            # Within a cluster, copies are there as well, and their offsets belong to consumers of the copies.
            beside = self.one_cluster and topology.policy.source_alias(topic) in (flow.source, flow.target)
            return (filter_.accepts(topic) or left_to_switchover(topic)) and not beside

        def left_to_switchover(topic: TopicName) -> bool:
            return topology.policy.source_alias(topic) == flow.target_name and not filter_.accepts(topic)

        stored = {part: position.next_source for part, position in self.positions.items()}
        known = self._places(accepts)
        returns = GroupReturnsReader(flow, self.source)
        returned = returns.read()
        moves = returns.mark_ended(GroupMovesReader(flow, self.target).read())
        copies = FlowCopies(
            topology.remote_name,
            not_mirrored,
            topology.came_from_target,
            left_to_switchover,
            {**stored, **known.copied},
            known.places,
            moves,
            returned,
            known.starts_there,
        )
        hidden = find_hidden_offsets(self.source, topology, self.positions, known.here.topics, self.target.topics)
        found = plan_groups(flow, group_filter_of(flow), accepts, known.here, known.there, copies, hidden)
        moving = [one.group for one in found if one.becomes == "moves"]
        self.findings.add(unreadable_groups(self.target, moving, known.there, "committing its offsets"))
        if flow.kind is None:
            own = [GroupId(flow.group_id)]
            self.findings.add(unreadable_groups(self.target, own, known.there, "choosing which process runs the flow"))
        return found

    def _places(self, accepts: Callable[[TopicName], bool]) -> _KnownPlaces:
        flow, here, there = self.flow, self.here, self.there
        own = topic_filter_of(flow).accepts
        committed_here = {group: accepted_offsets(offsets, own) for group, offsets in here.committed.items()}
        unknown = _KnownPlaces({}, {}, replace(here, committed=committed_here), there)
        if self.store is None:
            return unknown
        reverse = next((one for one in self.flows if (one.source, one.target) == (flow.target, flow.source)), None)
        maps = MapStore(self.copier, self.target, self.store)
        reader = GroupPlacesReader(flow, self.source, self.target, maps, reverse)
        follows = group_filter_of(flow).accepts
        committed = {
            group: accepted_offsets(offsets, accepts) for group, offsets in here.committed.items() if follows(group)
        }
        parts = {where for offsets in committed.values() for where in offsets}
        ends = {where: here.logs[where].end for where in parts if where in here.logs}
        places: GroupPlaces = {}

        def read() -> None:
            nonlocal places
            reader.refresh({where.topic for where in parts})
            places = reader.read_places(committed, ends)

        if self.findings.refused("permission", read):
            return unknown
        committed_here |= reader.needed_offsets(committed, places, there.committed)
        copies = [where for where in parts if reader.translator.left_to_switchover(where.topic)]
        originals = {remote for where in copies if (remote := reader.translator.remote(where)) is not None}
        here = replace(here, committed=committed_here, logs={**here.logs, **logs_of(self.source, copies)})
        there = replace(there, logs={**there.logs, **logs_of(self.target, sorted(originals))})
        copied = {where: one for where in parts if (one := reader.copied_up_to(where, ends.get(where))) is not None}
        starts = {where: here.logs[where].start for where in parts if where in here.logs}
        return _KnownPlaces(copied, places, here, there, reader.translate_starts(committed, starts))
