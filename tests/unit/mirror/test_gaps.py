"""A shorter log without topic ids: an election has cut it back, or its topic was recreated."""

from __future__ import annotations

import pytest

from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.kafka.leader_epochs import EpochOrder
from twinlog.mirror.gaps import find_gap, is_of_another_topic
from twinlog.model.types import SourceOffset, TopicName, TopicPartition

PART = TopicPartition(TopicName("orders"), 0)


@pytest.mark.parametrize(
    ("end", "order", "another"),
    [
        (10, EpochOrder.SAME, True),  # A log has lost its end without an election.
        (100, EpochOrder.SAME, False),
        (500, EpochOrder.SAME, False),
        (-1, EpochOrder.NEWER, False),  # An unclean election cuts a log back.
        (-1, EpochOrder.OLDER, True),  # Epochs only rise, but those of a recreated topic.
        (-1, EpochOrder.UNKNOWN, False),
    ],
)
def test_leader_epochs_tell_a_recreated_topic(end: int, order: EpochOrder, another: bool) -> None:
    assert is_of_another_topic(SourceOffset(100), end, order) is another


def test_where_topics_have_no_ids_the_way_out_names_both_ways() -> None:
    gap = find_gap(SourceOffset(100), SourceOffset(0), SourceOffset(10))
    assert gap is not None
    assert "restart-from" not in gap.way_out(PART, SETTINGS)
    text = gap.way_out(PART, SETTINGS, with_ids=False)
    assert "twinlog topics accept-gap FILE orders-0 --flow a:b" in text
    assert "twinlog topics restart-from FILE orders-0 --flow a:b --earliest" in text
