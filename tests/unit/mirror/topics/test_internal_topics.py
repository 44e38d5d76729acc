"""The internal topics that a flow writes to: which it has, how they are created, and which settings change later."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.worker.test_driver_report import SETTINGS
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.kafka.admin.topics import replace_configs
from twinlog.mirror.topics.internal_topics import (
    JOURNALS,
    OFFSET_SYNCS,
    POSITIONS,
    PROGRESS,
    InternalTopic,
    TopicBounds,
    absent,
    internal_topics,
    positions,
    progress,
    too_loose,
)
from twinlog.model.topics import ConfigEntry, ConfigSource, NewTopic, Refusal
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


BOUNDS = {"segment.bytes": "100", "min.cleanable.dirty.ratio": "0.1"}


@pytest.mark.parametrize(
    ("value", "source", "to_set", "own"),
    [
        ("1073741824", ConfigSource.DEFAULT, {"segment.bytes": "100"}, {}),
        ("101", ConfigSource.STATIC_BROKER, {"segment.bytes": "100"}, {}),
        ("101", ConfigSource.DYNAMIC_BROKER, {"segment.bytes": "100"}, {}),
        ("100", ConfigSource.DEFAULT, {}, {}),
        ("50", ConfigSource.STATIC_BROKER, {}, {}),
        ("50", ConfigSource.TOPIC, {}, {}),
        ("101", ConfigSource.TOPIC, {}, {"segment.bytes": "100"}),
        (None, ConfigSource.DEFAULT, {}, {}),
    ],
)
def test_stricter_settings_and_own_settings_stay(
    value: str | None, source: ConfigSource, to_set: dict[str, str], own: dict[str, str]
) -> None:
    entries = [ConfigEntry("segment.bytes", value, source), ConfigEntry("retention.ms", "7", ConfigSource.DEFAULT)]
    assert too_loose(entries, BOUNDS) == (to_set, own)


class OldCluster:
    """Takes whole sets of settings only, and refuses each set with `bad`; its topic has a setting of its own."""

    alias = "west"
    client: Any = SimpleNamespace(
        supports=lambda *_: False, settings=SimpleNamespace(bootstrap_servers=("a:9092",)), alias="west"
    )

    def __init__(self, bad: str) -> None:
        self.bad = bad
        self.settings = {"retention.ms": "7"}

    def call(self, step: Any, _client: Any, sets: dict[TopicName, dict[str, str]]) -> dict[TopicName, Refusal]:
        assert step is replace_configs
        ((name, settings),) = sets.items()
        if self.bad in settings:
            return {name: Refusal(40, "no such setting")}
        self.settings = dict(settings)
        return {}


def test_a_whole_set_of_settings_resets_none_that_was_set_before_it(caplog: pytest.LogCaptureFixture) -> None:
    """A cluster before Kafka 2.3 resets what a request does not name, also where the settings are tried one by one."""
    admin: Any = OldCluster("min.cleanable.dirty.ratio")
    bounds = {"segment.bytes": "100", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "5"}
    topic = InternalTopic(TopicName("t"), Alias("west"), 1, bounds, None)
    entries = [ConfigEntry("retention.ms", "7", ConfigSource.TOPIC)]
    entries += [ConfigEntry(name, "1000", ConfigSource.DEFAULT) for name in bounds]
    TopicBounds(SETTINGS, admin, admin)._bound(admin, topic, entries)
    assert admin.settings == {"retention.ms": "7", "segment.bytes": "100", "segment.ms": "5"}
    assert "to bound it: kafka-configs.sh (that of the brokers' own release)" in caplog.text
