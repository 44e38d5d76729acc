"""The exact map by examples: holes, ends, what went back, what is not known, and the runs of acknowledged appends."""

from __future__ import annotations

import pytest

from twinlog.mirror.offsets.exact_map import CopiedRun, CopiedRuns, ExactMap, Point, Translated, joined


def answers(known: ExactMap, *offsets: int) -> list[int | None]:
    """Translations that are all exact, or None."""
    found = [known.to_target(offset) for offset in offsets]
    assert all(one is None or one.exact for one in found)
    return [None if one is None else one.offset for one in found]


def begin_again(known: ExactMap, run: CopiedRun) -> None:
    """A side went back: the writer begins a segment of a new generation, which a reader joins."""
    assert known.goes_back(run.source, run.target)
    assert known.add_runs([run]) == 0
    known.replace_from(Point(run.source, run.target), (), new_generation=True, complete=False)
    assert known.add_runs([run]) == 1


def test_a_log_without_holes_is_one_point() -> None:
    known = ExactMap(100, 0, complete=True)
    for number in range(1000):
        known.add_runs([CopiedRun(100 + number * 10, number * 10, 10)])
    assert len(known) == 1
    assert answers(known, 100, 101, 5000, 10_100) == [0, 1, 4900, 10_000]


def test_an_offset_in_a_source_hole_is_that_of_the_next_copy() -> None:
    known = ExactMap(0, 0)
    known.add_runs([CopiedRun(0, 0, 10)])
    known.add_runs([CopiedRun(20, 10, 5)])
    assert answers(known, 9, 10, 15, 20, 21, 25) == [9, 10, 10, 10, 11, 15]


def test_source_holes_are_certain_offsets_without_a_copy() -> None:
    known = ExactMap(0, 0)
    known.add_runs([CopiedRun(0, 0, 10)])
    known.add_runs([CopiedRun(20, 10, 5)])
    known.add_runs([CopiedRun(25, 17, 5)])
    known.add_runs([CopiedRun(31, 30, 5)])
    assert list(known.source_holes()) == [(10, 20, 10), (30, 31, 30)]
    known.skip_to(40)
    assert list(known.source_holes())[2:] == [(36, 40, 35)], "read and left out since the last copy"
    known.add_jump(60, 45)
    known.add_runs([CopiedRun(70, 45, 1)])
    assert list(known.source_holes())[2:] == [(36, 40, 35), (60, 70, 45)], "some offsets before the jump have copies"


def test_records_of_others_on_the_target_are_passed_over() -> None:
    known = ExactMap(0, 0)
    known.add_runs([CopiedRun(0, 0, 10)])
    known.add_runs([CopiedRun(10, 17, 5)])
    assert answers(known, 9, 10, 11) == [9, 17, 18]
    assert [known.to_source(offset) for offset in (9, 10, 16, 17)] == [
        Translated(9, True),
        *[Translated(10, True)] * 3,
    ]


def test_holes_on_both_sides_at_once() -> None:
    known = ExactMap(0, 0)
    known.add_runs([CopiedRun(0, 0, 10)])
    known.add_runs([CopiedRun(14, 13, 5)])
    assert answers(known, 9, 10, 13, 14) == [9, 13, 13, 13]
    assert known.to_source(13) == Translated(14, True)


def test_what_was_joined_still_bounds_what_is_repeated() -> None:
    known, copies = ExactMap(0, 0, complete=True), []
    for number in range(64):
        # Of three source offsets one is left out, and somebody else writes now and then.
        first, base = number * 3, number * 2 + number // 8
        known.add_runs([CopiedRun(first, base, 2)])
        copies += [(first, base), (first + 1, base + 1)]
    known.limit_points(8)
    found = [(offset, known.to_target(offset), known.past_copies(offset)) for offset in range(known.next_source + 1)]
    assert not all(place is None or place.exact for _, place, _ in found)
    for offset, place, past in found:
        assert place is not None
        assert past is not None
        assert place.offset <= past
        assert all(there < past for here, there in copies if here < offset)
        assert all(there >= place.offset for here, there in copies if here >= offset)
    assert min(past - place.offset for _, place, past in found if place and past and not place.exact) < 16
    assert known.past_copies(known.next_source + 1) is None


def test_the_end_of_the_log() -> None:
    known = ExactMap(0, 0)
    known.add_runs([CopiedRun(0, 0, 10)])
    # Markers after the last record: a group that read all has committed 12.
    known.skip_to(12)
    assert answers(known, 10, 11, 12) == [10, 10, 10]
    assert known.to_target(13) == Translated(10, False)
    known.add_runs([CopiedRun(12, 10, 3)])
    assert answers(known, 10, 12, 13, 15) == [10, 10, 11, 13]


def test_offsets_before_the_first_copy() -> None:
    begun_with_it, taken_over = ExactMap(50, 0, complete=True), ExactMap(50, 70)
    for known in (begun_with_it, taken_over):
        known.add_runs([CopiedRun(50, known.next_target, 5)])
    assert answers(begun_with_it, 0, 49, 50) == [0, 0, 0]
    assert answers(taken_over, 0, 49, 50) == [None, None, 70]
    assert taken_over.to_source(69) is None
    assert begun_with_it.to_source(0) == Translated(50, True)


def test_nothing_copied_yet() -> None:
    known = ExactMap(7, 3, complete=True)
    assert answers(known, 0, 7) == [3, 3]
    assert known.to_target(8) == Translated(3, False)


def test_a_recreated_source_topic_begins_a_new_map() -> None:
    known = ExactMap(0, 0, complete=True)
    known.add_runs([CopiedRun(0, 0, 100)])
    begin_again(known, CopiedRun(0, 100, 10))
    assert answers(known, 0, 9, 10) == [100, 109, 110]
    assert known.to_target(50) == Translated(110, False)


def test_a_truncated_source_keeps_what_is_before() -> None:
    known = ExactMap(0, 0)
    known.add_runs([CopiedRun(0, 0, 100)])
    begin_again(known, CopiedRun(60, 100, 10))
    assert answers(known, 59, 60, 61, 70) == [59, 100, 101, 110]


def test_a_truncated_remote_topic_keeps_what_is_before() -> None:
    known = ExactMap(0, 0)
    known.add_runs([CopiedRun(0, 0, 100)])
    begin_again(known, CopiedRun(100, 60, 10))
    assert answers(known, 59, 60, 99, 100, 101) == [59, 60, 60, 60, 61]


def test_between_a_crash_and_a_restart_nothing_is_skipped() -> None:
    known = ExactMap(0, 0)
    known.add_runs([CopiedRun(0, 0, 100)])
    known.add_jump(150, 120)
    known.add_runs([CopiedRun(150, 120, 10)])
    assert answers(known, 99, 100, 150, 151) == [99, 100, 120, 121]
    assert known.to_target(130) == Translated(100, False)
    assert known.to_source(110) == Translated(100, False)


def test_a_restart_after_which_nothing_was_missed_loses_nothing() -> None:
    known = ExactMap(0, 0)
    known.add_runs([CopiedRun(0, 0, 100)])
    known.add_jump(103, 100)
    assert answers(known, 100, 102, 103) == [100, 100, 100]


def test_thousands_of_holes_are_found_quickly_and_kept_small() -> None:
    known = ExactMap(0, 0)
    for number in range(10_000):
        known.add_runs([CopiedRun(number * 11, number * 10, 10)])
    assert len(known) == 10_000
    for offset in range(0, 110_000, 997):
        number, step = divmod(offset, 11)
        assert answers(known, offset) == [number * 10 + min(step, 10)]
    assert known.limit_points(4096)
    assert len(known) <= 4096
    # The newer part stays exact, what is older never leads too far.
    for offset in range(0, 110_000, 997):
        number, step = divmod(offset, 11)
        found = known.to_target(offset)
        assert found is not None
        assert found.offset <= number * 10 + min(step, 10)
        assert found.exact or offset < 90_000
        assert number * 10 + min(step, 10) - found.offset <= 10_000 / 10
    assert not known.limit_points(4096)


def test_what_the_source_has_deleted_is_forgotten() -> None:
    known = ExactMap(0, 0, complete=True)
    for number in range(10):
        known.add_runs([CopiedRun(number * 11, number * 10, 10)])
    assert known.trim_points(35)
    assert known.points(0, 1) == [Point(33, 30)]
    assert answers(known, 0, 32, 33, 35) == [None, None, 30, 32]
    assert not known.trim_points(35)


def test_a_map_put_together_again_ends_where_the_position_says() -> None:
    known = ExactMap(0, 0, complete=True)
    known.add_runs([CopiedRun(0, 0, 10)])
    known.add_runs([CopiedRun(20, 10, 500)])
    known.skip_to(523)
    stored = ExactMap.of(known.points(), complete=True)
    assert stored.to_target(300) == Translated(10, False)
    stored.move_end(523, 510)
    assert [stored.to_target(offset) for offset in range(530)] == [known.to_target(offset) for offset in range(530)]


@pytest.mark.parametrize("position", [(19, 9), (25, 9), (19, 15)])
def test_a_position_older_than_the_map_changes_nothing(position: tuple[int, int]) -> None:
    stored = ExactMap.of([Point(0, 0), Point(20, 10)], complete=False)
    stored.move_end(*position)
    assert (stored.next_source, stored.next_target) == (20, 10)


def test_appends_in_step_are_one_run() -> None:
    noted = CopiedRuns()
    noted.add([(10, 5)], 100)
    noted.add([(15, 2), (17, 3)], 105)
    assert noted.take_runs() == [CopiedRun(10, 100, 10)]
    assert noted.take_runs() == []


def test_holes_on_either_side_begin_the_next_run() -> None:
    noted = CopiedRuns()
    noted.add([(10, 5), (16, 4)], 100)
    noted.add([(20, 1)], 110)
    assert noted.take_runs() == [CopiedRun(10, 100, 5), CopiedRun(16, 105, 4), CopiedRun(20, 110, 1)]


def test_what_was_taken_is_not_continued() -> None:
    noted = CopiedRuns()
    noted.add([(0, 5)], 0)
    assert noted.take_runs() == [CopiedRun(0, 0, 5)]
    noted.add([(5, 5)], 5)
    assert noted.take_runs() == [CopiedRun(5, 5, 5)]


def test_a_jump_is_a_run_of_no_records() -> None:
    noted = CopiedRuns()
    noted.add([(0, 5)], 0)
    noted.add_jump(9, 12)
    noted.add([(9, 1)], 12)
    assert noted.take_runs() == [CopiedRun(0, 0, 5), CopiedRun(9, 12, 0), CopiedRun(9, 12, 1)]


def test_one_that_goes_back_is_a_run_of_its_own() -> None:
    noted = CopiedRuns()
    noted.add([(10, 5)], 10)
    noted.add([(10, 5)], 15)
    assert noted.take_runs() == [CopiedRun(10, 10, 5), CopiedRun(10, 15, 5)]


def test_only_holes_on_the_target_and_jumps_part_what_is_joined() -> None:
    runs = [CopiedRun(0, 0, 5), CopiedRun(7, 5, 1), CopiedRun(8, 9, 2), CopiedRun(20, 11, 0), CopiedRun(20, 11, 3)]
    assert list(joined(runs)) == [([(0, 5), (7, 1)], 0), ([(8, 2)], 9), ([(20, 3)], 11)]
    assert list(joined([])) == []
    assert list(joined([CopiedRun(3, 4, 0)])) == []
