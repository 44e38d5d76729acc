"""Committed offsets in the form of requests: by topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinlog.model.groups import GroupOffsets
from twinlog.model.types import TopicName


def by_topic(offsets: GroupOffsets, topic: Callable[..., Any], partition: Callable[..., Any]) -> list[Any]:
    """The offsets for a request whose classes `topic` and `partition` are; their leader epochs are unknown."""
    topics: dict[TopicName, list[Any]] = {}
    for where, committed in offsets.items():
        topics.setdefault(where.topic, []).append(
            partition(
                partition_index=where.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=-1,
                committed_metadata=committed.metadata,
            )
        )
    return [topic(name=name, partitions=parts) for name, parts in topics.items()]
