"""The outcome of all flows of a process, from the state of each flow."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from twinlog.worker.status.flow_state import FlowState


class Outcome(Enum):
    """The end of a run: stopped, caught up, with held partitions, with a flow without topics, or with a failed flow."""

    STOPPED = "stopped"
    DONE = "caught up"
    HELD = "caught up, but for held partitions"
    NOTHING = "nothing matched"
    FAILED = "failed"


def outcome_of(states: Collection[FlowState]) -> Outcome:
    """The outcome of flows in these states; the state that most needs an operator decides."""
    if FlowState.FAILED in states:
        return Outcome.FAILED
    if not all(state in (FlowState.DONE, FlowState.HELD, FlowState.NOTHING) for state in states):
        return Outcome.STOPPED
    if FlowState.HELD in states:
        return Outcome.HELD
    return Outcome.NOTHING if FlowState.NOTHING in states else Outcome.DONE
