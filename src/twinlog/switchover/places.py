"""Offsets by partition as JSON: `{"orders": {"0": 17}}`, short for thousands of partitions."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.model.types import TopicName, TopicPartition

Offsets = dict[TopicPartition, int]
Places = dict[str, dict[str, int]]


def to_json(offsets: Mapping[TopicPartition, int]) -> Places:
    """Offsets by topic and partition."""
    found: Places = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(places: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The offsets that `to_json` wrote."""
    return {
        TopicPartition(TopicName(topic), int(partition)): offset
        for topic, offsets in places.items()
        for partition, offset in offsets.items()
    }
