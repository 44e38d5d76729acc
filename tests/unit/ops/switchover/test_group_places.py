"""The places at which groups continue: by maps, by the offset syncs of MirrorMaker 2, and after several moves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.ops.switchover.scripted_groups import ORDERS, P0, SHOP, ScriptedGroups, facts
from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.groups.group_moves import group_moves
from twinlog.mirror.groups.group_offsets import TranslatedGroupOffset
from twinlog.mirror.groups.group_places import GroupPlace, translated_place
from twinlog.mirror.groups.move_facts import GroupMove
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.sync_history import PartitionSyncs, SyncHistory
from twinlog.mirror.offsets.translator import Translation
from twinlog.mirror.records import Checkpoint
from twinlog.mirror.topics.journal_keys import SwitchoverState
from twinlog.mirror.topology.naming import DefaultReplicationPolicy
from twinlog.model.groups import CommittedOffset
from twinlog.model.types import Alias, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.groups.places import GroupPlacesReader
from twinlog.ops.switchover import report as switchover_report
from twinlog.ops.switchover import report_text
from twinlog.ops.switchover.group_facts import SwitchoverGroups
from twinlog.ops.switchover.model import GroupOffset, MovedGroups, MovedTopic, SwitchoverDirection
from twinlog.ops.switchover.rehearsal import _group_call
from twinlog.ops.switchover.steps.group_step import group_data, judge
from twinlog.ops.switchover.steps.step import SwitchoverClusters

COPY = TopicPartition(TopicName("a.orders"), 0)


class Known:
    """A flow that knows some offsets exactly, and of others no more than a place before them."""

    def __init__(self, first: int, last: int, shift: int, *, before: int | None = None) -> None:
        self._span = range(first, last)
        self._shift = shift
        self._before = before

    def refresh(self) -> None:
        """Nothing comes anew."""

    def to_target(self, where: TopicPartition, offset: int) -> Translation[int] | None:
        assert where == P0
        if offset in self._span:
            return Translation(offset + self._shift, True)
        return None if self._before is None or offset < self._span.start else Translation(self._before, False, "syncs")

    to_source = to_target

    def past_copies(self, where: TopicPartition, offset: int) -> None:
        """Unknown without an exact map."""


class Translators(Known):
    """One after the other, the first that knows anything."""

    def __init__(self, *parts: Known) -> None:
        self._parts = parts

    def to_target(self, where: TopicPartition, offset: int) -> Translation[int] | None:
        return next((found for part in self._parts if (found := part.to_target(where, offset)) is not None), None)

    to_source = to_target


class Syncs:
    """The offset syncs of a flow, as they are read of a topic; without the right to read it a refusal."""

    def __init__(self, *syncs: tuple[int, int], refused: bool = False) -> None:
        self._syncs = syncs
        self._refused = refused

    def read(self, ends: Callable[[], Mapping[TopicPartition, int]]) -> SyncHistory:
        if self._refused:
            raise RefusedError("READ on the topic is missing")
        known = PartitionSyncs()
        for source, target in self._syncs:
            known.add(source, target)
        return SyncHistory({part: known.written(end) for part, end in ends().items()})


def copied_by_mirror_maker(
    offset: int,
    there: int | None,
    syncs: Syncs,
    *,
    present: int | None = None,
    checkpoint: tuple[int, int] | None = None,
    copied: int = 1201,
) -> MovedGroups:
    """A group that stands at `offset`, which the kept offset syncs translate to `there`."""
    source, target = ScriptedGroups("a", offset), ScriptedGroups("b", 0)
    target.committed = {} if present is None else {COPY: CommittedOffset(present, "")}
    source.log, target.log = {P0: (0, 1201)}, {COPY: (0, 1201), P0: (0, 5)}
    groups = facts(source, target)
    vars(groups)["_forward"] = Known(0, 0, 0, before=there)
    vars(groups._proofs)["_history_there"] = syncs
    last = [] if checkpoint is None else [Checkpoint(SHOP, *COPY, *map(SourceOffset, checkpoint))]  # type: ignore[arg-type]
    vars(groups._proofs)["read_checkpoints"] = lambda: iter(last)
    cut, ends = {P0: copied}, {P0: copied}
    return groups.read_groups([MovedTopic(ORDERS, COPY.topic, 1, ORDERS)], cut, ends, {})


def place_before_a_move(
    offset: int, there: int | None, syncs: Syncs, checkpoint: tuple[int, int] | None = None
) -> GroupPlace:
    """The place of such a group for `twinlog groups`, `plan`, `audit` and `canary report`."""
    source, target = ScriptedGroups("a", offset), ScriptedGroups("b", 0)
    source.log, target.log = {P0: (0, 1201)}, {COPY: (0, 1201), P0: (0, 5)}
    flow = replace(facts(source, target)._flow, policy="default")
    maps = SimpleNamespace(maps=None, lock=None)
    reader = GroupPlacesReader(flow, cast("ClusterAdmin", source), cast("ClusterAdmin", target), cast("MapStore", maps))
    known = None if there is None else TranslatedGroupOffset(COPY, TargetOffset(there), False, by_syncs=True)
    vars(reader.translator).update(translate_offset=lambda *_: known, past_copies=lambda *_: None)
    vars(reader)["copied_up_to"] = lambda *_: SourceOffset(1201)
    vars(reader._proofs)["_history_there"] = syncs
    last = [] if checkpoint is None else [Checkpoint(SHOP, *COPY, *map(SourceOffset, checkpoint))]  # type: ignore[arg-type]
    vars(reader._proofs)["read_checkpoints"] = lambda: iter(last)
    found = reader.read_places({SHOP: source.committed}, {P0: 1201})
    assert reader.read_places({SHOP: source.committed}, {P0: 1201}, last) == found
    return found[SHOP, P0]


@pytest.mark.parametrize(
    "known",
    [
        None,
        Translation(TargetOffset(7), True),
        Translation(TargetOffset(7), False),
        Translation(TargetOffset(7), False, "syncs"),
        Translation(TargetOffset(0), False, "start"),
    ],
)
def test_a_switchover_and_all_other_commands_make_a_place_of_a_translation_by_one_rule(
    known: Translation[TargetOffset] | None,
) -> None:
    source, target = ScriptedGroups("a", 10), ScriptedGroups("b", 0)
    flow = replace(facts(source, target)._flow, policy="default")
    maps = SimpleNamespace(maps=None, lock=None)
    reader = GroupPlacesReader(flow, cast("ClusterAdmin", source), cast("ClusterAdmin", target), cast("MapStore", maps))
    shown = None if known is None else TranslatedGroupOffset.of(COPY, known)
    vars(reader.translator).update(translate_offset=lambda *_: shown, past_copies=lambda *_: 9)
    groups = facts(source, target)
    translator = SimpleNamespace(refresh=lambda: None, to_target=lambda *_: known, past_copies=lambda *_: 9)
    vars(groups)["_forward"] = translator
    place = groups._went(P0, COPY, 10)
    assert place == translated_place(reader.translator, P0, SourceOffset(10))
    assert place.past == (9 if known is None or (not known.exact and known.by != "start") else None)


@pytest.mark.parametrize(
    ("source_start", "target_start", "lost"),
    [
        (1000, 900, None),
        (1000, 950, None),
        # The copy of the first record of the source is deleted.
        (1000, 951, "it lacks up to 1 record of the source's log"),
        # The source has all records for the group.
        (100, 61, "11 records before are deleted there"),
        # The source has no records at all.
        (1201, 1151, None),
    ],
)
def test_a_switchover_reports_a_deleted_position_only_if_the_source_has_more_records_for_the_group(
    source_start: int, target_start: int, lost: str | None
) -> None:
    source, target = ScriptedGroups("a", 100), ScriptedGroups("b", 0)
    target.committed = {COPY: CommittedOffset(50, "")}
    source.log, target.log = {P0: (source_start, 1201)}, {COPY: (target_start, 1151), P0: (0, 5)}
    groups = facts(source, target)
    vars(groups)["_forward"] = Known(100, 1202, -50)
    seen = groups.read_groups([MovedTopic(ORDERS, COPY.topic, 1, ORDERS)], {P0: 1201}, {P0: 1151}, {})
    result, there, skips, repeats, why = reports(seen)
    assert (result, there, repeats) == ("there", 50, 0)
    if lost is None:
        assert (skips, why) == (0, "")
    else:
        assert skips == 1101
        assert f"begins at {target_start}: {lost}, and auto" in why


@pytest.mark.parametrize(
    ("returned", "more", "moved"),
    [
        (GroupMove(SourceOffset(110), TargetOffset(150)), {}, True),
        (GroupMove(SourceOffset(110), TargetOffset(149)), {}, False),
        (GroupMove(SourceOffset(121), TargetOffset(150)), {}, False),
        (None, {}, False),
        # Only an original has later positions of its own.
        (GroupMove(SourceOffset(110), TargetOffset(150)), {"left_to_switchover": True}, False),
    ],
)
def test_a_group_that_has_read_further_on_the_target_before_its_way_back_continues_there(
    returned: GroupMove | None, more: dict[str, Any], moved: bool
) -> None:
    ahead = GroupOffset("shop", P0, 120, COPY, 101, present=150, past_copies=250, target_end=300, returned=returned)
    seen = MovedGroups({"shop": ""}, {"shop": "Empty"}, (replace(ahead, **more),))
    data = group_data(seen, judge(seen), {}, {})
    (row,) = data["groups"]["shop"]["offsets"]
    assert row["result"] == "ahead"
    moves = group_moves(SwitchoverState.DONE, {"open": {}, "groups": data}.get)
    assert moves == ({(SHOP, COPY): GroupMove(SourceOffset(120), TargetOffset(150))} if moved else {})


@pytest.mark.parametrize(("source_start", "begins_alike"), [(1000, True), (50, False)])
def test_a_switchover_reports_a_group_without_any_place_only_while_the_source_has_its_position(
    source_start: int, begins_alike: bool
) -> None:
    source, target = ScriptedGroups("a", 50), ScriptedGroups("b", 0)
    source.log, target.log = {P0: (source_start, 1201)}, {COPY: (900, 1151), P0: (0, 5)}
    groups = facts(source, target)
    known = Known(1000, 1202, -50)
    known.past_copies = lambda where, offset: 900  # type: ignore[method-assign]
    vars(groups)["_forward"] = known
    vars(groups)["_proofs"] = SimpleNamespace(prove=lambda places, *_: places)
    seen = groups.read_groups([MovedTopic(ORDERS, COPY.topic, 1, ORDERS)], {P0: 1201}, {P0: 1151}, {})
    result, there, skips, _, why = reports(seen)
    assert (result, there) == ("unknown", None)
    assert skips == (0 if begins_alike else None)
    assert bool(why) is not begins_alike


def reports(seen: MovedGroups) -> tuple[Any, ...]:
    """The result of the only offset, its place, and the records that the group skips and repeats."""
    (row,) = group_data(seen, judge(seen), {}, {})["groups"]["shop"]["offsets"]
    return row["result"], row["to_offset"], row["skips"], row["repeats"], row["why"]


def report_cells(seen: MovedGroups) -> tuple[Any, ...]:
    """The columns "skipped" and "repeated" of the only group in the report of a switchover."""
    group = switchover_report._group(group_data(seen, judge(seen), {}, {})["groups"]["shop"])
    return report_text._group_row("shop", group)[1:3]


@pytest.mark.parametrize(
    ("by_map", "past", "place", "exact"),
    [
        (Translation(TargetOffset(30), True), None, 30, True),
        (Translation(TargetOffset(10), False), TargetOffset(40), 20, False),
        (Translation(TargetOffset(30), False), TargetOffset(40), 30, False),
        # The checkpoint is of an earlier log.
        (Translation(TargetOffset(10), False), TargetOffset(15), 10, False),
        (Translation(TargetOffset(0), False, "start"), None, 0, False),
        (None, None, 20, False),
    ],
)
def test_a_lost_source_leaves_its_groups_at_their_last_checkpoint_by_the_map_on_the_target(
    by_map: Translation[TargetOffset] | None, past: TargetOffset | None, place: int, exact: bool
) -> None:
    source, target = ScriptedGroups("a", 0), ScriptedGroups("b", 0)
    target.committed = {}
    target.log = {COPY: (0, 50), P0: (0, 5)}
    groups = facts(source, target)
    groups._policy = DefaultReplicationPolicy()
    vars(groups)["_forward"] = SimpleNamespace(
        refresh_maps=lambda: None, by_map=lambda *_: by_map, past_copies=lambda *_: past
    )
    last = Checkpoint(SHOP, *COPY, SourceOffset(35), TargetOffset(20))
    vars(groups._proofs)["read_checkpoints"] = lambda: iter([last])
    seen = groups.by_checkpoints([MovedTopic(ORDERS, COPY.topic, 1, ORDERS)], {})
    assert source.asked == []
    (one,) = seen.offsets
    assert (one.source, one.offset, one.there, one.exact) == (P0, 35, place, exact)
    result, _, skips, repeats, why = reports(seen)
    assert (result, skips, repeats) == ("committed", 0, 50 - place)
    assert report_cells(seen) == ("0", f"up to {50 - place}"), "it has read a part of them on the source, or none"
    assert why.startswith(f"the last checkpoint is of 35, and on the target the group continues at {place}: it repeats")


def test_a_lost_source_takes_along_the_positions_in_copies_of_the_way_back() -> None:
    source, target = ScriptedGroups("a", 0), ScriptedGroups("b", 0)
    target.committed = {COPY: CommittedOffset(50, ""), P0: CommittedOffset(864, "")}
    target.log = {COPY: (0, 50), P0: (0, 1564)}
    groups = facts(source, target)
    groups._policy = DefaultReplicationPolicy()
    vars(groups)["_forward"] = Known(35, 36, 15)
    vars(groups)["_forward"].refresh_maps = lambda: None
    vars(groups)["_forward"].by_map = lambda *_: Translation(TargetOffset(50), True)
    last = Checkpoint(SHOP, *COPY, SourceOffset(35), TargetOffset(50))
    vars(groups._proofs)["read_checkpoints"] = lambda: iter([last])
    topics = [MovedTopic(ORDERS, COPY.topic, 1, ORDERS)]
    seen = groups.by_checkpoints(topics, {})
    data = group_data(seen, judge(seen), {}, {})["groups"]["shop"]["offsets"]
    assert [(one["topic"], one["offset"], one["result"], one["repeats"], one["skips"]) for one in data] == [
        ("orders", 35, "there", 0, 0),
        ("b.orders", None, "unknown", 700, 0),
    ]
    assert data[1]["why"].endswith("at 864: it repeats the records that it has read in the copy, up to 700 records")
    # A group at the end of the original repeats nothing, wherever it was in the copy.
    target.committed = {COPY: CommittedOffset(50, ""), P0: CommittedOffset(1564, "")}
    assert [one.target for one in groups.by_checkpoints(topics, {}).offsets] == [COPY]
    # Topics that keep their names have no copy beside them.
    assert groups.by_checkpoints([MovedTopic(ORDERS, ORDERS, 1, ORDERS)], {}).offsets[-1].target == COPY


def test_a_source_that_is_back_tells_how_many_records_a_group_read_again_in_an_original() -> None:
    """Its position in the copy was unknown in the emergency, and the group read from 677 to 812 on the target."""
    copy = TopicPartition(TopicName("b.orders"), 0)
    lost = GroupOffset("shop", copy, None, P0, None, present=677, left_to_switchover=True, target_end=1989)
    seen = MovedGroups({"shop": ""}, {"shop": "Empty"}, (lost,), source_answers=False)
    first = group_data(seen, judge(seen), {}, {})["groups"]
    assert [one["repeats"] for one in first["shop"]["offsets"]] == [1312]

    def again(earlier: Mapping[str, Any], present: int, **more: Any) -> tuple[Mapping[str, Any], tuple[Any, ...]]:
        known = replace(lost, offset=1989, there=1989, exact=True, present=present, target_end=3000, **more)
        back = MovedGroups({"shop": "Empty"}, {"shop": "Empty"}, (known,))
        data = group_data(back, judge(back), {}, earlier)["groups"]
        row = data["shop"]["offsets"][0]
        return data, (row["result"], report_text._group_row("shop", switchover_report._group(data["shop"]))[1:3])

    assert again(first, 677)[1] == ("committed", ("0", "0")), "it has read nothing yet"
    second, found = again(first, 812)
    assert found == ("committed", ("0", "up to 135"))
    text = "on the target the group has read up to 135 records again since an earlier run, which it had read on the "
    assert second["shop"]["offsets"][0]["why"] == f"{text}source"
    move = GroupMove(SourceOffset(1989), TargetOffset(1989))
    third, found = again(second, 1989, move=move)
    assert found == ("there", ("0", "up to 135"))
    assert again(third, 2500, move=move)[1] == ("moved", ("0", "up to 135")), "the figure stays"
    assert again(first, 2500)[1] == ("ahead", ("0", "up to 1,312")), "it has read all of them again"
    # In other topics the flow commits, too.
    assert again(first, 812, left_to_switchover=False)[1] == ("committed", ("0", "0"))


def repeats_in(partition: int, repeats: int | None, why: str) -> dict[str, Any]:
    return {
        "to_topic": "orders",
        "partition": partition,
        "result": "unknown",
        "repeats": repeats,
        "skips": 0,
        "why": why,
    }


@pytest.mark.parametrize("partitions", [4, 14])
def test_the_details_of_a_group_have_all_its_records(partitions: int) -> None:
    offsets = [repeats_in(number, number + 1, f"up to {number + 1} records") for number in range(partitions)]
    offsets += [repeats_in(50, 7, "seven records"), repeats_in(51, 7, "seven records")]
    total = sum(one["repeats"] for one in offsets)
    group = switchover_report._group({"offsets": offsets, "trouble": None, "state": "Empty"})
    row = report_text._group_row("shop", group)
    assert row[2] == f"{total:,}"
    what, *details = row[4].split("; ")
    assert what == f"{partitions + 2} not translated"
    assert "each of orders-50, orders-51: seven records" in details
    told = 14
    for line in details:
        if found := re.fullmatch(r"orders-\d+: up to (\d+) records", line):
            told += int(found[1])
        elif found := re.fullmatch(r"(\d+) more partitions: up to (\d+) repeated, 0 skipped", line):
            assert int(found[1]) == partitions - 9
            told += int(found[2])
    assert told == total
    assert details[0] == f"orders-{partitions - 1}: up to {partitions} records" or partitions == 4


def test_an_unknown_number_among_further_reasons_is_no_sum() -> None:
    offsets = [repeats_in(number, None, f"unknown {number}") for number in range(12)]
    group = switchover_report._group({"offsets": offsets, "trouble": None, "state": "Empty"})
    assert report_text._group_row("shop", group)[4].endswith("; 2 more partitions: unknown repeated, 0 skipped")


def test_copies_of_mirror_maker_are_translated_as_in_an_audit() -> None:
    syncs = Syncs((0, 0), (404, 404), (606, 606), (707, 707), (808, 808), (1000, 1000))
    seen = copied_by_mirror_maker(800, 405, syncs, present=607)
    doubt = "offset 800 has no exact translation: the group would repeat some, up to 100 records"
    assert reports(seen) == ("committed", 708, 0, 100, doubt)
    # The same group, which is still to be moved.
    place = place_before_a_move(800, 405, syncs)
    assert (place.offset, place.exact, place.past) == (708, False, 808)
    # Only the place of a group that is further is a place that it would skip from.
    result, there, skips, _, why = reports(copied_by_mirror_maker(800, 405, syncs, present=900))
    assert (result, there, skips) == ("ahead", 708, 192)
    assert report_cells(copied_by_mirror_maker(800, 405, syncs, present=900)) == ("up to 192", "0")
    assert report_cells(copied_by_mirror_maker(808, 405, syncs, present=811)) == ("up to 3", "0")
    assert report_cells(copied_by_mirror_maker(800, 405, syncs, present=607)) == ("0", "up to 100")
    assert why == (
        "on the target the group continues at 900, and its position there is 708 to 808: it would skip 92 to 192 "
        "records, unless it has read them there"
    )
    # A group at an offset sync has an exact place.
    assert reports(copied_by_mirror_maker(808, 405, syncs, present=607)) == ("committed", 808, 0, 0, "")
    assert place_before_a_move(808, 405, syncs)[1:3] == (808, True)
    assert reports(copied_by_mirror_maker(809, 405, syncs, present=607)) == ("committed", 809, 0, 0, "")


def test_the_same_command_again_counts_the_repeats_of_a_group_that_has_yet_to_read() -> None:
    syncs = Syncs((0, 0), (707, 707), (808, 808), (1000, 1000))
    seen = copied_by_mirror_maker(800, 405, syncs, present=708)
    moved = replace(seen, offsets=tuple(replace(one, move=GroupMove(800, 708)) for one in seen.offsets))
    doubt = "offset 800 has no exact translation: the group would repeat some, up to 100 records"
    assert reports(moved) == ("there", 708, 0, 100, doubt)
    read_on = replace(moved, offsets=tuple(replace(one, present=750) for one in moved.offsets))
    assert reports(read_on) == ("moved", 708, 0, 100, doubt), "it has repeated them"
    assert report_cells(read_on) == ("0", "up to 100")
    with_members = replace(moved, target_states={"shop": "Stable"}, source_states={"shop": "Empty"})
    assert reports(with_members) == ("there", 708, 0, 100, doubt), "they are about to repeat the records"


def test_the_figure_of_a_move_stays_when_its_offset_syncs_are_deleted() -> None:
    syncs = Syncs((0, 0), (707, 707), (808, 808), (1000, 1000))
    first = group_data(seen := copied_by_mirror_maker(800, 405, syncs, present=708), judge(seen), {}, {})["groups"]
    (before,) = first["shop"]["offsets"]
    unproven = copied_by_mirror_maker(800, 708, Syncs(refused=True))
    grown = replace(unproven, offsets=tuple(replace(one, target_end=5000) for one in unproven.offsets))
    for later in (copied_by_mirror_maker(800, None, Syncs()), copied_by_mirror_maker(800, 405, Syncs()), grown):
        read_on = replace(
            later, offsets=tuple(replace(one, present=750, move=GroupMove(800, 708)) for one in later.offsets)
        )
        for _ in range(2):
            first = group_data(read_on, judge(read_on), {}, first)["groups"]
            (row,) = first["shop"]["offsets"]
            assert row["result"] == "moved"
            names = ("skips", "repeats", "repeats_exact", "exact", "why")
            assert [row[name] for name in names] == [before[name] for name in names]


def test_a_source_that_is_back_tells_how_many_records_a_group_repeated_since_its_checkpoint() -> None:
    """An emergency moved it to 708, its last checkpoint; it had read up to 715 on the source."""
    syncs = Syncs((0, 0), (707, 707), (1000, 1000))
    for committed, repeats in ((708, 0), (715, 7)):
        seen = copied_by_mirror_maker(committed, committed, syncs, present=750)
        read_on = replace(
            seen,
            offsets=tuple(replace(one, exact=True, there=committed, move=GroupMove(708, 708)) for one in seen.offsets),
        )
        assert reports(read_on)[:4] == ("moved", committed, 0, repeats)


def test_a_restart_of_mirror_maker_that_copied_again_moves_no_group_further() -> None:
    # By the syncs that MirrorMaker 2 keeps, only the second copy counts; the task may have ended before record 800.
    syncs = Syncs((0, 0), (404, 404), (1000, 1000), (700, 1001), (1101, 1200))
    seen = copied_by_mirror_maker(800, 1002, syncs)
    assert reports(seen)[:3] == ("committed", 405, 0)
    assert place_before_a_move(800, 1002, syncs).offset == 405


def test_a_group_ahead_of_a_flow_that_is_behind_repeats_an_unknown_number() -> None:
    seen = copied_by_mirror_maker(1150, 405, Syncs((0, 0), (1000, 1000)), copied=1100)
    assert reports(seen)[:4] == ("committed", 1001, 0, None)
    assert reports(copied_by_mirror_maker(1150, 405, Syncs((0, 0), (1000, 1000))))[:4] == ("committed", 1001, 0, 200)


def test_an_own_commit_of_mirror_maker_is_not_called_ahead() -> None:
    # A record is missing somewhere between the offset syncs.
    syncs = Syncs((0, 0), (404, 404), (1000, 999), (1100, 1099))
    seen = copied_by_mirror_maker(800, 405, syncs, present=607, checkpoint=(800, 607))
    result, there, skips, _, why = reports(seen)
    assert (result, there, skips) == ("there", 607, 0)
    assert why == "offset 800 has no exact translation: the group would repeat some, up to 392 records"
    assert place_before_a_move(800, 405, syncs, (800, 607))[1:3] == (607, False)
    # A checkpoint of a later offset, of which the group went back, tells nothing.
    assert reports(copied_by_mirror_maker(800, 405, syncs, checkpoint=(801, 607)))[:2] == ("committed", 405)
    # Nor do checkpoints of a log that was longer, or past the copy of a later record.
    assert reports(copied_by_mirror_maker(800, 405, syncs, checkpoint=(800, 5000)))[:2] == ("committed", 405)
    assert reports(copied_by_mirror_maker(800, 405, syncs, checkpoint=(800, 1000)))[:2] == ("committed", 405)


def test_a_checkpoint_of_a_remote_topic_that_was_recreated_leads_no_group_past_records() -> None:
    # MirrorMaker 2 committed 900 for the group in the earlier log. In the present log the record at 1000 is at 0.
    recreated = Syncs((0, 0), (900, 900), (1000, 0), (1100, 100), (1190, 1000))
    result, there, skips, _, _ = reports(copied_by_mirror_maker(900, None, recreated, checkpoint=(900, 900)))
    assert (result, there, skips) == ("unknown", None, None)
    assert place_before_a_move(900, None, recreated, (900, 900)).offset is None
    # Compaction deleted the first syncs of the present log.
    compacted = Syncs((1000, 950), (1100, 1050))
    assert reports(copied_by_mirror_maker(900, None, compacted, checkpoint=(900, 900)))[:2] == ("committed", 900)
    assert place_before_a_move(900, None, compacted, (900, 900)).offset == 900


def test_a_position_beyond_an_inexact_place_only_may_skip_records() -> None:
    why = reports(copied_by_mirror_maker(800, 405, Syncs(refused=True), present=607))[-1]
    assert why == (
        "on the target the group continues at 607, and its position there is 405 or later: it may skip up to 202 "
        "records"
    )


def test_a_commit_in_an_original_has_no_reason_that_it_has_ended() -> None:
    source, target = ScriptedGroups("b", 607), ScriptedGroups("a", 300)
    source.committed = {TopicPartition(TopicName("a.orders"), 0): CommittedOffset(607, "")}
    target.log = {P0: (0, 1201)}
    flow = replace(
        facts(source, target)._flow, source=Alias("b"), target=Alias("a"), policy="default", topics=("orders",)
    )
    back = replace(flow, source=Alias("a"), target=Alias("b"))
    groups = SwitchoverGroups(flow, back, cast("ClusterAdmin", source), cast("ClusterAdmin", target), flow)
    vars(groups)["_moves"] = vars(groups)["_returns"] = SimpleNamespace(read=dict, mark_ended=dict)
    vars(groups)["_back"] = Known(0, 0, 0, before=1)
    vars(groups._proofs)["_history_back"] = Syncs((0, 0), (404, 404), (1000, 1000))
    result, there, _, repeats, why = reports(groups.read_groups([], {}, {}, {}))
    assert (result, there, repeats) == ("committed", 405, 202)
    assert why == "offset 607 has no exact translation: the group would repeat some, up to 202 records"


@pytest.mark.parametrize(("offset", "there", "exact"), [(404, 404, True), (405, 405, True), (607, 405, False)])
def test_the_way_back_of_copies_of_mirror_maker_is_as_near(offset: int, there: int, exact: bool) -> None:
    source, target = ScriptedGroups("b", offset), ScriptedGroups("a", 700)
    source.committed = {TopicPartition(TopicName("a.orders"), 0): CommittedOffset(offset, "")}
    target.log = {P0: (0, 1201)}
    flow = replace(facts(source, target)._flow, source=Alias("b"), target=Alias("a"), policy="default")
    back = replace(flow, source=Alias("a"), target=Alias("b"))
    groups = SwitchoverGroups(flow, back, cast("ClusterAdmin", source), cast("ClusterAdmin", target), flow)
    vars(groups)["_moves"] = vars(groups)["_returns"] = SimpleNamespace(read=dict, mark_ended=dict)
    vars(groups)["_back"] = Known(0, 0, 0, before=1)
    vars(groups._proofs)["_history_back"] = Syncs((0, 0), (404, 404), (1000, 1000))
    seen = groups.read_groups([], {}, {}, {})
    assert [(one.target, one.there, one.exact, one.present) for one in seen.offsets] == [(P0, there, exact, 700)]


def test_a_report_counts_the_records_that_were_deleted_after_a_groups_position() -> None:
    source, target = ScriptedGroups("b", 404), ScriptedGroups("a", 404)
    source.committed = {TopicPartition(TopicName("a.orders"), 0): CommittedOffset(404, "")}
    target.log = {P0: (700, 1201)}
    flow = replace(facts(source, target)._flow, source=Alias("b"), target=Alias("a"), policy="default")
    back = replace(flow, source=Alias("a"), target=Alias("b"))
    groups = SwitchoverGroups(flow, back, cast("ClusterAdmin", source), cast("ClusterAdmin", target), flow)
    vars(groups)["_moves"] = vars(groups)["_returns"] = SimpleNamespace(read=dict, mark_ended=dict)
    vars(groups)["_back"] = Known(404, 405, 0)
    seen = groups.read_groups([], {}, {}, {})
    result, _, skips, repeats, why = reports(seen)
    assert (result, skips, repeats) == ("there", 1201 - 404, 0)
    assert why.startswith("on the target the group continues at 404, and the log begins at 700: 296 records before are")
    world = cast("SwitchoverClusters", SimpleNamespace(ends=SwitchoverDirection(Alias("b"), Alias("a"))))
    (call,) = (_group_call(world, one, seen) for one in judge(seen))
    assert call == f"group shop, orders-0: there; {why}"


@pytest.mark.parametrize(
    ("offset", "there", "exact"),
    [
        (30, 40, True),  # By the first move, before anything came back.
        (130, 135, True),  # Came from there.
        (170, 175, True),  # The same, and the flow knows of it only what is before.
        (230, 245, True),  # Written here since.
        (290, 260, False),  # Neither is exact: the furthest.
        (300, 999, True),  # The end of both.
    ],
)
def test_after_several_moves_each_flow_translates_what_it_copied(offset: int, there: int, exact: bool) -> None:
    source, target = ScriptedGroups("a", offset), ScriptedGroups("b", 0)
    groups = facts(source, target)
    vars(groups)["_forward"] = Translators(Known(0, 100, 10), Known(200, 250, 15, before=260))
    vars(groups)["_back"] = Translators(Known(120, 200, 5, before=150))
    topic = MovedTopic(ORDERS, ORDERS, 1, ORDERS)
    (one,) = groups.read_groups([topic], {P0: 300}, {P0: 999}, {P0: 200}).offsets
    assert (one.there, one.exact) == (there, exact)
