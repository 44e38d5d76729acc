"""When flows are handed over: after a calm, one at a time, and nobody thinks of it again while nothing changes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.plan.spread import Crew
from twinlog.run import spreading
from twinlog.run.roster import Roster
from twinlog.run.spreading import spread

BOTH = {"me": True, "other": True}


class Place:
    """A flow that runs here."""

    clearing = False
    can_hand_over = True

    def __init__(self, name: str) -> None:
        self.settings: Any = SimpleNamespace(name=name)
        self.heirs: list[str] = []

    def hand_over(self, heir: str) -> None:
        self.heirs.append(heir)


@pytest.fixture
def places() -> list[Place]:
    return [Place("1"), Place("2"), Place("3")]


@pytest.fixture
def roster(places: list[Place]) -> Roster:
    roster = Roster(name="me")
    for place in places:
        roster.note(place.settings.name, Crew("me", BOTH))
    return roster


def handed_over(places: list[Place]) -> int:
    return sum(len(place.heirs) for place in places)


def test_nothing_moves_before_a_calm(roster: Roster, places: list[Place], monkeypatch: pytest.MonkeyPatch) -> None:
    spread(roster, places)
    assert handed_over(places) == 0
    monkeypatch.setattr(spreading, "CALM_S", 0.0)
    places[0].clearing = True
    spread(roster, places)
    assert handed_over(places) == 0
    places[0].clearing = False
    for place in places:
        place.can_hand_over = False
    spread(roster, places)
    assert handed_over(places) == 0
    for place in places:
        place.can_hand_over = True
    spread(roster, places)
    assert handed_over(places) == 1


def test_what_was_found_counts_until_something_changes(
    roster: Roster, places: list[Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spreading, "CALM_S", 0.0)
    asked: list[str] = []
    really = spreading.next_move

    def counted(crews: Any, me: str) -> Any:
        asked.append(me)
        return really(crews, me)

    monkeypatch.setattr(spreading, "next_move", counted)
    roster.note("1", Crew("other", BOTH))
    for _ in range(3):
        spread(roster, places)
    assert (len(asked), handed_over(places)) == (1, 0)
    roster.note("1", Crew("other", BOTH))
    spread(roster, places)
    assert len(asked) == 1
    # What changed while it was thought of counts as well.
    crews = roster.crews()
    roster.note("1", None)
    roster.settle(crews)
    assert not roster.settled
    roster.note("1", Crew("me", BOTH))
    spread(roster, places)
    assert (len(asked), handed_over(places)) == (2, 1)
