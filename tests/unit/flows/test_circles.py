"""Topologies: which topics go where over several flows, and which would come back to where they began."""

from __future__ import annotations

from collections.abc import Sequence

from twinlog.flows.circles import circle
from twinlog.flows.filters import TopicFilter
from twinlog.flows.naming import IdentityPolicy, ReplicationPolicy
from twinlog.flows.topology import Topology
from twinlog.types import Alias, TopicName


def flow(name: str, *topics: str, identity: bool = False, separator: str = ".") -> Topology:
    source, target = (Alias(alias) for alias in name.split("->"))
    policy = IdentityPolicy(separator, separator, source) if identity else ReplicationPolicy(separator, separator)
    return Topology(source, target, policy, TopicFilter(topics or (".*",)))


def spread(flows: Sequence[Topology], **made: str) -> dict[str, set[str]]:
    """The topics of each cluster once every flow has mirrored all it can; `made` are those produced there."""
    clusters: dict[str, set[str]] = {alias: {topic} for alias, topic in made.items()}
    for one in flows:
        clusters.setdefault(one.source, set())
        clusters.setdefault(one.target, set())
    for _ in range(10):
        before = {alias: set(topics) for alias, topics in clusters.items()}
        for one in flows:
            for topic in map(TopicName, before[one.source]):
                if one.mirrors(topic) and not circle(one, topic, flows):
                    clusters[one.target].add(one.remote_name(topic))
        if clusters == before:
            return clusters
    raise AssertionError(f"topics spread without an end: {clusters}")


def test_active_and_passive() -> None:
    assert spread([flow("a->b")], a="t", b="u") == {"a": {"t"}, "b": {"a.t", "u"}}
    assert spread([flow("a->b", identity=True)], a="t", b="u") == {"a": {"t"}, "b": {"t", "u"}}


def test_both_active() -> None:
    flows = [flow("a->b"), flow("b->a")]
    assert spread(flows, a="t", b="t") == {"a": {"t", "b.t"}, "b": {"t", "a.t"}}


def test_both_active_with_names_kept_only_where_each_has_its_own_topics() -> None:
    apart = [flow("a->b", "t", identity=True), flow("b->a", "u", identity=True)]
    assert spread(apart, a="t", b="u") == {"a": {"t", "u"}, "b": {"t", "u"}}
    mixed = [flow("a->b", identity=True), flow("b->a", identity=True)]
    assert spread(mixed, a="t", b="u") == {"a": {"t"}, "b": {"u"}}


def test_many_into_one_and_one_into_many() -> None:
    into = [flow("a->k"), flow("b->k"), flow("c->k")]
    assert spread(into, a="t", b="t", c="t")["k"] == {"a.t", "b.t", "c.t"}
    out = [flow("k->a"), flow("k->b"), flow("k->c")]
    assert spread(out, k="t") == {"k": {"t"}, "a": {"k.t"}, "b": {"k.t"}, "c": {"k.t"}}


def test_hub_and_spoke() -> None:
    flows = [flow(f"{spoke}->hub") for spoke in "ab"] + [flow(f"hub->{spoke}") for spoke in "ab"]
    assert spread(flows, a="t", b="t") == {
        "hub": {"a.t", "b.t"},
        "a": {"t", "hub.b.t"},
        "b": {"t", "hub.a.t"},
    }


def test_a_chain_names_every_hop() -> None:
    chain = [flow("a->b"), flow("b->c"), flow("c->d")]
    assert spread(chain, a="t")["d"] == {"c.b.a.t"}
    kept = [flow("a->b", identity=True), flow("b->c", identity=True)]
    assert spread(kept, a="t")["c"] == {"t"}


def test_three_data_centres_that_all_mirror_each_other() -> None:
    names = ["west", "east", "north"]
    flows = [flow(f"{one}->{other}") for one in names for other in names if one != other]
    found = spread(flows, west="t", east="t", north="t")
    # A copy goes on to the cluster that neither made it nor has it yet from there.
    assert found["west"] == {"t", "east.t", "north.t", "north.east.t", "east.north.t"}


def test_a_ring_of_kept_names_is_a_circle() -> None:
    ring = [flow("a->b", identity=True), flow("b->c", identity=True), flow("c->a", identity=True)]
    assert circle(ring[0], TopicName("t"), ring) == tuple(ring)
    assert circle(ring[1], TopicName("t"), ring) == (ring[1], ring[2], ring[0])
    assert circle(ring[0], TopicName("t"), ring[:2]) == ()
    assert circle(ring[0], TopicName("heartbeats"), ring) == ()


def test_one_flow_that_prefixes_breaks_the_ring() -> None:
    ring = [flow("a->b", identity=True), flow("b->a")]
    # t of a comes back as b.t and goes on to b as that, which seems to have come from b and goes nowhere.
    assert circle(ring[0], TopicName("t"), ring) == ()
    assert spread(ring, a="t") == {"a": {"t", "b.t"}, "b": {"t", "b.t"}}


def test_what_only_leads_into_a_circle_is_not_one() -> None:
    ring = [flow("a->b", identity=True), flow("b->a", identity=True)]
    leading = flow("c->a", identity=True)
    assert circle(leading, TopicName("t"), [*ring, leading]) == ()
    assert circle(ring[0], TopicName("t"), [*ring, leading]) == tuple(ring)


def test_flows_that_disagree_on_the_separator_do_not_grow_names_for_ever() -> None:
    flows = [flow("a->b", separator="."), flow("b->a", separator="_")]
    assert circle(flows[0], TopicName("t"), flows) == tuple(flows)
    spread(flows, a="t", b="u")
