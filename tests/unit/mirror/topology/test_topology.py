"""Which topics a flow mirrors: filters, heartbeats, internal topics and cycles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinlog.mirror.topology.filters import DefaultConfigPropertyFilter, DefaultGroupFilter, DefaultTopicFilter
from twinlog.mirror.topology.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.mirror.topology.topology import Topology, nothing_mirrored
from twinlog.model.types import Alias, TopicName

EAST, WEST = Alias("east"), Alias("west")
DEFAULT = DefaultReplicationPolicy()
IDENTITY = IdentityReplicationPolicy(source=EAST)


def flow(
    policy: DefaultReplicationPolicy = DEFAULT, *, topics: DefaultTopicFilter | None = None, heartbeats: bool = True
) -> Topology:
    return Topology(EAST, WEST, policy, topics or DefaultTopicFilter(), heartbeats)


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
    none = DefaultTopicFilter(())
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
    refusing = flow(topics=DefaultTopicFilter((".*orders.*",), (".*-test",)))
    assert reason in (refusing.refusal(TopicName(topic)) or "")


def test_a_pattern_that_a_comma_cuts_in_two_is_not_named() -> None:
    refusing = flow(topics=DefaultTopicFilter(exclude=("(a", "orders)", "other")))
    assert refusing.refusal(TopicName("orders")) == "topics.exclude matches it"
    assert refusing.refusal(TopicName("other")) == "topics.exclude matches it (other)"


def test_remote_names_lead_back() -> None:
    assert flow().remote_name(TopicName("orders")) == "east.orders"
    assert flow().source_topic(TopicName("east.orders")) == "orders"
    assert flow().source_topic(TopicName("north.orders")) is None
    assert flow().source_topic(TopicName("orders")) is None
    assert flow(IDENTITY).source_topic(TopicName("orders")) == "orders"


def test_exclude_wins_and_whole_names_count() -> None:
    topics = DefaultTopicFilter(("orders", "pay.*"), ("payroll",))
    assert [name for name in ("orders", "orders2", "my-orders", "pay", "payroll") if topics.accepts(name)] == [
        "orders",
        "pay",
    ]


def test_groups_of_consoles_and_connectors_are_left_out() -> None:
    groups = DefaultGroupFilter()
    assert groups.accepts("billing")
    assert not groups.accepts("console-consumer-12")
    assert not groups.accepts("connect-sink")


def test_settings_of_a_topic() -> None:
    settings = DefaultConfigPropertyFilter()
    assert settings.accepts("retention.ms")
    assert not settings.accepts("min.insync.replicas")
    assert not settings.accepts_default("retention.ms")
    assert DefaultConfigPropertyFilter(defaults_from_source=True).accepts_default("retention.ms")
    assert not DefaultConfigPropertyFilter(defaults_from_source=True).accepts_default("min.insync.replicas")


NOTHING = Alias("")
KEPT = DefaultReplicationPolicy("", "")


def unseparated(source: str | None, target: str | None, topics: DefaultTopicFilter | None = None) -> Topology:
    """A flow without a separator, whose clusters have other aliases than those of the file, unless None."""
    names = [None if alias is None else Alias(alias) for alias in (source, target)]
    return renamed(Topology(EAST, WEST, KEPT, topics or DefaultTopicFilter()), *names)


def renamed(topology: Topology, source: Alias | None, target: Alias | None = None) -> Topology:
    return replace(topology, source_cluster_alias=source, target_cluster_alias=target)


@pytest.mark.parametrize("target", [None, ""])
@pytest.mark.parametrize("topic", ["t", "orders", "west.t", "east.t", "eastern", "heartbeats", "north.heartbeats"])
def test_names_are_kept_without_separator_and_source_alias(topic: str, target: str | None) -> None:
    kept = unseparated("", target)
    assert kept.keeps_names
    assert kept.mirrors(TopicName(topic))
    assert kept.remote_name(TopicName(topic)) == topic
    assert kept.source_topic(TopicName(topic)) == topic


@pytest.mark.parametrize("topic", ["__consumer_offsets", "mm2-offsets.west.internal", "mm2-offset-syncswestinternal"])
def test_internal_topics_are_none_of_these(topic: str) -> None:
    assert not unseparated("", "").mirrors(TopicName(topic))
    assert not unseparated("", "").mirrors(TopicName("checkpointsinternal"))


def test_without_a_separator_heartbeats_do_not_pass_the_filter() -> None:
    """As in MirrorMaker 2, whose policy takes their name apart to its last letter."""
    assert not unseparated("", "", DefaultTopicFilter(("orders",))).mirrors(TopicName("heartbeats"))


def test_without_a_separator_the_alias_stands_right_before_the_topic() -> None:
    plain = unseparated(None, None)
    assert plain.remote_name(TopicName("orders")) == "eastorders"
    assert plain.source_topic(TopicName("eastorders")) == "orders"
    assert plain.source_topic(TopicName("orders")) is None
    assert not plain.keeps_names
    # MirrorMaker 2 copies what came from west back to it; `mirror/topology/cycles.py` sees that.
    assert plain.mirrors(TopicName("westorders"))
    assert plain.mirrors(TopicName("eastorders"))


@pytest.mark.parametrize(
    ("topic", "mirrored"),
    [("orders", True), ("Books", False), ("myBook", False), ("clB", True), ("B", True), ("ABC", False), ("AC", True)],
)
@pytest.mark.parametrize("source", ["", "A"])
def test_a_letter_counts_for_an_alias_without_a_separator(source: str, topic: str, mirrored: bool) -> None:
    """MirrorMaker 2 4.3 was seen to leave out Books and myBook in a flow from A to B."""
    lettered = renamed(Topology(Alias("A"), Alias("B"), KEPT, DefaultTopicFilter()), None if source else NOTHING)
    assert lettered.mirrors(TopicName(topic)) is mirrored
    if not mirrored:
        assert lettered.refusal(TopicName(topic)) == "it came from the target cluster B"


def test_an_empty_alias_alone_leaves_the_separator_in_front() -> None:
    dotted = renamed(flow(), NOTHING)
    assert dotted.remote_name(TopicName("orders")) == ".orders"
    assert dotted.source_topic(TopicName(".orders")) == "orders"
    assert not dotted.keeps_names


def test_identity_mirrors_nothing_where_both_clusters_have_one_alias() -> None:
    """As in MirrorMaker 2: every topic comes from the source, which is called like the target."""
    other = Topology(
        EAST, WEST, IdentityReplicationPolicy(source=NOTHING), DefaultTopicFilter(), True, source_cluster_alias=NOTHING
    )
    same = replace(other, target_cluster_alias=NOTHING)
    assert same.refusal(TopicName("orders")) == "it came from the target cluster west"
    assert other.mirrors(TopicName("orders"))


def test_a_name_that_several_clusters_may_have_shows_no_cycle() -> None:
    """With `source.cluster.alias` for all flows, topics that a second flow copies on begin with its source's alias."""
    assert not flow().mirrors(TopicName("east.orders"))
    assert renamed(flow(), Alias("src")).mirrors(TopicName("src.orders"))


def reason(*seen: str, left_out: str = "") -> str:
    chosen = DefaultTopicFilter(("orders.*", "west.*"), (".*-test",))
    topology = Topology(Alias("east"), Alias("west"), DefaultReplicationPolicy(), chosen)
    reasons = {TopicName(left_out): "another flow copies it"} if left_out else {}
    return nothing_mirrored(topology, [TopicName(name) for name in seen], reasons)


def test_each_filter_has_its_topics() -> None:
    assert reason("a", "b", "orders-test", "west.t", "orders", left_out="orders") == (
        "no topic of east is mirrored, of 5 that can be seen (topics does not match it: a, b; "
        "topics.exclude matches it (.*-test): orders-test; it came from the target cluster west: west.t; "
        "another flow copies it: orders)"
    )


def test_a_source_without_topics_may_be_one_without_rights() -> None:
    assert (
        reason()
        == "no topic of east can be seen besides heartbeats and internal topics; does the login have DESCRIBE on them?"
    )
