"""How a run ended is what an operator has to look at first."""

from __future__ import annotations

import pytest

from twinlog.worker.flow.flow import FlowState
from twinlog.worker.outcome import Outcome, outcome_of


@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        ((), Outcome.DONE),
        ((FlowState.DONE, FlowState.DONE), Outcome.DONE),
        ((FlowState.DONE, FlowState.NOTHING), Outcome.NOTHING),
        ((FlowState.DONE, FlowState.STOPPED), Outcome.STOPPED),
        # Nothing was there for one, and nobody knows of the other.
        ((FlowState.NOTHING, FlowState.STARTING), Outcome.STOPPED),
        ((FlowState.FAILED, FlowState.NOTHING, FlowState.STOPPED), Outcome.FAILED),
    ],
)
def test_the_worst_counts(states: tuple[FlowState, ...], outcome: Outcome) -> None:
    assert outcome_of(states) is outcome
