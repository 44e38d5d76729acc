"""Where to copy again from, by what the exact map has and what is left on the target."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from twinlog.copier.start import lost_records
from twinlog.copier.start.lost_records import LoggedRecord, RemoteLogComparison, ResumePoint
from twinlog.kafka.net.loop import Loop
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.exact_map import CopiedRun, ExactMap
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicName, TopicPartition

SOURCE, REMOTE = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("north.t"), 0)
NOW = Position(60, 50)


def with_a_hole() -> ExactMap:
    """Source offsets 0 to 19 went to 0 to 19, and 30 to 59 to 20 to 49."""
    known = ExactMap(0, 0, complete=True)
    known.add_runs([CopiedRun(0, 0, 20), CopiedRun(30, 20, 30)])
    return known


def both_logs(monkeypatch: pytest.MonkeyPatch, *, shift: int, shifted_from: int, gone: Collection[int] = ()) -> None:
    """What both logs hold: the target other records than the map names, with a `shift`, from target offset
    `shifted_from` on; the source those no more that are `gone`."""
    truth = with_a_hole()

    async def record(client: str, _partition: TopicPartition, offset: int, _read: None) -> LoggedRecord | None:
        if client == "target":
            translated = truth.to_source(offset)
            assert translated is not None
            offset = translated.offset + shift * (offset >= shifted_from)
        elif offset in gone:
            return None
        return LoggedRecord(False, 0, b"%d" % offset)

    monkeypatch.setattr(lost_records, "_record", record)


def place(
    loop: Loop,
    monkeypatch: pytest.MonkeyPatch,
    known: ExactMap | None,
    end: int,
    *,
    start: int = 0,
    shift: int = 0,
    shifted_from: int = 0,
) -> ResumePoint | None:
    """The place found for a log from `start` to `end`; with a `shift` the map names the wrong records, from target
    offset `shifted_from` on."""
    both_logs(monkeypatch, shift=shift, shifted_from=shifted_from)
    source: Any = "source"
    target: Any = "target"
    grant = Grant(SOURCE, REMOTE, None, 1000, NOW)
    return loop.run(RemoteLogComparison(source, target, grant, known, start, end).find_place)


@pytest.mark.parametrize(("end", "expected"), [(49, 59), (21, 31), (20, 20), (1, 1)])
def test_the_last_remaining_record_decides_where_to_go_on(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, end: int, expected: int
) -> None:
    assert place(loop, monkeypatch, with_a_hole(), end) == ResumePoint(expected, True, end)


def test_for_an_empty_log_the_map_alone_decides(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place(loop, monkeypatch, with_a_hole(), 0) == ResumePoint(0, True, 0)
    assert place(loop, monkeypatch, with_a_hole(), 25, start=25) == ResumePoint(35, True, 25)


def test_a_map_that_names_another_record_is_not_called_exact(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place(loop, monkeypatch, with_a_hole(), 40, shift=3) == ResumePoint(50, False, 40)


def test_after_a_marker_the_record_before_it_counts(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two transactions of ten records, each with its marker after it."""
    known = ExactMap(0, 0, complete=True)
    known.add_runs([CopiedRun(0, 0, 10), CopiedRun(10, 11, 10)])
    monkeypatch.setattr("tests.unit.copier.start.test_lost_records.with_a_hole", lambda: known)
    assert place(loop, monkeypatch, known, 11) == ResumePoint(10, True, 11)
    assert place(loop, monkeypatch, known, 10) == ResumePoint(10, True, 10)
    assert place(loop, monkeypatch, known, 13) == ResumePoint(12, True, 13)


def test_where_only_a_marker_is_left_all_is_copied_again(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target lost the whole log, and then got the marker of the last transaction, which was on its way."""

    async def record(client: str, _partition: TopicPartition, offset: int, _read: None) -> LoggedRecord | None:
        return None if client == "target" else LoggedRecord(False, 0, b"%d" % offset)

    monkeypatch.setattr(lost_records, "_record", record)
    known = ExactMap(0, 0, complete=True)
    known.add_runs([CopiedRun(0, 0, 10), CopiedRun(10, 11, 10)])
    source: Any = "source"
    target: Any = "target"
    grant = Grant(SOURCE, REMOTE, None, 1000, NOW)
    for end in (1, 2):
        assert loop.run(RemoteLogComparison(source, target, grant, known, 0, end).find_place) == ResumePoint(0, True, 0)


@pytest.mark.parametrize("begin", [10, 50])
def test_older_records_in_front_of_the_map_hide_no_loss(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, begin: int
) -> None:
    """The target lost all that was copied after them, and then got a marker."""

    async def record(client: str, _partition: TopicPartition, offset: int, _read: None) -> LoggedRecord | None:
        return None if client == "target" and offset >= begin else LoggedRecord(False, 0, b"%d" % offset)

    monkeypatch.setattr(lost_records, "_record", record)
    known = ExactMap(0, begin, complete=False)
    known.add_runs([CopiedRun(0, begin, 1000)])
    source: Any = "source"
    target: Any = "target"
    grant = Grant(SOURCE, REMOTE, None, 1000, NOW)
    assert loop.run(RemoteLogComparison(source, target, grant, known, 0, begin + 1).find_place) == ResumePoint(
        0, True, begin
    )


def test_after_a_wide_hole_nothing_is_passed_over(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    known = ExactMap(0, 0, complete=True)
    known.add_runs([CopiedRun(0, 0, 100), CopiedRun(100, 200, 100)])
    monkeypatch.setattr("tests.unit.copier.start.test_lost_records.with_a_hole", lambda: known)
    found = place(loop, monkeypatch, known, 260, shift=7, shifted_from=200)
    assert found is not None
    assert found.next_source == 100


@pytest.mark.parametrize("left", [1, 19, 20, 33, 39])
def test_what_came_before_the_loss_was_seen_is_passed_over(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    last = with_a_hole().to_source(left - 1)
    assert last is not None
    found = place(loop, monkeypatch, with_a_hole(), 40, shift=15, shifted_from=left)
    assert found == ResumePoint(last.offset + 1, True, left)


def test_without_a_map_nothing_is_known(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place(loop, monkeypatch, None, 40) is None


@pytest.mark.parametrize(("shifted_from", "whole"), [(50, True), (49, False), (0, False)])
def test_a_log_that_did_not_become_shorter_is_compared(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, shifted_from: int, whole: bool
) -> None:
    truth = with_a_hole()
    both_logs(monkeypatch, shift=3, shifted_from=shifted_from)
    source: Any = "source"
    target: Any = "target"
    grant = Grant(SOURCE, REMOTE, None, 1000, NOW)
    assert loop.run(RemoteLogComparison(source, target, grant, truth, 0, 50).is_whole) == whole
    assert loop.run(RemoteLogComparison(source, target, grant, None, 0, 50).is_whole)


@pytest.mark.parametrize(
    ("gone", "shifted_from", "whole"),
    [
        # The source was compacted: only the last one before can be compared.
        ({59}, 50, True),
        ({59}, 49, True),
        ({59}, 48, False),
        # Nothing can be compared.
        (set(range(60)), 0, True),
    ],
)
def test_of_records_that_the_source_lost_those_before_are_compared(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, gone: set[int], shifted_from: int, whole: bool
) -> None:
    truth = with_a_hole()
    both_logs(monkeypatch, shift=3, shifted_from=shifted_from, gone=gone)
    source: Any = "source"
    target: Any = "target"
    grant = Grant(SOURCE, REMOTE, None, 1000, NOW)
    assert loop.run(RemoteLogComparison(source, target, grant, truth, 0, 50).is_whole) == whole
    if len(gone) == 60:
        assert loop.run(RemoteLogComparison(source, target, grant, truth, 0, 50).find_place) == ResumePoint(
            60, True, 50
        )


def test_the_last_record_is_read_once(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    both_logs(monkeypatch, shift=3, shifted_from=40)
    record, read = lost_records._record, []

    async def counted(client: Any, partition: TopicPartition, offset: int, first: None) -> LoggedRecord | None:
        read.append((client, offset))
        return await record(client, partition, offset, first)

    monkeypatch.setattr(lost_records, "_record", counted)
    source: Any = "source"
    target: Any = "target"
    comparison = RemoteLogComparison(source, target, Grant(SOURCE, REMOTE, None, 1000, NOW), with_a_hole(), 0, 50)
    assert not loop.run(comparison.is_whole)
    assert loop.run(comparison.find_place) == ResumePoint(50, True, 40)
    assert read.count(("target", 49)) == read.count(("source", 59)) == 1


@pytest.mark.parametrize("aborted", [False, True])
def test_what_was_aborted_is_not_there(loop: Loop, monkeypatch: pytest.MonkeyPatch, aborted: bool) -> None:
    """From target offset 40 on the records are the right ones, in another transaction."""

    async def record(client: str, _partition: TopicPartition, offset: int, _read: None) -> LoggedRecord:
        if client == "target":
            translated = with_a_hole().to_source(offset)
            assert translated is not None
            return LoggedRecord(False, 0, b"%d" % translated.offset, transactional=True)
        return LoggedRecord(False, 0, b"%d" % offset)

    async def is_aborted(_client: str, _partition: TopicPartition, offset: int, _read: None) -> bool:
        return aborted and offset >= 40

    monkeypatch.setattr(lost_records, "_record", record)
    monkeypatch.setattr(lost_records, "_is_aborted", is_aborted)
    source: Any = "source"
    target: Any = "target"
    grant = Grant(SOURCE, REMOTE, None, 1000, NOW)
    comparison = RemoteLogComparison(source, target, grant, with_a_hole(), 0, 50)
    assert loop.run(comparison.is_whole) != aborted
    found = loop.run(comparison.find_place)
    assert found == (ResumePoint(50, True, 40) if aborted else ResumePoint(60, True, 50))


@pytest.mark.parametrize(
    ("before", "pair"), [(0, None), (1, (0, 0)), (20, (19, 19)), (21, (30, 20)), (50, (59, 49)), (70, (59, 49))]
)
def test_the_last_record_before_an_offset(before: int, pair: tuple[int, int] | None) -> None:
    assert with_a_hole().last_before(before) == pair
