"""Topics that only look like copies, and which internal topics must be compacted."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.mirror.topics.checks import check_proof, misread_topics
from twinlog.mirror.topology.naming import DefaultReplicationPolicy
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.types import Alias, TopicName
from twinlog.settings.flow import ExactlyOnce
from twinlog.settings.per_topic import PerTopic

EAST, WEST, NORTH = Alias("east"), Alias("west"), Alias("north")


def names(*topics: str) -> list[TopicName]:
    return [TopicName(topic) for topic in topics]


def test_topics_that_only_look_like_copies_are_named() -> None:
    source = names(
        "orders",
        "orders.v1",
        "north.orders",
        "west.orders",
        "west.audit",
        "east.plan",
        "east.orders",
        "heartbeats",
        "shop.heartbeats",
        "west.heartbeats",
        "mm2-offsets.x.internal",
        "__consumer_offsets",
    )
    left_out, mirrored = misread_topics(
        topology_of(flow("east", "west", "default")), [EAST, WEST, NORTH], source, names("orders", "heartbeats")
    )
    # west.orders is a copy of west's orders; nobody has an audit or a plan that could have been copied.
    assert left_out == ["east.plan", "west.audit"]
    assert mirrored == ["orders.v1", "shop.heartbeats"]


def test_kept_names_are_never_misread() -> None:
    topology = topology_of(flow("east", "west"))
    assert misread_topics(topology, [EAST, WEST], names("orders.v1", "west.orders"), []) == ([], [])


def test_topics_are_named_that_have_the_letter_of_the_target() -> None:
    """Without a separator; what is a copy from the target is not named, it is left out as it should be."""
    lettered = replace(topology_of(flow("A", "B", "default")), policy=DefaultReplicationPolicy("", ""))
    topics = names("orders", "Books", "myBook", "clB", "Bcopied", "__consumer_Bs", "heartbeats")
    assert misread_topics(lettered, [Alias("A"), Alias("B")], topics, names("copied")) == (["Books", "myBook"], [])


@pytest.mark.parametrize(
    ("exactly_once", "known", "release"),
    [
        ("disabled", {}, "2.8"),
        ("disabled", {61}, None),
        ("enabled", {}, "3.0"),
        ("enabled", {61}, "3.0"),
        ("enabled", {61, 66}, None),
    ],
)
def test_a_proof_names_transactions_that_old_brokers_keep_from_it(
    exactly_once: ExactlyOnce, known: set[int], release: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    target: Any = SimpleNamespace(client=SimpleNamespace(supports=known.__contains__), alias="west")
    unproved = replace(flow("east", "west"), exactly_once=exactly_once)
    check_proof(unproved, target)
    assert caplog.messages == []
    check_proof(replace(unproved, proof=PerTopic(True)), target)
    begin = f"TW-PROOF-03: east->west: brokers of west are older than Kafka {release}, so the proof misses"
    assert [text.startswith(begin) for text in caplog.messages] == ([] if release is None else [True])
