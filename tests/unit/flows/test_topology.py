"""Which topics a flow mirrors: filters, heartbeats, internal topics and cycles."""

from __future__ import annotations

import pytest

from twinlog.flows.filters import ConfigPropertyFilter, GroupFilter, TopicFilter
from twinlog.flows.naming import IdentityPolicy, ReplicationPolicy
from twinlog.flows.topology import Topology
from twinlog.model.types import Alias, TopicName

EAST, WEST = Alias("east"), Alias("west")
DEFAULT = ReplicationPolicy()
IDENTITY = IdentityPolicy(source=EAST)


def flow(
    policy: ReplicationPolicy = DEFAULT, *, topics: TopicFilter | None = None, heartbeats: bool = True
) -> Topology:
    return Topology(EAST, WEST, policy, topics or TopicFilter(), heartbeats)


@pytest.mark.parametrize(
    ("topic", "default", "identity"),
    [
        ("t", True, True),
        ("north.t", True, True),
        ("west.t", False, True),
        ("north.west.t", False, True),
        ("west.north.t", False, True),
        # KAFKA-9914: Kafka up to 4.3 mirrors this one as east.east.t.
        ("east.t", False, True),
        ("west.heartbeats", False, False),
        ("heartbeats", True, True),
        ("north.heartbeats", True, True),
        ("__consumer_offsets", False, False),
        ("mm2-offsets.west.internal", False, False),
        ("mm2-offset-syncs.west.internal", False, False),
        ("west.checkpoints.internal", False, False),
        ("mm2-twinlog-progress", False, False),
        ("foo.internal", True, True),
        ("orders.replica", False, False),
    ],
)
def test_what_a_flow_from_east_to_west_mirrors(topic: str, default: bool, identity: bool) -> None:
    assert flow().mirrors(TopicName(topic)) is default
    assert flow(IDENTITY).mirrors(TopicName(topic)) is identity


def test_heartbeats_pass_the_filter_unless_switched_off() -> None:
    none = TopicFilter(())
    assert flow(topics=none).mirrors(TopicName("north.heartbeats"))
    assert not flow(topics=none).mirrors(TopicName("orders"))
    assert not flow(topics=none, heartbeats=False).mirrors(TopicName("heartbeats"))


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("other", "topics does not match it"),
        ("orders-test", "topics.exclude matches it (.*-test)"),
        ("__orders", "it is an internal topic"),
        ("north.west.orders", "it came from the target cluster west"),
        ("east.orders", "it would be copied in a cycle"),
    ],
)
def test_a_refusal_has_a_reason(topic: str, reason: str) -> None:
    refusing = flow(topics=TopicFilter((".*orders.*",), (".*-test",)))
    assert reason in (refusing.refusal(TopicName(topic)) or "")


def test_a_pattern_that_a_comma_cuts_in_two_is_not_named() -> None:
    refusing = flow(topics=TopicFilter(exclude=("(a", "orders)", "other")))
    assert refusing.refusal(TopicName("orders")) == "topics.exclude matches it"
    assert refusing.refusal(TopicName("other")) == "topics.exclude matches it (other)"


def test_remote_names_lead_back() -> None:
    assert flow().remote_name(TopicName("orders")) == "east.orders"
    assert flow().source_topic(TopicName("east.orders")) == "orders"
    assert flow().source_topic(TopicName("north.orders")) is None
    assert flow().source_topic(TopicName("orders")) is None
    assert flow(IDENTITY).source_topic(TopicName("orders")) == "orders"


def test_exclude_wins_and_whole_names_count() -> None:
    topics = TopicFilter(("orders", "pay.*"), ("payroll",))
    assert [name for name in ("orders", "orders2", "my-orders", "pay", "payroll") if topics.accepts(name)] == [
        "orders",
        "pay",
    ]


def test_groups_of_consoles_and_connectors_are_left_out() -> None:
    groups = GroupFilter()
    assert groups.accepts("billing")
    assert not groups.accepts("console-consumer-12")
    assert not groups.accepts("connect-sink")


def test_settings_of_a_topic() -> None:
    settings = ConfigPropertyFilter()
    assert settings.accepts("retention.ms")
    assert not settings.accepts("min.insync.replicas")
    assert not settings.accepts_default("retention.ms")
    assert ConfigPropertyFilter(defaults_from_source=True).accepts_default("retention.ms")
    assert not ConfigPropertyFilter(defaults_from_source=True).accepts_default("min.insync.replicas")
