"""Runs of acknowledged appends: as few as there are places where source and target offsets part."""

from __future__ import annotations

from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.runs import CopiedRuns, joined


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
