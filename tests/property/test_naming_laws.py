"""Laws of remote names: what a policy names, it can take apart again."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from twinlog.flows.cycles import returning
from twinlog.flows.filters import TopicFilter
from twinlog.flows.naming import IdentityPolicy, ReplicationPolicy
from twinlog.flows.topology import Topology
from twinlog.model.internal_topics import HEARTBEATS
from twinlog.model.types import Alias, TopicName

SEPARATORS = st.sampled_from([".", "_", "-", "--", ".-"])
PLAIN = st.text("abcXYZ019", min_size=1, max_size=8)
TOPICS = st.text("abc.-_", min_size=1, max_size=12).filter(lambda topic: topic.strip(".-_") != "")


@given(SEPARATORS, PLAIN, TOPICS)
def test_upstream_undoes_remote(separator: str, alias: str, topic: str) -> None:
    policy = ReplicationPolicy(separator, separator)
    remote = policy.remote_name(Alias(alias), TopicName(topic))
    assert policy.source_alias(remote) == alias
    assert policy.upstream_name(remote) == topic


@given(SEPARATORS, PLAIN, TOPICS)
def test_identity_keeps_every_name(separator: str, alias: str, topic: str) -> None:
    policy = IdentityPolicy(separator, separator, Alias(alias))
    remote = policy.remote_name(Alias(alias), TopicName(topic))
    assert remote == policy.upstream_name(remote) == topic
    assert policy.source_alias(remote) == alias


@given(SEPARATORS, st.lists(PLAIN, max_size=4))
def test_heartbeats_are_known_over_any_number_of_hops(separator: str, hops: list[str]) -> None:
    for policy in (ReplicationPolicy(separator, separator), IdentityPolicy(separator, separator, Alias("a"))):
        name = HEARTBEATS
        for alias in hops:
            name = policy.remote_name(Alias(alias), name)
        assert policy.is_heartbeats(name)
        assert not policy.is_internal(name)


@given(SEPARATORS, st.booleans(), PLAIN)
def test_own_internal_topics_are_never_mirrored(separator: str, follows: bool, alias: str) -> None:
    policy = ReplicationPolicy(separator, separator if follows else ".")
    assert policy.is_internal(policy.offset_syncs_topic(Alias(alias)))
    assert policy.is_internal(policy.checkpoints_topic(Alias(alias)))
    assert policy.is_checkpoints(policy.checkpoints_topic(Alias(alias)))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_whatever_flows_there_are_topics_come_to_an_end(data: st.DataObject) -> None:
    ways = data.draw(st.lists(st.sampled_from(list(permutations("abc", 2))), min_size=1, unique=True))
    flows = []
    for source, target in ways:
        separator = data.draw(SEPARATORS)
        policy = ReplicationPolicy(separator, separator)
        if data.draw(st.integers(0, 3)) == 0:
            policy = IdentityPolicy(separator, separator, Alias(source))
        flows.append(Topology(Alias(source), Alias(target), policy, TopicFilter()))
    clusters = {alias: {TopicName(f"{alias}t")} for alias in "abc"}
    for _ in range(20):
        before = {alias: set(topics) for alias, topics in clusters.items()}
        for flow in flows:
            for topic in before[flow.source]:
                if flow.mirrors(topic) and returning(flow, topic, flows) is None:
                    clusters[flow.target].add(flow.remote_name(topic))
        if clusters == before:
            return
        assert max(map(len, clusters.values())) < 100
    raise AssertionError(f"topics spread without an end: {clusters}")
