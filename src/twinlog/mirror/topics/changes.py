"""Compares both sides of a flow: which remote topics are missing or too small, and which partitions to copy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from twinlog.mirror.topology.topology import Topology
from twinlog.model.topics import Topic
from twinlog.model.types import TopicName, TopicPartition


@dataclass(frozen=True, slots=True)
class TopicPair:
    """A source topic and its remote topic; `heartbeats` is true for a heartbeats topic, false for a user's topic."""

    source: Topic
    remote: TopicName
    heartbeats: bool = False


@dataclass(frozen=True, slots=True)
class TopicChanges:
    """The topics that the target lacks: `create` whole topics, `grow` topics to the partition count of their source."""

    pairs: tuple[TopicPair, ...]
    create: tuple[TopicPair, ...]
    grow: tuple[TopicPair, ...]

    def without(self, topics: Collection[TopicName]) -> TopicChanges:
        """The same changes, some source topics left out."""
        kept = (
            tuple(pair for pair in some if pair.source.name not in topics)
            for some in (self.pairs, self.create, self.grow)
        )
        return TopicChanges(*kept)


def compare(topology: Topology, source: Mapping[TopicName, Topic], target: Mapping[TopicName, Topic]) -> TopicChanges:
    """Compare every mirrored topic. A remote topic with more partitions than its source is left alone."""
    pairs = tuple(
        TopicPair(topic, topology.remote_name(name), topology.is_heartbeats(name))
        for name, topic in sorted(source.items())
        if topology.mirrors(name)
    )
    create = tuple(pair for pair in pairs if pair.remote not in target)
    grow = tuple(
        pair for pair in pairs if pair.remote in target and target[pair.remote].partitions < pair.source.partitions
    )
    return TopicChanges(pairs, create, grow)


def copyable(changes: TopicChanges, target: Mapping[TopicName, Topic]) -> dict[TopicPartition, TopicPartition]:
    """The source partitions with an existing remote partition, by that remote partition."""
    return {
        TopicPartition(pair.source.name, part): TopicPartition(pair.remote, part)
        for pair in changes.pairs
        if pair.remote in target
        for part in range(min(pair.source.partitions, target[pair.remote].partitions))
    }
