"""What a worker does while requests wait, in Connect's words."""

from __future__ import annotations

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.connect.stage import JOINS, READS_TOPICS, Stage, Stages, timed_out


@pytest.mark.parametrize(
    ("ms", "shown"), [(1_760_455_501_075, "2025-10-14T15:25:01.075Z"), (1_760_455_501_000, "2025-10-14T15:25:01Z")]
)
def test_it_reads_as_in_connect(ms: int, shown: str) -> None:
    assert timed_out(str(Stage(JOINS, ms))) == (
        "Request timed out. The worker is currently ensuring membership in the cluster, which began at " + shown + "."
    )


def test_a_stage_began_when_it_was_first_named() -> None:
    clock = VirtualClock()
    stages = Stages(clock)
    clock.sleep(1)
    stages.enter_stage(READS_TOPICS)
    first = str(stages)
    clock.sleep(10)
    stages.enter_stage(READS_TOPICS, "It tries again: nobody there")
    assert str(stages) == f"{first} It tries again: nobody there"
    stages.enter_stage(JOINS)
    assert first.rpartition(" ")[2] not in str(stages)
    stages.end()
    assert str(stages) == ""
    assert timed_out(str(stages)) == "Request timed out"
