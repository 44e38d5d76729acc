"""Topologies: which topics go where over several flows, and which would come back to where they began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from twinlog.mirror.topology.cycles import cycle, returning
from twinlog.mirror.topology.filters import DefaultTopicFilter
from twinlog.mirror.topology.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.mirror.topology.topology import Topology
from twinlog.model.types import Alias, TopicName


def flow(name: str, *topics: str, identity: bool = False, separator: str = ".") -> Topology:
    source, target = (Alias(alias) for alias in name.split("->"))
    policy = (
        IdentityReplicationPolicy(separator, separator, source)
        if identity
        else DefaultReplicationPolicy(separator, separator)
    )
    return Topology(source, target, policy, DefaultTopicFilter(topics or (".*",)))


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
                if one.mirrors(topic) and not returning(one, topic, flows):
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


def unseparated(name: str, *topics: str, source: str | None = "") -> Topology:
    """A flow without a separator; with `source` its source has another alias than the file's, as a rule none."""
    one = flow(name, *topics, separator="")
    return replace(one, source_cluster_alias=None if source is None else Alias(source))


def test_both_active_with_names_kept_without_a_separator() -> None:
    apart = [unseparated("a->b", "t"), unseparated("b->a", "u")]
    assert spread(apart, a="t", b="u") == {"a": {"t", "u"}, "b": {"t", "u"}}
    mixed = [unseparated("a->b"), unseparated("b->a")]
    assert spread(mixed, a="t", b="u") == {"a": {"t"}, "b": {"u"}}
    assert [one.name for one in cycle(mixed[0], TopicName("t"), mixed)] == ["a->b", "b->a"]


def test_both_active_without_a_separator_know_what_the_other_one_brought() -> None:
    """MirrorMaker 2 would go on with easttwestt and so on: it sees no alias of more than a letter there."""
    flows = [unseparated("east->west", source=None), unseparated("west->east", source=None)]
    assert spread(flows, east="t", west="u") == {"east": {"t", "westu"}, "west": {"u", "eastt"}}


def test_one_alias_for_all_sources_ends() -> None:
    """`source.cluster.alias` at top level counts for every flow."""
    flows = [replace(flow(name), source_cluster_alias=Alias("src")) for name in ("a->b", "b->a")]
    assert spread(flows, a="t", b="u") == {"a": {"t", "src.u"}, "b": {"u", "src.t"}}
    onward = [replace(flow(name), source_cluster_alias=Alias("src")) for name in ("a->b", "b->c")]
    assert spread(onward, a="t")["c"] == {"src.src.t"}


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


def test_a_ring_of_kept_names_is_a_cycle() -> None:
    ring = [flow("a->b", identity=True), flow("b->c", identity=True), flow("c->a", identity=True)]
    assert cycle(ring[0], TopicName("t"), ring) == tuple(ring)
    assert cycle(ring[1], TopicName("t"), ring) == (ring[1], ring[2], ring[0])
    assert cycle(ring[0], TopicName("t"), ring[:2]) == ()
    assert cycle(ring[0], TopicName("heartbeats"), ring) == ()


def test_one_flow_that_prefixes_breaks_the_ring() -> None:
    ring = [flow("a->b", identity=True), flow("b->a")]
    # t of a comes back as b.t and goes on to b as that, which seems to have come from b and goes nowhere.
    assert cycle(ring[0], TopicName("t"), ring) == ()
    assert spread(ring, a="t") == {"a": {"t", "b.t"}, "b": {"t", "b.t"}}


def test_what_only_leads_into_a_cycle_is_not_one() -> None:
    ring = [flow("a->b", identity=True), flow("b->a", identity=True)]
    leading = flow("c->a", identity=True)
    assert cycle(leading, TopicName("t"), [*ring, leading]) == ()
    assert cycle(ring[0], TopicName("t"), [*ring, leading]) == tuple(ring)


def test_flows_that_disagree_on_the_separator_know_each_others_copies() -> None:
    flows = [flow("a->b", separator="."), flow("b->a", separator="_")]
    assert cycle(flows[0], TopicName("t"), flows) == tuple(flows)
    # As they would with one separator.
    assert spread(flows, a="t", b="u") == {"a": {"t", "b_u"}, "b": {"u", "a.t"}}
    # What an earlier version or MirrorMaker 2 left behind goes nowhere either.
    assert spread(flows, a="b_a.t", b="a.b_u") == {"a": {"b_a.t"}, "b": {"a.b_u"}}
    # Each flow learns the same from settings that it read itself.
    again = [flow("a->b", separator="."), flow("b->a", separator="_")]
    assert cycle(again[0], TopicName("t"), flows) == tuple(flows)
    assert returning(again[1], TopicName("a.t"), flows) is not None


def test_a_ring_of_three_separators_ends_where_it_began() -> None:
    ring = [flow("a->b"), flow("b->c", separator="_"), flow("c->a", separator="-")]
    assert cycle(ring[0], TopicName("t"), ring) == tuple(ring)
    assert spread(ring, a="t", b="u") == {"a": {"t", "c-b_u"}, "b": {"u", "a.t"}, "c": {"b_a.t", "b_u"}}


def test_only_what_a_flow_would_really_have_copied_is_taken_for_its_copy() -> None:
    flows = [flow("a->b", "t", "b_.*"), flow("b->a", "a.*", "u", separator="_")]
    assert spread(flows, a="t", b="u") == {"a": {"t", "b_u"}, "b": {"u", "a.t"}}
    # a->b would never have made this one.
    found = spread(flows, b="a.other")
    assert found["a"] == {"b_a.other"}


def test_a_name_that_grows_no_further_than_its_topics_is_no_cycle() -> None:
    flows = [flow("a->b", "t"), flow("b->a", "a.t", separator="_")]
    assert cycle(flows[0], TopicName("t"), flows) == ()
    assert spread(flows, a="t") == {"a": {"t", "b_a.t"}, "b": {"a.t"}}


def test_a_topic_that_is_named_in_full_is_no_copy() -> None:
    back = flow("b->a", separator="_")
    flows = [flow("a->b", "b_own", ".*"), back]
    # Once in each direction, as any topic.
    assert spread(flows, a="b_own") == {"a": {"b_own"}, "b": {"a.b_own"}}
    assert spread([flow("a->b"), back], a="b_own") == {"a": {"b_own"}, "b": set()}
    # Where it would never end its name does not help.
    same = [flow("a->b", "t", identity=True), flow("b->a", "t", identity=True)]
    assert spread(same, a="t") == {"a": {"t"}, "b": set()}
    # Nor where what comes back is the topic itself.
    ring = [flow("a->b", "b_t", ".*", identity=True), flow("b->a", "t", "b_t", separator="_")]
    assert spread(ring, b="t")["a"] == {"b_t"}


class Deaf(DefaultReplicationPolicy):
    """A class of the user's that never knows where a topic came from."""

    def source_alias(self, topic: TopicName) -> Alias | None:
        return None

    def upstream_name(self, topic: TopicName) -> TopicName | None:
        return None


def by_class(name: str, policy: DefaultReplicationPolicy) -> Topology:
    source, target = (Alias(alias) for alias in name.split("->"))
    return Topology(source, target, policy, DefaultTopicFilter())


def test_classes_of_ones_own() -> None:
    deaf = [by_class("a->b", Deaf()), by_class("b->a", Deaf())]
    # Nothing distinguishes a copy from an original: each flow leaves the topic out, as where names are kept.
    assert spread(deaf, a="t", b="u") == {"a": {"t"}, "b": {"u"}}
    half = [flow("a->b"), by_class("b->a", Deaf("-", "-"))]
    assert cycle(half[0], TopicName("t"), half) == tuple(half)
    assert spread(half, a="t", b="u") == {"a": {"t", "b-u"}, "b": {"u", "a.t", "a.b-u"}}


def test_a_mesh_of_flows_is_searched_in_no_time() -> None:
    names = "abcdefgh"
    mesh = [flow(f"{one}->{other}") for one in names for other in names if one != other]
    assert cycle(mesh[0], TopicName("t"), mesh) == ()
    mixed = [flow(f"{one}->{other}", separator="._-"[at % 3]) for at, (one, other) in enumerate(permutations(names, 2))]
    assert cycle(mixed[0], TopicName("t"), mixed) != ()
