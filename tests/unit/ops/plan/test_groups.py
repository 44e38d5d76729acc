"""What becomes of each group of the source, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.mirror.groups.group_moves import GroupMoves
from twinlog.mirror.groups.group_places import GroupPlace
from twinlog.mirror.groups.move_facts import GroupMove
from twinlog.mirror.topology.filters import DefaultGroupFilter
from twinlog.mirror.unlisted_topics import HiddenOffsets
from twinlog.model.groups import CommittedOffset, GroupListing
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.inventory import Inventory, LogOffsets
from twinlog.ops.plan.flow_plan import GroupPlan
from twinlog.ops.plan.groups import FlowCopies, plan_groups
from twinlog.settings.flow import FlowSettings

PART, REMOTE = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("a.t"), 0)
SYNCED = replace(flow("a", "b", "default"), sync_group_offsets_interval_s=1.0)


def groups(at: int, *, state: str = "Empty", topic: str = "t", protocol: str = "consumer") -> Inventory:
    name = GroupId("g")
    where = TopicPartition(TopicName(topic), 0)
    return Inventory(
        "x",
        None,
        (1,),
        logs={PART: LogOffsets(0, 100), REMOTE: LogOffsets(0, 50)},
        groups={name: GroupListing(name, protocol, state)},
        committed={name: {where: CommittedOffset(at)}},
    )


NOTHING = Inventory("b", None, (1,))


def planned(
    source: Inventory,
    target: Inventory,
    settings: FlowSettings = SYNCED,
    *,
    copied: int | None = None,
    known: Mapping[int, tuple[int, bool]] | None = None,
    left_out: str | None = None,
    moves: GroupMoves | None = None,
    past: int | None = None,
    hidden: HiddenOffsets | None = None,
    starts_there: Mapping[TopicPartition, TargetOffset] | None = None,
) -> GroupPlan:
    """`known` are target offsets by source offset, with whether they are exact."""

    places = {
        (group, where): GroupPlace(REMOTE, *known[one.offset], past=past)
        for group, offsets in source.committed.items()
        for where, one in offsets.items()
        if known is not None and one.offset in known
    }
    positions = {} if copied is None else {PART: SourceOffset(copied)}
    what = FlowCopies(
        lambda topic: TopicName(f"a.{topic}"),
        lambda _: left_out,
        lambda topic: topic.startswith("b."),
        lambda topic: topic.startswith("b."),
        positions,
        places,
        moves or {},
        starts_there=starts_there or {},
    )
    only = DefaultGroupFilter(exclude=("hidden",))
    (found,) = plan_groups(settings, only, lambda topic: topic != "excluded", source, target, what, hidden)
    return found


def test_a_group_moves_once_its_topics_are_copied_and_is_in_step_then() -> None:
    assert planned(groups(40), NOTHING).becomes == "moves"
    assert planned(groups(40), NOTHING, copied=30).becomes == "moves"
    assert planned(groups(40), NOTHING, copied=100, known={40: (20, True)}).becomes == "moves"
    there = groups(20, topic="a.t")
    assert planned(groups(40), there, copied=100, known={40: (20, True)}) == GroupPlan(GroupId("g"), 1, "in-step")
    assert planned(groups(40), groups(10, topic="a.t"), copied=100, known={40: (20, True)}).becomes == "moves"


def test_a_group_between_two_offset_syncs_has_the_range_of_its_place() -> None:
    place = {40: (20, False)}
    inexact = planned(groups(40), groups(25, topic="a.t"), copied=100, known=place, past=23)
    assert (inexact.why or "").startswith(
        "t-0: on the target the group continues at 25, and its position there is 20 to"
    )
    behind = planned(groups(40), groups(20, topic="a.t"), copied=100, known=place, past=23)
    assert behind.why == "t-0: offset 40 has no exact translation: the group would repeat some, up to 3 records"


def test_a_position_in_a_copy_from_the_target_is_compared_with_the_group_s_own_in_the_original() -> None:
    known = {40: (20, True)}
    late = planned(groups(40, topic="b.t"), groups(15, topic="a.t"), known=known)
    assert late.becomes == "stays"
    assert (late.why or "").startswith("b.t-0: on the target the group stands at 15, 5 before its position; `topics`")
    assert planned(groups(40, topic="b.t"), groups(20, topic="a.t"), known=known).becomes == "in-step"
    assert planned(groups(40, topic="b.t"), groups(30, topic="a.t"), known=known).becomes == "in-step"


def test_a_position_that_both_clusters_have_deleted_is_in_step_if_the_target_has_the_source_s_records() -> None:
    here, there = groups(40), groups(20, topic="a.t")
    here = replace(here, logs={PART: LogOffsets(60, 100)})
    there = replace(there, logs={REMOTE: LogOffsets(30, 50)})
    known = {40: (20, True)}
    assert planned(here, there, copied=100, known=known, starts_there={PART: TargetOffset(30)}).becomes == "in-step"
    late = planned(here, there, copied=100, known=known, starts_there={PART: TargetOffset(29)})
    assert (late.becomes, "begins at 30: it lacks up to 1 record of" in (late.why or "")) == ("stays", True)


def test_a_group_that_read_on_on_the_target_after_a_switchover_has_moved() -> None:
    there = groups(45, topic="a.t")
    moves = {(GroupId("g"), REMOTE): GroupMove(SourceOffset(40), TargetOffset(20))}
    moved = planned(groups(40), there, copied=100, known={40: (20, True)}, moves=moves)
    assert (moved.becomes, moved.why) == ("stays", "it has moved to b by a switchover, its offsets are left alone")
    late = planned(groups(50), groups(20, topic="a.t"), copied=100, known={50: (30, True)}, moves=moves)
    assert late.becomes == "moves", "it read on on the source before it stopped there"


def test_a_group_stays_and_the_reason_is_named() -> None:
    in_use = planned(groups(40), groups(20, topic="a.t", state="Stable"), copied=100, known={40: (20, True)})
    assert (in_use.becomes, in_use.why) == ("stays", "it is in use on b, its offsets are left alone")
    ahead = planned(groups(40), groups(30, topic="a.t"), copied=100, known={40: (20, True)})
    assert (ahead.becomes, "it would skip them" in (ahead.why or "")) == ("stays", True)
    not_copied = planned(groups(40), NOTHING, left_out="topics.exclude matches it")
    assert not_copied.why == "topic t is not mirrored: topics.exclude matches it"
    excluded = planned(groups(40, topic="excluded"), NOTHING)
    assert (excluded.becomes, excluded.partitions) == ("stays", 0)
    assert (excluded.why or "").startswith("it has committed no offset in a topic that topics")
    hidden = HiddenOffsets((TopicName("u"),), "cluster a: User:mirror lacks DESCRIBE on topic u, needed for reading")
    unseen = planned(groups(40, topic="excluded"), NOTHING, hidden=hidden)
    assert unseen.why == f"its offsets in topic u, if it has any, are hidden: {hidden.right}"
    other = planned(groups(40, protocol="sr"), NOTHING)
    assert other.why == "its kind is sr, and the flow follows consumer groups"


def test_without_group_sync_every_group_stays_and_the_key_is_named() -> None:
    for settings, key in (
        (flow("a", "b", "default"), "a->b.sync.group.offsets.enabled"),
        (replace(SYNCED, emit_checkpoints_interval_s=None), "a->b.emit.checkpoints.enabled"),
    ):
        found = planned(groups(40), NOTHING, settings)
        assert (found.becomes, (found.why or "").endswith(f"{key} is false")) == ("stays", True)
