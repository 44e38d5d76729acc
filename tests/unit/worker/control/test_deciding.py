"""Where a partition goes on that somebody asks something of: what it costs, and when it stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.control.deciding import Log, decide
from twinlog.worker.control.model import Command, Move, Place, PlaceKind, Selector, Verb

PART = TopicPartition(TopicName("t"), 0)
EARLIEST, LATEST = Place(PlaceKind.EARLIEST), Place(PlaceKind.LATEST)


def offset(value: int) -> Place:
    return Place(PlaceKind.OFFSET, value)


def move(verb: Verb, place: Place | None, at: int | None, start: int = 10, end: int = 100, **log: Any) -> Move:
    command = Command("id", verb, (Selector("t"),), place)
    return decide(command, PART, None if at is None else Position(at, at), Log(start, end, **log))


@pytest.mark.parametrize(
    ("verb", "place", "at", "log", "after", "passed", "repeated"),
    [
        (Verb.RESTART_FROM, EARLIEST, 60, {}, 10, 0, 50),
        (Verb.RESTART_FROM, offset(40), 60, {}, 40, 0, 20),
        (Verb.RESTART_FROM, offset(3), 60, {}, 10, 0, 50),
        (Verb.RESTART_FROM, Place(PlaceKind.TIME, 7), 60, {"at_time": 30}, 30, 0, 30),
        # What the source does not have any more cannot be passed over.
        (Verb.RESTART_FROM, EARLIEST, 4, {}, 10, 6, 0),
        # Its log was cut back since: so much of it is there to be copied again.
        (Verb.RESTART_FROM, offset(90), 120, {}, 90, 0, 10),
        (Verb.RESTART_FROM, EARLIEST, None, {}, 10, 0, 0),
        (Verb.RESTART_FROM, EARLIEST, 60, {"recreated": True}, 10, 0, 0),
        (Verb.SKIP_TO, LATEST, 60, {}, 100, 40, 0),
        (Verb.SKIP_TO, offset(61), 60, {}, 61, 1, 0),
        (Verb.SKIP_TO, Place(PlaceKind.TIME, 7), 60, {"at_time": 80}, 80, 20, 0),
        (Verb.SKIP_TO, Place(PlaceKind.TIME, 7), 60, {"at_time": None}, 100, 40, 0),
        (Verb.SKIP_TO, LATEST, None, {}, 100, 90, 0),
        (Verb.SKIP_TO, LATEST, 60, {"recreated": True}, 100, 90, 0),
        (Verb.ACCEPT_GAP, None, 4, {}, 10, 6, 0),
        (Verb.ACCEPT_GAP, None, 120, {}, 100, 0, 0),
        (Verb.ACCEPT_GAP, None, 60, {"recreated": True}, 10, 0, 0),
        (Verb.ACCEPT_GAP, None, 60, {"diverging_end": 50}, 50, 0, 0),
    ],
)
def test_it_goes_on_elsewhere(
    verb: Verb, place: Place | None, at: int | None, log: dict[str, Any], after: int, passed: int, repeated: int
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
        (Verb.RESTART_FROM, LATEST, 60, {}, "it is at offset 60, before 100: skip-to"),
        (Verb.RESTART_FROM, offset(60), 60, {}, "it is there already"),
        (Verb.RESTART_FROM, offset(101), 60, {}, "the source ends at offset 100"),
        (Verb.RESTART_FROM, LATEST, None, {}, "nothing of it was copied yet: skip-to passes over offsets 10 to 99"),
        (Verb.RESTART_FROM, LATEST, 60, {"recreated": True}, "the topic was created again since it was copied"),
        (Verb.SKIP_TO, EARLIEST, 60, {}, "it is at offset 60, after 10: restart-from"),
        (Verb.SKIP_TO, offset(60), 60, {}, "it is there already"),
        (Verb.ACCEPT_GAP, None, 60, {}, "there is no gap"),
        (Verb.ACCEPT_GAP, None, None, {}, "nothing of it was copied yet"),
    ],
)
def test_it_stays_and_the_reason_is_told(
    verb: Verb, place: Place | None, at: int | None, log: dict[str, Any], why: str
) -> None:
    found = move(verb, place, at, **log)
    assert (found.changes, found.before, found.after, found.passed, found.repeated) == (False, at, at, 0, 0)
    assert why in found.text


def test_a_partition_that_the_source_does_not_report_stays() -> None:
    found = decide(Command("id", Verb.SKIP_TO, (), LATEST), PART, Position(5, 5), None)
    assert (found.changes, found.after) == (False, 5)
    assert "ask again" in found.text


def test_release_changes_no_position() -> None:
    assert move(Verb.RELEASE, None, 60) == Move(PART, 60, 60)
