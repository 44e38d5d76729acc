"""Hands over flows of this process in sequence, so that they spread, or gather with `packs`."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping, Sequence
from typing import Protocol

from twinlog.settings.flow import FlowSettings
from twinlog.worker.election.roster import ElectionRegistry
from twinlog.worker.election.spread import FlowMembers, FlowName, ProcessName, loads, next_gathering, next_move

log = logging.getLogger(__name__)

CALM_S = 3.0
"""The time without any change that must precede a move."""

PATIENCE_S = 15.0
"""The time after which a process with more flows counts as unable to hand a flow over.

The next process then stops waiting for it, and waits as long again for each further process that precedes it.
"""

LOOK_S = 1.0


class TransferableFlow(Protocol):
    """A flow in this process, which runs here or is on standby here; see `ElectedFlow`."""

    @property
    def settings(self) -> FlowSettings: ...

    @property
    def clearing(self) -> bool: ...

    @property
    def can_hand_over(self) -> bool: ...

    def hand_over(self, heir: str) -> None: ...


def spread(roster: ElectionRegistry, hosted_flows: Sequence[TransferableFlow]) -> None:
    """Hand over a flow if a ready process runs at least two flows fewer; called every moment.

    If processes pack, the receiver is the process that runs the most flows.
    """
    if any(hosted.clearing for hosted in hosted_flows):
        roster.restart_calm()
        return
    if not roster.may_move or roster.calm_s < CALM_S:
        return
    crews = roster.crews()
    able = {hosted.settings.name: hosted for hosted in hosted_flows if hosted.can_hand_over}
    move = _next(roster, crews, able, overlook=float("inf"))
    waits_s = roster.wait(move is not None)
    if move is not None:
        move = _next(roster, crews, able, overlook=waits_s // PATIENCE_S)
    if move is not None:
        flow, heir = move
        counts = loads(crews)
        log.info(
            "%s: handed over to %s, which runs %d of the flows, this process %d",
            *(flow, heir, counts.get(heir, 0), counts.get(roster.name, 0)),
        )
        able[flow].hand_over(heir)
        # The group appoints the new runner later; until then this process would hand over another flow.
        roster.hand_over_flow(flow, heir)
    elif _next(roster, crews, crews, overlook=float("inf")) is None:
        roster.mark_balanced(crews)
    else:
        # A flow that is tied to this process now may be free later, without an event.
        roster.pause_moves(LOOK_S)


def _next(
    roster: ElectionRegistry, crews: Mapping[FlowName, FlowMembers], able: Container[FlowName], *, overlook: float
) -> tuple[FlowName, ProcessName] | None:
    if roster.packs:
        return next_gathering(crews, roster.name, able)
    return next_move(crews, roster.name, able, overlook=overlook)
