"""What becomes of a gap, by the flow's policy; heartbeats stop no flow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.copier.start.gap_check import GapCheck
from twinlog.errors import GapError
from twinlog.lease.messages import Grant
from twinlog.mirror.gaps import Gap
from twinlog.mirror.offsets.positions import Position
from twinlog.model.java_regex.pattern import java_pattern
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.per_topic import PerTopic, TopicRule

ORDERS = TopicPartition(TopicName("orders"), 0)
GRANT = Grant(ORDERS, ORDERS, None, 1 << 20, None)
ANEW = Gap("recreated", SourceOffset(2500), SourceOffset(2500), SourceOffset(0))
POSITION = Position(SourceOffset(2500), TargetOffset(2500))
NO_SOURCE: Any = None


def test_a_gap_holds_its_partition_stops_the_flow_or_is_passed_as_the_policy_for_its_topic_says() -> None:
    events: list[tuple[str, str]] = []
    check = GapCheck(NO_SOURCE, SETTINGS, lambda kind, text: events.append((kind, text)))
    with pytest.raises(GapError, match=r"twinlog\.gap\.policy\.orders = skip") as raised:
        check.handle_gap(ANEW, GRANT, POSITION, "id")
    assert (raised.value.kind, raised.value.resume_at) == ("recreated", 0)
    # The partition is held, which its driver logs.
    assert events == []
    stopping = replace(SETTINGS, gap_policy=PerTopic("stop"))
    with pytest.raises(GapError):
        GapCheck(NO_SOURCE, stopping, lambda kind, text: events.append((kind, text))).handle_gap(
            ANEW, GRANT, POSITION, "id"
        )
    skipping = PerTopic("hold", (TopicRule("ord.*", java_pattern("ord.*"), "skip"),))
    check = GapCheck(NO_SOURCE, replace(SETTINGS, gap_policy=skipping), lambda kind, text: events.append((kind, text)))
    assert check.handle_gap(ANEW, GRANT, POSITION, "id") == replace(
        POSITION, next_source=SourceOffset(0), topic_id="id"
    )
    assert [kind for kind, _ in events] == ["gap", "gap"]


def test_heartbeats_that_were_recreated_stop_no_flow_and_count_as_no_gap() -> None:
    """Whoever deletes that topic loses nothing, and MirrorMaker 2 goes on, too."""
    events: list[tuple[str, str]] = []
    check = GapCheck(NO_SOURCE, SETTINGS, lambda kind, text: events.append((kind, text)))
    assert check.handle_gap(ANEW, replace(GRANT, heartbeats=True), POSITION, "id").next_source == 0
    ((kind, text),) = events
    assert kind == "heartbeats"
    assert "the flow continues at offset 0" in text


def test_a_topic_of_a_user_is_guarded_whatever_its_name_ends_in() -> None:
    events: list[tuple[str, str]] = []
    check = GapCheck(NO_SOURCE, SETTINGS, lambda kind, text: events.append((kind, text)))
    device = TopicPartition(TopicName("device.heartbeats"), 0)
    with pytest.raises(GapError, match=r"^device\.heartbeats-0: "):
        check.handle_gap(ANEW, replace(GRANT, source=device, remote=device), POSITION, "id")
    assert events == []
