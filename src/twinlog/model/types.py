"""The words every package shares: names of clusters, topics and offsets, each a type of its own.

A source offset and a target offset are different numbers for the same record, so they are different types.
"""

from __future__ import annotations

from typing import NamedTuple, NewType, TypeVar

Alias = NewType("Alias", str)
"""A cluster alias, as written in `clusters`."""

TopicName = NewType("TopicName", str)

GroupId = NewType("GroupId", str)

SourceOffset = NewType("SourceOffset", int)
"""Offset of a record on the cluster it was produced to."""

TargetOffset = NewType("TargetOffset", int)
"""Offset of the same record in the remote topic."""

AnyOffset = TypeVar("AnyOffset", bound=int)
"""The type of either offset, for code that works alike on both sides."""


class TopicPartition(NamedTuple):
    """A partition of a topic on a cluster; its holder knows the cluster."""

    topic: TopicName
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
