"""Topics that a flow of another file brought back are recognised by their names, and topics of one's own are not."""

from __future__ import annotations

import pytest

from twinlog.mirror.topology.cycles import echo
from twinlog.mirror.topology.filters import DefaultTopicFilter
from twinlog.mirror.topology.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.mirror.topology.topology import Topology
from twinlog.model.types import Alias, TopicName

EAST, WEST = Alias("east"), Alias("west")
ON_WEST = {TopicName("east.orders"), TopicName("orders")}


def flow(*topics: str, separator: str = ".") -> Topology:
    return Topology(EAST, WEST, DefaultReplicationPolicy(separator, separator), DefaultTopicFilter(topics or (".*",)))


@pytest.mark.parametrize("topic", ["west_east.orders", "west-east.orders", "west__east.orders"])
def test_the_copy_of_a_copy(topic: str) -> None:
    assert "copy of east.orders" in (echo(flow(), TopicName(topic), ON_WEST) or "")


@pytest.mark.parametrize(
    "topic",
    [
        "west_east.other",  # Nothing of that name was copied.
        "west_orders",
        "westeast.orders",
        "west",
        "west_",
        "archive.east.orders",
        "east.east.orders",
        "north_east.north_west.orders",
        "aa.aa.orders",
    ],
)
def test_topics_of_ones_own(topic: str) -> None:
    assert echo(flow(), TopicName(topic), ON_WEST) is None


@pytest.mark.parametrize("topic", ["west_east.west_east.other", "north-west_east.north-west_east.t"])
def test_a_way_that_was_gone_twice(topic: str) -> None:
    assert "came over east twice" in (echo(flow(), TopicName(topic), ()) or "")


def test_who_names_the_topic_means_it() -> None:
    assert echo(flow("orders", "west_east.orders"), TopicName("west_east.orders"), ON_WEST) is None


def test_kept_names_show_no_echo() -> None:
    kept = Topology(EAST, WEST, IdentityReplicationPolicy(".", ".", EAST), DefaultTopicFilter())
    assert echo(kept, TopicName("west_east.orders"), ON_WEST) is None


def test_two_flows_that_do_not_know_each_other_come_to_an_end() -> None:
    back = Topology(WEST, EAST, DefaultReplicationPolicy("_", "_"), DefaultTopicFilter())
    clusters: dict[Alias, set[TopicName]] = {EAST: {TopicName("t")}, WEST: {TopicName("u")}}
    for _ in range(10):
        for one in (flow(), back):
            for topic in clusters[one.source] - clusters[one.target]:
                if one.mirrors(topic) and echo(one, topic, clusters[one.target]) is None:
                    clusters[one.target].add(one.remote_name(topic))
    assert clusters == {EAST: {"t", "west_u", "west_east.t"}, WEST: {"u", "east.t", "east.west_u"}}
