"""How a run ended is what an operator has to look at first."""

from __future__ import annotations

import pytest

from twinlog.driver.flow import State
from twinlog.driver.outcome import Outcome, outcome_of


@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        ((), Outcome.DONE),
        ((State.DONE, State.DONE), Outcome.DONE),
        ((State.DONE, State.NOTHING), Outcome.NOTHING),
        ((State.DONE, State.STOPPED), Outcome.STOPPED),
        # Nothing was there for one, and nobody knows of the other.
        ((State.NOTHING, State.STARTING), Outcome.STOPPED),
        ((State.FAILED, State.NOTHING, State.STOPPED), Outcome.FAILED),
    ],
)
def test_the_worst_counts(states: tuple[State, ...], outcome: Outcome) -> None:
    assert outcome_of(states) is outcome
