"""Offsets in requests: the ends of a log, its newest record, and the committed offsets of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kafka.protocol.consumer.offsets import ListOffsetsRequest

from twinlog.model.groups import GroupOffsets
from twinlog.model.types import TopicName, TopicPartition

EARLIEST, LATEST = -2, -1
MAX_TIMESTAMP = -3
"""The record with the newest timestamp (KIP-734), from `WITH_MAX_TIMESTAMP` of the request on."""

WITH_MAX_TIMESTAMP = 7
_DEBUGGING_REPLICA = -2


def list_offsets_request(
    partitions: Iterable[tuple[TopicPartition, int]], at: int, *, read_committed: bool, log_end: bool
) -> Any:
    """The request to a broker for the partitions that it leads, each with its leader epoch.

    With `log_end` the request asks for the end of the leader's own log, as Kafka's debugging replica.
    """
    kind = ListOffsetsRequest.ListOffsetsTopic
    topics: dict[TopicName, list[Any]] = {}
    for (topic, number), epoch in partitions:
        topics.setdefault(topic, []).append(
            kind.ListOffsetsPartition(partition_index=number, current_leader_epoch=epoch, timestamp=at)
        )
    return ListOffsetsRequest(
        replica_id=_DEBUGGING_REPLICA if log_end else -1,
        isolation_level=int(read_committed),
        topics=[kind(name=name, partitions=parts) for name, parts in topics.items()],
        # An older broker takes the number for a time, and answers with the first record.
        min_version=WITH_MAX_TIMESTAMP if at == MAX_TIMESTAMP else None,
        max_version=7,
    )


def read_list_offsets(response: Any) -> Iterator[tuple[TopicPartition, int, int, int]]:
    """Each partition of a broker's answer, with its error code, its offset, and the timestamp of the record there."""
    for topic in response.topics:
        for part in topic.partitions:
            where = TopicPartition(TopicName(topic.name), part.partition_index)
            yield where, part.error_code, part.offset, part.timestamp


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
