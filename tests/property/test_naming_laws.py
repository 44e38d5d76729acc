"""Laws of remote names: what a policy names, it can take apart again."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from twinlog.mirror.topology.cycles import APART, returning
from twinlog.mirror.topology.filters import DefaultTopicFilter
from twinlog.mirror.topology.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.mirror.topology.topology import Topology
from twinlog.model.topic_names import HEARTBEATS, HeartbeatNames
from twinlog.model.types import Alias, TopicName

SEPARATORS = st.sampled_from([".", "_", "-", "--", ".-"])
PLAIN = st.text("abcXYZ019", min_size=1, max_size=8)
TOPICS = st.text("abc.-_", min_size=1, max_size=12).filter(lambda topic: topic.strip(".-_") != "")


@given(SEPARATORS, PLAIN, TOPICS)
def test_upstream_undoes_remote(separator: str, alias: str, topic: str) -> None:
    policy = DefaultReplicationPolicy(separator, separator)
    remote = policy.remote_name(Alias(alias), TopicName(topic))
    assert policy.source_alias(remote) == alias
    assert policy.upstream_name(remote) == topic


@given(SEPARATORS, PLAIN, TOPICS)
def test_identity_keeps_every_name(separator: str, alias: str, topic: str) -> None:
    policy = IdentityReplicationPolicy(separator, separator, Alias(alias))
    remote = policy.remote_name(Alias(alias), TopicName(topic))
    assert remote == policy.upstream_name(remote) == topic
    assert policy.source_alias(remote) == alias


@given(st.one_of(SEPARATORS, st.just("")), st.one_of(PLAIN, st.just("")), TOPICS)
def test_a_copy_leads_back_to_its_source_also_where_no_alias_or_separator_shows_it(
    separator: str, alias: str, topic: str
) -> None:
    for policy in (
        DefaultReplicationPolicy(separator, separator),
        IdentityReplicationPolicy(separator, separator, Alias(alias)),
    ):
        remote = policy.remote_name(Alias(alias), TopicName(topic))
        assert policy.source_topic(Alias(alias), remote) == topic
        assert policy.keeps_names(Alias(alias)) == (remote == topic)


@given(SEPARATORS, st.lists(PLAIN, max_size=4))
def test_heartbeats_are_known_over_any_number_of_hops(separator: str, hops: list[str]) -> None:
    for policy in (
        DefaultReplicationPolicy(separator, separator),
        IdentityReplicationPolicy(separator, separator, Alias("a")),
    ):
        name = HEARTBEATS
        for alias in hops:
            name = policy.remote_name(Alias(alias), name)
        assert policy.passes_as_heartbeats(name)
        assert not policy.is_internal(name)
        names = HeartbeatNames(separator, frozenset(map(Alias, hops)))
        assert names.is_heartbeats(name)
        # One cluster on the way that nobody knows is none.
        for unknown in set(hops):
            assert not replace(names, aliases=names.aliases - {unknown}).is_heartbeats(name)


@given(SEPARATORS, st.booleans(), PLAIN)
def test_own_internal_topics_are_never_mirrored(separator: str, follows: bool, alias: str) -> None:
    policy = DefaultReplicationPolicy(separator, separator if follows else ".")
    assert policy.is_internal(policy.offset_syncs_topic(Alias(alias)))
    assert policy.is_internal(policy.checkpoints_topic(Alias(alias)))
    assert policy.is_checkpoints(policy.checkpoints_topic(Alias(alias)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_flows_there_are_topics_come_to_an_end(data: st.DataObject) -> None:
    ways = data.draw(st.lists(st.sampled_from(list(permutations("abc", 2))), min_size=1, unique=True))
    places = APART
    for one, other in data.draw(st.lists(st.sampled_from(list(combinations("abc", 2))), max_size=2, unique=True)):
        places = places.joined(Alias(one), Alias(other))
    flows = []
    for source, target in ways:
        separator = data.draw(st.one_of(SEPARATORS, st.just("")))
        other = st.sampled_from([None, *map(Alias, ("", "a", "src"))])
        named_source, named_target = data.draw(other), data.draw(other)
        policy = DefaultReplicationPolicy(separator, separator)
        # Names are not kept within one cluster, see `mirror/topology/topology.py`.
        if data.draw(st.integers(0, 3)) == 0 and not places.same(Alias(source), Alias(target)):
            policy = IdentityReplicationPolicy(
                separator, separator, Alias(source) if named_source is None else named_source
            )
        names = {"source_cluster_alias": named_source, "target_cluster_alias": named_target}
        flows.append(Topology(Alias(source), Alias(target), policy, DefaultTopicFilter(), **names))
    at = {Alias(alias): next(one for one in "abc" if places.same(Alias(alias), Alias(one))) for alias in "abc"}
    clusters = {alias: {TopicName(f"{alias}t")} for alias in set(at.values())}
    for _ in range(20):
        before = {alias: set(topics) for alias, topics in clusters.items()}
        for flow in flows:
            for topic in before[at[flow.source]]:
                if flow.mirrors(topic) and returning(flow, topic, flows, places) is None:
                    clusters[at[flow.target]].add(flow.remote_name(topic))
        if clusters == before:
            return
        assert max(map(len, clusters.values())) < 100
    raise AssertionError(f"topics spread without an end: {clusters}")
