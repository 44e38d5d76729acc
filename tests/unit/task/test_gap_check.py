"""What becomes of a gap, by the flow's policy; heartbeats stop no flow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.driver.test_driver_report import SETTINGS
from twinlog.errors import GapError
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.offsets.positions import Position
from twinlog.read.gaps import Gap
from twinlog.task.gap_check import GapCheck

ORDERS = TopicPartition(TopicName("orders"), 0)
ANEW = Gap("recreated", SourceOffset(2500), SourceOffset(2500), SourceOffset(0))
POSITION = Position(SourceOffset(2500), TargetOffset(2500))
NO_SOURCE: Any = None


def test_a_gap_stops_the_flow_or_is_passed_as_its_policy_says() -> None:
    events: list[tuple[str, str]] = []
    check = GapCheck(NO_SOURCE, SETTINGS, lambda kind, text: events.append((kind, text)))
    with pytest.raises(GapError, match=r"twinlog\.gap\.policy = continue"):
        check.decide(ANEW, ORDERS, POSITION, "id")
    check = GapCheck(
        NO_SOURCE, replace(SETTINGS, gap_policy="continue"), lambda kind, text: events.append((kind, text))
    )
    assert check.decide(ANEW, ORDERS, POSITION, "id") == replace(POSITION, next_source=SourceOffset(0), topic_id="id")
    assert [kind for kind, _ in events] == ["gap", "gap"]


@pytest.mark.parametrize("topic", ["heartbeats", "north.heartbeats", "south.north.heartbeats"])
def test_heartbeats_that_were_recreated_stop_no_flow_and_count_as_no_gap(topic: str) -> None:
    """Whoever deletes that topic loses nothing, and MirrorMaker 2 goes on, too."""
    events: list[tuple[str, str]] = []
    check = GapCheck(NO_SOURCE, SETTINGS, lambda kind, text: events.append((kind, text)))
    assert check.decide(ANEW, TopicPartition(TopicName(topic), 0), POSITION, "id").next_source == 0
    ((kind, text),) = events
    assert kind == "heartbeats"
    assert "the flow goes on at offset 0" in text
