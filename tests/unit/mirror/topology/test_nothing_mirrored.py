"""A flow that mirrors nothing names the filter that is to blame, with its topics."""

from __future__ import annotations

from twinlog.mirror.topology.filters import DefaultTopicFilter
from twinlog.mirror.topology.naming import DefaultReplicationPolicy
from twinlog.mirror.topology.topology import Topology, nothing_mirrored
from twinlog.model.types import Alias, TopicName


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
        == "no topic of east can be seen besides heartbeats and internal ones; does the login have DESCRIBE on them?"
    )
