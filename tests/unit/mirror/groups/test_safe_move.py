"""When a group may move: facts of one partition in, the verdict out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from twinlog.mirror.groups.move_facts import GroupMove, MoveFacts
from twinlog.mirror.groups.safe_move import MoveVerdict, Obstacle, judge
from twinlog.model.types import TopicPartition

HERE, THERE = TopicPartition("orders", 3), TopicPartition("east.orders", 3)
STANDS = MoveFacts(
    "shop",
    HERE,
    THERE,
    committed=100,
    source_end=140,
    copied=140,
    translated=70,
    exact=True,
    checkpoint_source=100,
    checkpoint_target=70,
    target_committed=70,
    target_start=40,
    target_end=110,
)
"""A group in the middle of a partition, with everything in step."""


def of(**changes: Any) -> MoveVerdict:
    return judge(replace(STANDS, **changes))


def kinds(verdict: MoveVerdict) -> list[Obstacle]:
    return [reason.obstacle for reason in verdict.reasons]


def test_a_group_in_step_may_move_and_skips_and_repeats_nothing() -> None:
    assert judge(STANDS) == MoveVerdict()
    assert judge(STANDS).safe
    assert (STANDS.source_lag, STANDS.target_lag) == (40, 40)


COPY_BACK = replace(
    STANDS,
    copied=None,
    checkpoint_source=None,
    checkpoint_target=None,
    from_target=True,
    left_to_switchover=True,
)
"""A position in a copy of a topic of the target, which the flow leaves out."""


@pytest.mark.parametrize(
    ("changes", "repeats"),
    [
        ({}, 0),
        ({"target_committed": 90}, 0),
        ({"target_committed": 60}, 10),
        ({"target_committed": None}, None),
        ({"exact": False, "past_copies": 80}, 10),
        ({"exact": False, "past_copies": 80, "target_committed": 75}, 5),
        ({"exact": False, "past_copies": 80, "target_committed": 80}, 0),
        ({"source_end": 100, "target_committed": 60}, 10),
        # The copies are deleted, and records that the group has read on the target follow.
        ({"source_start": 100, "source_end": 100}, 0),
    ],
)
def test_a_position_in_a_copy_from_the_target_is_compared_with_the_group_s_own(changes: Any, repeats: Any) -> None:
    verdict = of_copy(**changes)
    assert (verdict.repeats, verdict.moved) == (repeats, False)
    # A switchover has nothing to commit for a group that stands at its place, or later.
    stands = (changes.get("target_committed", 70) or 0) >= 70
    obstacle = Obstacle.NOT_EXACT if stands else Obstacle.LEFT_TO_SWITCHOVER
    assert kinds(verdict) == ([obstacle] if repeats != 0 else [])
    assert not verdict.reasons or not verdict.heals


def test_a_position_in_an_empty_copy_of_an_empty_topic_needs_no_translation() -> None:
    empty = {"committed": 0, "source_start": 0, "source_end": 0, "target_start": 0, "target_end": 0}
    nothing = {"translated": None, "exact": False, "target_committed": None}
    assert of_copy(**empty, **nothing) == MoveVerdict()
    assert kinds(of_copy(**nothing)) == [Obstacle.NOT_TRANSLATED]


def of_copy(**changes: Any) -> MoveVerdict:
    return judge(replace(COPY_BACK, **changes))


AFTER = replace(STANDS, move=GroupMove(100, 70), active_on_source=False)


@pytest.mark.parametrize("at", [70, 71, 110])
@pytest.mark.parametrize("changes", [{}, {"source_answers": False}, {"committed": None}, {"translated": None}])
def test_a_group_that_stands_at_or_after_the_commit_of_a_switchover_has_moved(at: int, changes: Any) -> None:
    moved = MoveVerdict(moved=True)
    assert judge(replace(AFTER, target_committed=at, **changes)) == moved
    assert not judge(replace(AFTER, move=GroupMove(100, 70, ended_by="twinlog switchover"))).moved
    released = replace(AFTER, move=GroupMove(100, 70, released=True))
    assert judge(replace(released, target_committed=at, **changes)) == moved


def test_a_group_that_reads_on_the_source_since_the_switchover_has_yet_to_move() -> None:
    read_on = {"committed": 120, "translated": 90}
    assert kinds(judge(replace(AFTER, **read_on))) == [Obstacle.CHECKPOINT_OLD], "its offset there is that of 100"
    assert judge(replace(AFTER, target_committed=90, **read_on)) == MoveVerdict(), "the same command brought it over"
    assert judge(replace(AFTER, target_committed=95, **read_on)).moved, "it read on on both, and further there"
    skips = [
        replace(AFTER, target_committed=95, active_on_source=True),
        replace(AFTER, target_committed=95, move=GroupMove(100, 96), **read_on),
        replace(AFTER, target_committed=95, move=GroupMove(100, 70, released=True), **read_on),
        replace(AFTER, target_committed=95, move=None),
    ]
    assert [kinds(judge(one)) for one in skips] == [[Obstacle.TARGET_AHEAD]] * 4


REPEAT = "twinlog switchover FILE --from east --to west --emergency"


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({}, Obstacle.NOT_EXACT),
        ({"translated": 72}, Obstacle.CHECKPOINT_OLD),
        ({"checkpoint_source": 120, "translated": 72, "exact": True}, Obstacle.TARGET_BEHIND),
        ({"copied": 110}, Obstacle.FLOW_BEHIND),
    ],
)
def test_a_later_offset_on_the_source_that_is_back_names_the_repeat_of_the_emergency(
    changes: dict[str, Any], obstacle: Obstacle
) -> None:
    """The emergency moved the group by its checkpoint of 100, and before the loss the group had read up to 120."""
    known = {"exact": False, "past_copies": 75} | changes
    read_on = replace(AFTER, committed=120, repeat=REPEAT, **known)
    reason = judge(read_on).reasons[0]
    assert reason.obstacle is obstacle
    assert reason.text.endswith(f"; run {REPEAT} again, which commits this position")
    assert judge(replace(read_on, repeat="")).reasons[0].text == reason.text.partition("; run ")[0]
    assert judge(replace(read_on, move=GroupMove(120, 70))).moved, "the repeat has committed the offset"


def test_a_group_that_an_emergency_moved_and_that_reads_on_in_the_original_has_moved() -> None:
    """Only the returned source has its position in the copy, so the journal lacks this position."""
    reads_on = replace(COPY_BACK, exact=False, target_committed=71, repeat=REPEAT)
    assert judge(reads_on) == MoveVerdict(moved=True)
    assert kinds(judge(replace(reads_on, repeat=""))) == [Obstacle.NOT_EXACT]
    assert kinds(judge(replace(reads_on, active_on_source=True))) == [Obstacle.NOT_EXACT]
    for offset, obstacle in ((70, Obstacle.NOT_EXACT), (69, Obstacle.LEFT_TO_SWITCHOVER)):
        (reason,) = judge(replace(reads_on, target_committed=offset)).reasons
        assert reason.obstacle is obstacle
        assert reason.text.endswith(f"; run {REPEAT} again, which commits this position")


@pytest.mark.parametrize(
    ("changes", "obstacle", "words", "repeats", "skips"),
    [
        ({"copied": 90}, "FLOW_BEHIND", "copied up to 90, 10 before the commit", 40, 0),
        ({"in_transaction": True}, "IN_TRANSACTION", "committed 100, and more in a transaction", None, 0),
        ({"committed": 141}, "BEYOND_END", "committed 141, and the source ends at 140", 40, 0),
        ({"copied": 150}, "BEYOND_END", "copied up to 150, and the source ends at 140", 40, 0),
        ({"copied": None, "translated": None, "exact": False}, "NOT_COPIED", "not copied this partition", 40, 0),
        (
            {"translated": None, "exact": False, "checkpoint_source": None, "checkpoint_target": None},
            *("NOT_TRANSLATED", "older than any that can be translated", None, None),
        ),
        ({"translated": None, "exact": False}, "NOT_EXACT", "would repeat some, up to 40 records", 40, 0),
        (
            {"committed": 120, "translated": 90},
            "CHECKPOINT_OLD",
            "checkpoint is of 100, the group has committed 120: 20 to repeat",
            20,
            0,
        ),
        ({"target_committed": 60}, "TARGET_BEHIND", "stands at 60, 10 before its position", 10, 0),
        (
            {"target_committed": 75, "exact": False},
            *("TARGET_AHEAD", "at 75, and its position there is 70 or later: it may skip up to 5 records", 35, 5),
        ),
        ({"target_committed": 75}, "TARGET_AHEAD", "continues at 75, 5 after its position there: it would skip", 0, 5),
        ({"target_committed": None}, "NOT_COMMITTED", "nothing is committed on the target", None, None),
        (
            {"target_committed": None, "checkpoint_source": None, "checkpoint_target": None},
            "NOT_COMMITTED",
            "no checkpoint of this partition yet",
            None,
            None,
        ),
        ({"exact": False}, "NOT_EXACT", "100 has no exact translation: the group would repeat some, up to 40", 40, 0),
        ({"exact": False, "past_copies": 77}, "NOT_EXACT", "would repeat some, up to 7 records", 7, 0),
        ({"exact": False, "past_copies": 200}, "NOT_EXACT", "would repeat some, up to 40 records", 40, 0),
        ({"active_on_source": True, "active_on_target": True}, "IN_USE", "members on both clusters", 0, 0),
        ({"not_mirrored": "topics names others"}, "NOT_MIRRORED", "orders is not mirrored: topics names", None, None),
        ({"not_followed": "groups.exclude = s.*"}, "NOT_FOLLOWED", "follow the group: groups.exclude", None, None),
        ({"source_answers": False, "committed": None}, "SOURCE_SILENT", "100, 70 on the target, where", None, None),
        (
            {"source_answers": False},
            "SOURCE_SILENT",
            "continues at 70: it repeats the records that it read on the source after the checkpoint, up to 40 records",
            40,
            0,
        ),
        (
            {"source_answers": False, "exact": False, "target_end": None, "target_committed": 60},
            "SOURCE_SILENT",
            "continues at 60: it repeats the records that it read on the source after the checkpoint",
            None,
            0,
        ),
        ({"source_answers": False, "target_committed": 71}, "SOURCE_SILENT", "where the group continues", None, None),
        ({"target_answers": False}, "TARGET_SILENT", "target does not answer", None, None),
        ({"target_start": 90}, "BEFORE_START", "the log begins at 90: 20 records before are deleted there", 0, 40),
        ({"target_start": 80, "exact": False}, "BEFORE_START", "at 80: 10 records before are deleted", None, 40),
        ({"target_start": 75, "exact": False, "past_copies": 77}, "BEFORE_START", "at 75: 5 records before", 2, 40),
        ({"target_start": 65, "target_committed": 60}, "BEFORE_START", "at 65: 5 records before", 5, 40),
        ({"target_end": 69}, "BEYOND_END", "continues at 70, and the log ends at 69", None, None),
        ({"target_leader": False, "target_end": None}, "TARGET_SILENT", "has no leader there", None, None),
        ({"other_kind": "a share group", "active_on_target": True}, "NAME_TAKEN", "that of a share group", None, None),
        ({"checkpoints": False, "target_committed": None}, "NO_CHECKPOINTS", "no checkpoints", None, None),
    ],
)
def test_one_fact_out_of_step_keeps_it_with_its_reason(
    changes: dict[str, Any], obstacle: str, words: str, repeats: int | None, skips: int | None
) -> None:
    verdict = of(**changes)
    assert kinds(verdict) == [Obstacle[obstacle]], verdict
    assert words in verdict.reasons[0].text, verdict
    assert (verdict.repeats, verdict.skips) == (repeats, skips)
    assert not verdict.safe


@pytest.mark.parametrize("stands", [STANDS, COPY_BACK])
def test_a_deleted_position_is_named_while_the_source_is_silent_too(stands: MoveFacts) -> None:
    verdict = judge(replace(stands, source_answers=False, committed=None, target_start=90))
    assert kinds(verdict) == [Obstacle.BEFORE_START, Obstacle.SOURCE_SILENT]
    assert (verdict.repeats, verdict.skips, verdict.repeats_exact) == (20, 40, False)
    assert judge(replace(stands, target_start=90)).reasons[0] == verdict.reasons[0]


@pytest.mark.parametrize("stands", [STANDS, COPY_BACK])
@pytest.mark.parametrize(
    ("source_start", "there", "obstacle"),
    [
        (101, 90, None),
        (101, 89, Obstacle.BEFORE_START),
        (101, None, Obstacle.BEFORE_START),
        (100, 90, Obstacle.BEFORE_START),
        (None, 90, Obstacle.BEFORE_START),
        (140, None, None),
    ],
)
def test_a_position_that_both_clusters_have_deleted_is_an_obstacle_while_the_source_has_more_records(
    stands: MoveFacts, source_start: int | None, there: int | None, obstacle: Obstacle | None
) -> None:
    lost = replace(stands, source_start=source_start, source_start_there=there, target_start=90)
    verdict = judge(lost)
    assert kinds(verdict) == ([] if obstacle is None else [obstacle])
    assert (verdict.repeats, verdict.skips) == (0, 0 if obstacle is None else 40)


def test_a_group_that_begins_alike_on_both_clusters_repeats_the_records_before_its_place() -> None:
    alike = {"source_start": 120, "source_start_there": 90}
    assert of(**alike, target_start=69, target_committed=60).repeats == 1
    assert kinds(of(**alike, target_start=69, target_committed=60)) == [Obstacle.TARGET_BEHIND]
    assert of(**alike, target_start=70, target_committed=60) == MoveVerdict()
    inexact = {**alike, "exact": False, "target_committed": 60, "target_start": 80}
    assert kinds(of(**inexact, past_copies=81)) == [Obstacle.NOT_EXACT]
    assert of(**inexact, past_copies=80) == MoveVerdict()
    # Retention has shortened the map of offsets, and the checkpoint is compacted away.
    forgotten = {"translated": None, "checkpoint_source": None, "checkpoint_target": None}
    assert of(**inexact, **forgotten, past_copies=80) == MoveVerdict()
    assert kinds(of(**inexact, **forgotten)) == [Obstacle.NOT_EXACT]


def test_a_group_without_any_place_on_the_target_begins_alike_once_the_source_has_deleted_its_position() -> None:
    unplaced = {"translated": None, "exact": False, "checkpoint_source": None, "checkpoint_target": None}
    alike = {**unplaced, "target_committed": None, "source_start": 120, "source_start_there": 90, "target_start": 80}
    assert of(**alike, past_copies=80) == MoveVerdict()
    assert kinds(of(**alike, past_copies=81)) == [Obstacle.NOT_EXACT]
    assert kinds(of(**alike | {"source_start_there": 79}, past_copies=80)) == [Obstacle.NOT_TRANSLATED]
    assert kinds(of(**alike | {"source_start": 100}, past_copies=80)) == [Obstacle.NOT_TRANSLATED]
    assert kinds(of(**alike | {"target_leader": False}, past_copies=80)) == [Obstacle.NOT_TRANSLATED]
    # The flow will commit a known place.
    assert kinds(of(**alike | {"translated": 70})) == [Obstacle.NOT_COMMITTED]
    assert kinds(of(**alike | {"target_committed": 85}, past_copies=80)) == [Obstacle.NOT_TRANSLATED]


def test_the_text_of_a_deleted_position_counts_the_records_that_the_source_still_has() -> None:
    (reason,) = of(source_start=120, source_start_there=85, target_start=90).reasons
    assert "the log begins at 90: it lacks up to 5 records of the source's log" in reason.text


def test_a_group_at_the_end_of_the_copies_repeats_nothing_however_silent_the_source_is() -> None:
    at_end = {"translated": 110, "target_committed": 110}
    assert of(source_answers=False, **at_end) == MoveVerdict()


def test_a_group_before_its_inexact_place_repeats_records_after_this_place_too() -> None:
    verdict = of(committed=120, translated=90, past_copies=105, exact=False)
    assert kinds(verdict) == [Obstacle.CHECKPOINT_OLD, Obstacle.NOT_EXACT]
    late, inexact = (reason.text for reason in verdict.reasons)
    assert late.endswith("the group has committed 120: up to 35 to repeat")
    assert inexact.endswith("the group would repeat some, up to 15 records")
    (behind, _) = of(translated=75, past_copies=80, exact=False).reasons
    assert behind.text.endswith("the group stands at 70, at least 5 before its position")


def test_at_both_ends_it_may_move_however_offsets_are_translated() -> None:
    ends = {"committed": 140, "checkpoint_source": 140, "translated": 100, "exact": False, "target_committed": 110}
    assert of(**ends).safe
    assert kinds(of(**{**ends, "target_committed": 109})) == [Obstacle.TARGET_BEHIND]
    assert kinds(of(**{**ends, "source_end": 141, "target_committed": 100})) == [Obstacle.NOT_EXACT]


def test_a_checkpoint_skips_nothing_either_where_its_translation_is_the_further_one() -> None:
    stands = {"exact": False, "translated": 1, "checkpoint_target": 52, "target_committed": 52}
    verdict = of(**stands)
    assert (kinds(verdict), verdict.skips, verdict.repeats) == ([Obstacle.NOT_EXACT], 0, 58)
    assert judge(replace(STANDS, **stands), most_repeats=58).safe
    assert kinds(of(**{**stands, "target_committed": 53})) == [Obstacle.TARGET_AHEAD]
    # Of a later commit than the present one it says nothing: the group went back.
    assert kinds(of(**stands, checkpoint_source=101)) == [Obstacle.TARGET_AHEAD]


def test_a_group_that_is_ahead_of_an_inexact_place_skips_records_up_to_its_offset() -> None:
    verdict = of(exact=False, target_committed=80)
    assert (kinds(verdict), verdict.skips, verdict.least_skips) == ([Obstacle.TARGET_AHEAD], 10, 0)
    ahead = of(exact=False, target_committed=80, past_copies=77)
    assert (ahead.skips, ahead.least_skips) == (10, 3)
    exactly = of(target_committed=80)
    assert (exactly.skips, exactly.least_skips) == (10, 10)


@pytest.mark.parametrize(
    ("changes", "exact"),
    [
        ({"target_committed": 60}, True),
        ({"target_committed": 60, "exact": False}, False),
        ({"copied": 90}, False),
        ({"source_answers": False}, False),
        ({"left_to_switchover": True, "from_target": True, "target_committed": 60}, True),
        ({"left_to_switchover": True, "from_target": True, "target_committed": 60, "exact": False}, False),
    ],
)
def test_the_repeats_of_a_group_are_a_number_only_if_its_place_and_its_offsets_are_known(
    changes: dict[str, Any], exact: bool
) -> None:
    """With a lost source, the last checkpoint is exact, and the group may have read on after it."""
    verdict = of(**changes)
    assert verdict.repeats
    assert verdict.repeats_exact == exact


def test_a_group_that_a_switchover_moved_back_has_read_the_records_before_its_offset_on_the_target() -> None:
    back = {"target_committed": 88, "returned": GroupMove(90, 88)}
    assert of(**back) == MoveVerdict()
    further = of(**(back | {"target_committed": 91}))
    assert (kinds(further), further.skips) == ([Obstacle.TARGET_AHEAD], 3)
    assert of(**back, exact=False, past_copies=80) == MoveVerdict()
    # It read on on the source, perhaps to the copy at 95.
    between = of(**back, exact=False, past_copies=95)
    assert (kinds(between), between.repeats, between.skips) == ([Obstacle.NOT_EXACT], 7, 0)
    beyond = of(**(back | {"target_committed": 100}), exact=False, past_copies=95)
    assert (kinds(beyond), beyond.skips, beyond.least_skips) == ([Obstacle.TARGET_AHEAD], 12, 5)
    assert "its position there is 88 to 95: it would skip 5 to 12 records" in beyond.reasons[0].text
    assert kinds(of(**back, committed=89)) == [Obstacle.TARGET_AHEAD], "it was set back on the source since"


def test_some_repeated_records_may_be_accepted_but_no_skipped_ones() -> None:
    assert judge(replace(STANDS, target_committed=60), most_repeats=10).safe
    assert not judge(replace(STANDS, target_committed=59), most_repeats=10).safe
    assert judge(replace(STANDS, exact=False), most_repeats=40).safe
    assert not judge(replace(STANDS, target_committed=71), most_repeats=1000).safe


def test_without_commits_on_the_target_the_checkpoint_counts() -> None:
    assert of(syncs=False, target_committed=None).safe
    assert kinds(of(syncs=False, target_committed=None, checkpoint_target=60)) == [Obstacle.TARGET_BEHIND]
    assert kinds(of(syncs=False, target_committed=60)) == [Obstacle.TARGET_BEHIND]


def test_a_group_with_members_on_the_target_only_has_moved() -> None:
    verdict = of(active_on_target=True, target_committed=105)
    assert (verdict.moved, verdict.safe, verdict.done) == (True, False, True)


def test_an_empty_partition_is_copied() -> None:
    unseen: dict[str, Any] = {"copied": None, "translated": None, "exact": False, "checkpoint_source": None}
    unseen |= {"checkpoint_target": None, "target_committed": None}
    empty = {**unseen, "committed": 0, "source_start": 0, "source_end": 0, "target_start": 0, "target_end": 0}
    assert of(**empty) == MoveVerdict()
    assert kinds(of(**{**empty, "source_end": 1})) == [Obstacle.NOT_COPIED]
    assert kinds(of(**{**empty, "target_end": 1})) == [Obstacle.NOT_COMMITTED]
    # Retention has emptied the source; the copies are still there.
    emptied = {**empty, "committed": 9, "source_start": 9, "source_end": 9, "target_end": 5, "target_committed": 5}
    assert of(**emptied).safe
    # A flow of twinlog commits the offset soon.
    own = {**empty, "copied": 0, "translated": 0, "exact": True}
    assert kinds(of(**own)) == [Obstacle.NOT_COMMITTED]


def test_a_topic_that_came_from_the_target_is_not_copied_by_this_flow() -> None:
    assert of(from_target=True, copied=None).safe
