"""Hands over flows of this process, one at a time, so that they spread, or gather where that is wanted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from twinlog.plan.spread import loads, next_gathering, next_move
from twinlog.run.roster import Roster
from twinlog.settings import FlowSettings

log = logging.getLogger(__name__)

CALM_S = 3.0
"""Nothing is handed over before everything has been as it is for so long."""


class Place(Protocol):
    """A flow's place in this process, see `Seat`."""

    settings: FlowSettings

    @property
    def clearing(self) -> bool: ...

    @property
    def can_hand_over(self) -> bool: ...

    def hand_over(self, heir: str) -> None: ...


def spread(roster: Roster, places: Sequence[Place]) -> None:
    """Hand over one flow if a process that is ready runs two fewer, or fewer still; called every moment.

    Where processes pack, the other way round: to the one that runs the most.
    """
    if roster.settled or roster.calm_s < CALM_S or any(place.clearing for place in places):
        return
    crews = roster.crews()
    move = (next_gathering if roster.packs else next_move)(crews, roster.name)
    if move is None:
        roster.settle(crews)
        return
    flow, heir = move
    for place in places:
        if place.settings.name == flow and place.can_hand_over:
            counts = loads(crews)
            log.info(
                "%s: handed over to %s, which runs %d of the flows, this process %d",
                *(flow, heir, counts[heir], counts[roster.name]),
            )
            place.hand_over(heir)
