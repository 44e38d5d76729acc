"""Where a partition goes on that somebody asks something of: what it costs, and when it stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.control.deciding import PartitionLog, decide, stays_with_offsets
from twinlog.worker.control.model import (
    LogPlace,
    LogPlaceKind,
    PartitionMove,
    PartitionSelector,
    TopicCommand,
    TopicVerb,
)

PART = TopicPartition(TopicName("t"), 0)
EARLIEST, LATEST = LogPlace(LogPlaceKind.EARLIEST), LogPlace(LogPlaceKind.LATEST)


def offset(value: int) -> LogPlace:
    return LogPlace(LogPlaceKind.OFFSET, value)


def move(
    verb: TopicVerb, place: LogPlace | None, at: int | None, start: int = 10, end: int = 100, **log: Any
) -> PartitionMove:
    command = TopicCommand("id", verb, (PartitionSelector("t"),), place)
    return decide(command, PART, None if at is None else Position(at, at), PartitionLog(start, end, **log))


@pytest.mark.parametrize(
    ("verb", "place", "at", "log", "after", "passed", "repeated"),
    [
        (TopicVerb.RESTART_FROM, EARLIEST, 60, {}, 10, 0, 50),
        (TopicVerb.RESTART_FROM, offset(40), 60, {}, 40, 0, 20),
        (TopicVerb.RESTART_FROM, offset(3), 60, {}, 10, 0, 50),
        (TopicVerb.RESTART_FROM, LogPlace(LogPlaceKind.TIME, 7), 60, {"at_time": 30}, 30, 0, 30),
        # What the source does not have any more cannot be passed over.
        (TopicVerb.RESTART_FROM, EARLIEST, 4, {}, 10, 6, 0),
        # Its log was cut back since: so much of it is there to be copied again.
        (TopicVerb.RESTART_FROM, offset(90), 120, {}, 90, 0, 10),
        (TopicVerb.RESTART_FROM, EARLIEST, None, {}, 10, 0, 0),
        (TopicVerb.RESTART_FROM, EARLIEST, 60, {"recreated": True}, 10, 0, 0),
        (TopicVerb.SKIP_TO, LATEST, 60, {}, 100, 40, 0),
        (TopicVerb.SKIP_TO, offset(61), 60, {}, 61, 1, 0),
        (TopicVerb.SKIP_TO, LogPlace(LogPlaceKind.TIME, 7), 60, {"at_time": 80}, 80, 20, 0),
        (TopicVerb.SKIP_TO, LogPlace(LogPlaceKind.TIME, 7), 60, {"at_time": None}, 100, 40, 0),
        (TopicVerb.SKIP_TO, LATEST, None, {}, 100, 90, 0),
        (TopicVerb.SKIP_TO, LATEST, 60, {"recreated": True}, 100, 90, 0),
        (TopicVerb.ACCEPT_GAP, None, 4, {}, 10, 6, 0),
        (TopicVerb.ACCEPT_GAP, None, 120, {}, 100, 0, 0),
        (TopicVerb.ACCEPT_GAP, None, 60, {"recreated": True}, 10, 0, 0),
        (TopicVerb.ACCEPT_GAP, None, 60, {"diverging_end": 50}, 50, 0, 0),
    ],
)
def test_it_goes_on_elsewhere(
    verb: TopicVerb, place: LogPlace | None, at: int | None, log: dict[str, Any], after: int, passed: int, repeated: int
) -> None:
    found = move(verb, place, at, **log)
    assert (found.changes, found.before, found.after, found.passed, found.repeated) == (
        True,
        at,
        after,
        passed,
        repeated,
    )


@pytest.mark.parametrize(
    ("verb", "place", "at", "log", "why"),
    [
        (TopicVerb.RESTART_FROM, LATEST, 60, {}, "it is at offset 60, before 100: skip-to"),
        (TopicVerb.RESTART_FROM, offset(60), 60, {}, "it is there already"),
        (TopicVerb.RESTART_FROM, offset(101), 60, {}, "the source ends at offset 100"),
        (
            TopicVerb.RESTART_FROM,
            LATEST,
            None,
            {},
            "nothing of it was copied yet: skip-to passes over offsets 10 to 99",
        ),
        (TopicVerb.RESTART_FROM, LATEST, 60, {"recreated": True}, "the topic was created again since it was copied"),
        (TopicVerb.SKIP_TO, EARLIEST, 60, {}, "it is at offset 60, after 10: restart-from"),
        (TopicVerb.SKIP_TO, offset(60), 60, {}, "it is there already"),
        (TopicVerb.ACCEPT_GAP, None, 60, {}, "there is no gap"),
        (TopicVerb.ACCEPT_GAP, None, None, {}, "nothing of it was copied yet"),
    ],
)
def test_it_stays_and_the_reason_is_told(
    verb: TopicVerb, place: LogPlace | None, at: int | None, log: dict[str, Any], why: str
) -> None:
    found = move(verb, place, at, **log)
    assert (found.changes, found.before, found.after, found.passed, found.repeated) == (False, at, at, 0, 0)
    assert why in found.text


def test_a_partition_that_the_source_does_not_report_stays() -> None:
    found = decide(TopicCommand("id", TopicVerb.SKIP_TO, (), LATEST), PART, Position(5, 5), None)
    assert (found.changes, found.after) == (False, 5)
    assert "ask again" in found.text


def test_release_changes_no_position() -> None:
    assert move(TopicVerb.RELEASE, None, 60) == PartitionMove(PART, 60, 60)


@pytest.mark.parametrize("at", [None, 7])
def test_a_partition_that_keeps_its_offsets_stays(at: int | None) -> None:
    found = stays_with_offsets(PART, None if at is None else Position(at, at, kept_from=0))
    assert (found.before, found.after, found.changes) == (at, at, False)
    assert "delete the remote topic" in found.text
