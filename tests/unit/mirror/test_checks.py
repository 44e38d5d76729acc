"""Topics that only look like copies, and which internal topics must be compacted."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.driver.test_topic_conflicts import flow
from twinlog.flows.topology import topology_of
from twinlog.mirror.checks import compacted_topics, misread_topics
from twinlog.model.types import Alias, TopicName

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
    assert mirrored == ["orders.v1"]


def test_kept_names_are_never_misread() -> None:
    topology = topology_of(flow("east", "west"))
    assert misread_topics(topology, [EAST, WEST], names("orders.v1", "west.orders"), []) == ([], [])


def test_internal_topics_that_must_be_compacted() -> None:
    one = flow("east", "west", "default")
    found = {topic.name: (topic.cluster, topic.fatal) for topic in compacted_topics(one)}
    assert found == {
        "mm2-offsets.east.internal": (WEST, True),
        "mm2-twinlog-offsets.east.internal": (WEST, False),
        "mm2-offset-syncs.west.internal": (EAST, False),
        "east.checkpoints.internal": (WEST, False),
        "heartbeats": (WEST, False),
    }
    on_target = compacted_topics(replace(one, offset_syncs_location="target"))
    assert ("mm2-offset-syncs.east.internal", WEST) in {(topic.name, topic.cluster) for topic in on_target}
    little = replace(one, emit_offset_syncs=False, emit_checkpoints_interval_s=None, emit_heartbeats_interval_s=None)
    assert [topic.name for topic in compacted_topics(little)] == [
        "mm2-offsets.east.internal",
        "mm2-twinlog-offsets.east.internal",
    ]
    assert [topic.name for topic in compacted_topics(replace(one, enabled=False))] == ["heartbeats"]
