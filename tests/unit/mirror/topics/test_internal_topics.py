"""The internal topics that a flow writes to: which it has, what bounds them, and how they are created."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.mirror.topics.internal_topics import (
    JOURNALS,
    OFFSET_SYNCS,
    POSITIONS,
    PROGRESS,
    absent,
    internal_topics,
    positions,
    progress,
)
from twinlog.model.topics import NewTopic
from twinlog.model.types import Alias, TopicName

EAST, WEST = Alias("east"), Alias("west")


def test_every_topic_that_is_written_to_again_and_again_is_bounded() -> None:
    found = {(topic.cluster, topic.name): topic.bounds for topic in internal_topics(flow("east", "west", "default"))}
    assert found == {
        (WEST, "mm2-offsets.east.internal"): POSITIONS,
        (WEST, "mm2-twinlog-offsets.east.internal"): JOURNALS,
        (WEST, "mm2-twinlog-progress.east.internal"): PROGRESS,
        (WEST, "mm2-twinlog-control.east.internal"): JOURNALS,
        (EAST, "mm2-offset-syncs.west.internal"): OFFSET_SYNCS,
        (WEST, "east.checkpoints.internal"): JOURNALS,
        (WEST, "heartbeats"): JOURNALS,
    }


def test_internal_topics_that_must_be_compacted() -> None:
    one = flow("east", "west", "default")
    found = {topic.name: (topic.cluster, topic.fatal) for topic in internal_topics(one) if topic.loss is not None}
    assert found == {
        "mm2-offsets.east.internal": (WEST, True),
        "mm2-twinlog-offsets.east.internal": (WEST, False),
        "mm2-twinlog-control.east.internal": (WEST, False),
        "mm2-offset-syncs.west.internal": (EAST, False),
        "east.checkpoints.internal": (WEST, False),
        "heartbeats": (WEST, False),
    }
    on_target = internal_topics(replace(one, offset_syncs_location="target"))
    assert ("mm2-offset-syncs.east.internal", WEST) in {(topic.name, topic.cluster) for topic in on_target}
    little = replace(one, emit_offset_syncs=False, emit_checkpoints_interval_s=None, emit_heartbeats_interval_s=None)
    assert [topic.name for topic in internal_topics(little)] == [
        "mm2-offsets.east.internal",
        "mm2-twinlog-offsets.east.internal",
        "mm2-twinlog-progress.east.internal",
        "mm2-twinlog-control.east.internal",
    ]
    assert [topic.name for topic in internal_topics(replace(one, enabled=False))] == ["heartbeats"]


def test_a_topic_is_created_with_its_bounds_which_a_cluster_may_refuse() -> None:
    one = replace(flow("east", "west"), offset_storage_partitions=7, offset_storage_replication_factor=2)
    assert positions(one).new() == NewTopic(
        TopicName("mm2-offsets.east.internal"), 7, 2, {"cleanup.policy": "compact", **POSITIONS}, frozenset(POSITIONS)
    )
    deleted = {"cleanup.policy": "delete", "retention.ms": "3600000"}
    assert progress(one).new() == NewTopic(
        TopicName("mm2-twinlog-progress.east.internal"), 1, 2, {**deleted, **PROGRESS}, frozenset(PROGRESS)
    )


def test_a_flow_creates_no_topic_that_only_a_command_needs() -> None:
    one = flow("east", "west", "default")
    names = {topic.name for topic in absent(internal_topics(one), {EAST: (), WEST: ()})}
    assert "mm2-twinlog-progress.east.internal" in names
    assert "mm2-twinlog-control.east.internal" not in names
