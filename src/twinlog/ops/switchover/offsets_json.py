"""Offsets by partition as JSON: `{"orders": {"0": 17}}`, short for thousands of partitions."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.model.types import TopicName, TopicPartition

Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, int]]


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """Offsets by topic and partition."""
    found: OffsetsJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(written: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The offsets that `to_json` wrote."""
    return {
        TopicPartition(TopicName(topic), int(partition)): offset
        for topic, offsets in written.items()
        for partition, offset in offsets.items()
    }
