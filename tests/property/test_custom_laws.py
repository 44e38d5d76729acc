"""A class of the user's that does what a built-in one does comes to the same."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from twinlog.mirror.topology.plugins import group_filter_of, topic_filter_of
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.types import Alias, TopicName
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import CustomClass, FlowSettings, PolicyName

CLIENT = ClientSettings(("a:1",))
ALIASES = st.sampled_from([Alias(name) for name in ("a", "b", "c")])
PIECES = st.lists(
    st.sampled_from(["a", "b", "c", "orders", "heartbeats", "internal", "mm2", "checkpoints", ""]), min_size=1
)
TOPICS = PIECES.map(lambda pieces: TopicName(".".join(pieces)[:200] or "x"))


def flow(source: Alias, policy: PolicyName = "default") -> FlowSettings:
    return FlowSettings(
        source=source,
        target=Alias("b" if source != "b" else "a"),
        consumer=ConsumerSettings(CLIENT),
        producer=ProducerSettings(CLIENT),
        source_admin=AdminSettings(CLIENT),
        target_admin=AdminSettings(CLIENT),
        policy=policy,
    )


def named(path: str) -> CustomClass:
    return CustomClass(f"twinlog.mirror.topology.{path}", "key", "file", 1)


@given(ALIASES, TOPICS)
@settings(deadline=None)
def test_the_default_policy_by_its_own_name(source: Alias, topic: TopicName) -> None:
    plain = flow(source)
    ours, theirs = (
        topology_of(plain),
        topology_of(replace(plain, policy_class=named("naming:DefaultReplicationPolicy"))),
    )
    assert theirs.refusal(topic) == ours.refusal(topic)
    assert theirs.remote_name(topic) == ours.remote_name(topic)
    assert theirs.source_topic(topic) == ours.source_topic(topic)
    assert theirs.policy.passes_as_heartbeats(topic) == ours.policy.passes_as_heartbeats(topic)
    assert theirs.is_heartbeats(topic) == ours.is_heartbeats(topic)


@given(ALIASES, TOPICS)
@settings(deadline=None)
def test_filters_by_their_own_names(source: Alias, topic: TopicName) -> None:
    plain = flow(source)
    custom = replace(
        plain,
        topic_filter_class=named("filters:DefaultTopicFilter"),
        group_filter_class=named("filters:DefaultGroupFilter"),
    )
    assert topic_filter_of(custom).accepts(topic) == topic_filter_of(plain).accepts(topic)
    assert group_filter_of(custom).accepts(topic) == group_filter_of(plain).accepts(topic)
