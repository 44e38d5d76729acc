"""Replication policies answer as Kafka's own classes do, and know twinlog's own topics and heartbeats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.mirror.topology.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.topic_names import HeartbeatNames, passes_as_heartbeats
from twinlog.model.types import Alias, TopicName

RECORDED = Path(__file__).parents[3] / "recorded" / "policies.jsonl"
ROWS = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("kind", ["default", "identity"])
@pytest.mark.parametrize("separator", [".", "_", "--", ""])
def test_answers_are_those_of_kafkas_classes(kind: str, separator: str) -> None:
    rows = [row for row in ROWS if row["policy"] == kind and row["separator"] == separator]
    assert len(rows) > 50
    for row in rows:
        internal = separator if row["internal_separator_follows"] else "."
        policy = (
            DefaultReplicationPolicy(separator, internal)
            if kind == "default"
            else IdentityReplicationPolicy(separator, internal, Alias("east"))
        )
        topic = row["topic"]
        answers = {
            "remote_name": policy.remote_name(Alias("east"), topic),
            "source_alias": policy.source_alias(topic),
            "upstream_name": policy.upstream_name(topic),
            "is_heartbeats": policy.passes_as_heartbeats(topic),
            "is_checkpoints": policy.is_checkpoints(topic),
            "is_mirror_internal": policy.is_mirror_internal(topic),
            "is_internal": policy.is_internal(topic),
            "offset_syncs_topic": policy.offset_syncs_topic(Alias("w")),
            "checkpoints_topic": policy.checkpoints_topic(Alias("w")),
        }
        assert answers == {name: row[name] for name in answers}, topic


def test_twinlogs_own_topics_are_internal() -> None:
    assert DefaultReplicationPolicy().is_internal(TopicName("mm2-twinlog-progress"))
    assert IdentityReplicationPolicy(source=Alias("east")).is_internal(TopicName("mm2-twinlog-progress"))
    assert not DefaultReplicationPolicy().is_internal(TopicName("twinlog-progress"))


KNOWN = HeartbeatNames(".", frozenset(map(Alias, ("east", "west", "eu.north"))))


@pytest.mark.parametrize(
    ("topic", "passes", "holds"),
    [
        ("heartbeats", True, True),
        ("east.heartbeats", True, True),
        ("west.east.heartbeats", True, True),
        # An alias with the separator in it, which MirrorMaker 2 takes for two.
        ("east.eu.north.heartbeats", True, True),
        ("device.heartbeats", True, False),
        ("iot.eu.heartbeats", True, False),
        ("east.device.heartbeats", True, False),
        ("device.east.heartbeats", True, False),
        ("eastheartbeats", False, False),
        ("east-heartbeats", False, False),
        ("east.heartbeats.v1", False, False),
        ("easter.heartbeats", True, False),
        (".heartbeats", True, False),
    ],
)
def test_heartbeats_are_those_of_known_clusters(topic: str, passes: bool, holds: bool) -> None:
    assert passes_as_heartbeats(TopicName(topic), ".") is passes
    assert KNOWN.is_heartbeats(TopicName(topic)) is holds


@pytest.mark.parametrize(
    ("separator", "topic", "holds"),
    [
        ("_", "west_heartbeats", True),
        ("_", "us_west_heartbeats", True),
        # Heartbeats of other flows, which the policy of this one does not know.
        ("_", "west.heartbeats", False),
        (".", "device-heartbeats", False),
    ],
)
def test_heartbeats_are_known_as_the_flows_policy_names_them(separator: str, topic: str, holds: bool) -> None:
    settings = replace(flow("us", "west", "default"), separator=separator)
    assert settings.heartbeat_names.is_heartbeats(TopicName(topic)) is holds
    assert topology_of(settings).is_heartbeats(TopicName(topic)) is holds


def test_another_cluster_that_is_known_makes_heartbeats_of_its_topics() -> None:
    topic = TopicName("east.device.heartbeats")
    assert KNOWN.knowing([Alias("device")]).is_heartbeats(topic)
    assert not KNOWN.is_heartbeats(topic)


def test_without_a_separator_no_alias_is_recognised() -> None:
    names = HeartbeatNames("", frozenset(map(Alias, ("", "east"))))
    assert names.is_heartbeats(TopicName("heartbeats"))
    assert not names.is_heartbeats(TopicName("eastheartbeats"))


def test_a_flow_knows_its_own_clusters_and_those_of_its_file() -> None:
    rule = topology_of(replace(flow("east", "west", "default"), aliases=(Alias("north"),)))
    for topic in ("heartbeats", "north.heartbeats", "north.west.heartbeats"):
        assert rule.is_heartbeats(TopicName(topic))
    assert not rule.is_heartbeats(TopicName("device.heartbeats"))
    assert rule.knowing([Alias("device")]).is_heartbeats(TopicName("device.heartbeats"))


def test_what_is_copied_stays_as_with_mirror_maker_2() -> None:
    rule = topology_of(replace(flow("east", "west", "default"), topics=("orders",)))
    here, rest = TopicName("device.heartbeats"), TopicName("device-heartbeats")
    assert rule.mirrors(here)
    assert rule.mirrors_past_filter(here)
    assert not rule.mirrors(rest)
    assert not rule.mirrors_past_filter(TopicName("heartbeats"))
    assert not rule.mirrors_past_filter(TopicName("orders"))
    # By its name it came from the target.
    assert not rule.mirrors_past_filter(TopicName("west.device.heartbeats"))
    assert not replace(rule, heartbeats=False).mirrors(here)
    accepted = topology_of(replace(flow("east", "west", "default"), topics=("device.*",)))
    assert accepted.mirrors(here)
    assert not accepted.mirrors_past_filter(here)
