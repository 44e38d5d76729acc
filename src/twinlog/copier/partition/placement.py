"""Makes appends of what a transform routed to other partitions: where they go, and how large their batches may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from twinlog.copier.partition.routed_topics import RoutedTopics
from twinlog.copier.partition.unit import Unit
from twinlog.errors import TransformError
from twinlog.kafka.producer.appends import Append, CopyRules, RoutedRows
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings


class Placing(Protocol):
    """What a transform knows of its routes."""

    def check(self, topic: TopicName, source: TopicPartition, *, same_cluster: bool) -> None:
        """Raise TransformError where rows of a partition cannot be routed to a topic."""

    def confirm(self, topic: TopicName, partitions: int) -> None:
        """The target was just asked, and a topic has so many: the transform fails on records for others."""

    def place(
        self, routed: RoutedRows, source: TopicPartition, partitions: int, rules: CopyRules
    ) -> dict[int, list[Append]]:
        """The appends of routed rows by the partition of their topic. Raises NoPartitionError."""


class Placement:
    """The places of what one copier routes, in `topics`; `placing()` is what knows of its transform."""

    def __init__(self, settings: FlowSettings, topics: RoutedTopics, placing: Callable[[], Placing]) -> None:
        self._settings = settings
        self._topics = topics
        self._placing = placing
        self._limits: dict[TopicName, int] = {}

    def check(self, topic: TopicName, source: TopicPartition) -> None:
        """Raise TransformError where rows of a partition cannot be routed to a topic."""
        self._placing().check(topic, source, same_cluster=self._topics.same_cluster)

    def confirm(self, topic: TopicName) -> None:
        """The target was just asked: the transform fails on records for partitions that a topic does not have."""
        self._placing().confirm(topic, self._topics.partitions(topic))

    def limit(self, topic: TopicName, most_bytes: int) -> None:
        """A topic takes batches of so many bytes at most."""
        self._limits[topic] = most_bytes

    def forget(self, topic: TopicName) -> None:
        """Nothing is routed to a topic any more."""
        self._limits.pop(topic, None)

    def place(self, unit: Unit) -> dict[TopicPartition, list[Append]]:
        """The routed appends of a unit, by where they go. Raises TransformError, NoPartitionError."""
        found: dict[TopicPartition, list[Append]] = {}
        source, rules = unit.owner.source, unit.owner.rules
        name = self._settings.transform.shown if self._settings.transform else ""
        for routed in unit.rows:
            limit = min(rules.max_batch_bytes, self._limits.get(routed.topic, rules.max_batch_bytes))
            try:
                if not routed.dead:
                    self.check(routed.topic, source)
                placed = self._placing().place(
                    routed, source, self._topics.partitions(routed.topic), replace(rules, max_batch_bytes=limit)
                )
            except TransformError as error:
                raise type(error)(f"{source}: the transform {name}: {error}") from None
            for number, appends in placed.items():
                for append in appends:
                    append.route = unit
                found.setdefault(TopicPartition(routed.topic, number), []).extend(appends)
        return found
