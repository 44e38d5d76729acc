"""Asks each leader of many partitions once, in a single request, for records from an offset on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from twinlog.kafka.client import ClusterClient
from twinlog.kafka.fetch_session import FetchSession
from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.model.types import TopicPartition


async def fetch_once(
    client: ClusterClient,
    offsets: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    partition_bytes: int,
    most_bytes: int,
    epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
) -> dict[TopicPartition, PartitionResponse]:
    """Returns the answers of the leaders for the records of each partition from an offset on.

    An answer has up to `partition_bytes` of each partition; less if the partitions of a leader share the `most_bytes`
    of an answer. `epochs` are leader epochs of the records before the offsets. With an epoch a leader answers with the
    offset from which its log differs from a log with a record of this epoch (KIP-595). A partition is missing if it
    lacks a leader or if the answer of its leader omits it, as over a quota. Raises ClusterError.
    """
    by_node: dict[int, list[TopicPartition]] = {}
    for partition in offsets:
        leader = client.leader(partition)
        if leader is not None:
            by_node.setdefault(leader.node, []).append(partition)
    found: dict[TopicPartition, PartitionResponse] = {}

    async def ask(node: int, partitions: Sequence[TopicPartition]) -> None:
        share = min(partition_bytes, most_bytes // len(partitions))
        wanted = {}
        for partition in partitions:
            topic = client.topic(partition.topic)
            topic_id = None if topic is None else topic.topic_id
            wanted[partition] = FetchPosition(offsets[partition], share, epochs.get(partition, -1), topic_id=topic_id)
        session = FetchSession(client, node, read_committed=read_committed, kept=False)
        for one in await session.fetch(wanted, max_wait_ms=0, min_bytes=0, max_bytes=most_bytes):
            found[one.partition] = one.answer

    await client.loop.gather([client.loop.spawn(ask, node, partitions) for node, partitions in by_node.items()])
    return found
