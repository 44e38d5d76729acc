"""Several aliases for one cluster: what comes back to where it began, and which flows may run there at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.mirror.topology.cycles import APART, cycle, places_of, returning
from twinlog.mirror.topology.filters import DefaultTopicFilter
from twinlog.mirror.topology.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.mirror.topology.topology import Topology, obstacle, topology_of
from twinlog.model.types import Alias, TopicName
from twinlog.settings.client import AdminSettings, ClientSettings
from twinlog.settings.flow import FlowSettings
from twinlog.settings.transform import SmtChain, SmtStage, TransformSettings

EAST, WEST, NORTH, SOUTH = map(Alias, ("east", "west", "north", "south"))
T = TopicName("t")


def at(settings: FlowSettings, source: str, target: str) -> FlowSettings:
    """The flow between these servers."""
    here, there = (AdminSettings(ClientSettings((server,))) for server in (source, target))
    return replace(settings, source_admin=here, target_admin=there)


def test_aliases_of_a_file_that_share_a_server_stand_for_one_cluster() -> None:
    flows = [at(flow("east", "west"), "a:1", "a:1"), at(flow("west", "north"), "a:1", "b:1")]
    places = places_of(flows)
    assert places.same(EAST, WEST)
    assert not places.same(EAST, NORTH)
    assert places.same(SOUTH, SOUTH)
    assert not places.same(SOUTH, EAST)
    # Two connectors may each call another cluster `target`.
    assert not places_of([replace(one, kind="source") for one in flows]).same(EAST, WEST)


def test_places_are_joined_whatever_the_order() -> None:
    joined = APART.joined(EAST, WEST).joined(NORTH, SOUTH).joined(WEST, SOUTH)
    assert all(joined.same(one, other) for one in (EAST, WEST) for other in (NORTH, SOUTH))


def test_within_one_cluster_the_default_policy_knows_its_copies_and_kept_names_go_round() -> None:
    places = APART.joined(EAST, WEST)
    prefixing = Topology(EAST, WEST, DefaultReplicationPolicy(), DefaultTopicFilter())
    assert cycle(prefixing, T, [prefixing], places) == ()
    keeping = Topology(EAST, WEST, IdentityReplicationPolicy(source=EAST), DefaultTopicFilter())
    assert cycle(keeping, T, [keeping], places) == (keeping,)
    assert cycle(keeping, T, [keeping]) == ()


def test_flows_into_one_cluster_that_do_not_read_each_others_names_are_seen() -> None:
    """Each copies the copies of the other, under names that grow."""
    flows = [
        Topology(EAST, WEST, DefaultReplicationPolicy("."), DefaultTopicFilter()),
        Topology(NORTH, SOUTH, DefaultReplicationPolicy("_"), DefaultTopicFilter()),
    ]
    places = APART.joined(EAST, WEST).joined(WEST, NORTH).joined(NORTH, SOUTH)
    assert returning(flows[0], T, flows) is None
    assert returning(flows[0], TopicName("north_t"), flows, places) is not None


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({}, None),
        ({"policy": "identity"}, "keeps names"),
        ({"policy": "custom"}, "a class of your own"),
        ({"separator": ""}, "takes its own copies for originals"),
        ({"separator": "s"}, "takes its own copies for originals"),
        ({"transform": TransformSettings("m:f", dead_letter_topic="dead")}, "mirror its dead-letter topic dead"),
        ({"transform": TransformSettings("m:f", dead_letter_topic="dead"), "topics_exclude": ("dead",)}, None),
        ({"transform": TransformSettings("m:f", dead_letter_topic="dead"), "topics": ("orders",)}, None),
    ],
)
def test_which_flows_may_run_within_one_cluster(how: dict[str, object], why: str | None) -> None:
    settings = replace(flow("east", "west", "default"), **how)  # type: ignore[arg-type]
    found = obstacle(settings, topology_of(replace(settings, policy="default")))
    assert found is None if why is None else why in (found or "")


@pytest.mark.parametrize(
    ("transform", "known"),
    [
        (TransformSettings("m:f"), False),
        (TransformSettings(sql="SELECT 1"), False),
        (TransformSettings(smts=SmtChain((SmtStage("m", "MaskField", "value", ()),))), True),
        (TransformSettings(smts=SmtChain((SmtStage("r", "RegexRouter", "", ()),))), True),
        (TransformSettings(smts=SmtChain((SmtStage("t", "TimestampRouter", "", ()),))), False),
    ],
)
def test_whether_routes_are_known_before(transform: TransformSettings, known: bool) -> None:
    assert transform.routes_are_known is known
