"""Checks that the leader of a partition has the topic under the id in the metadata (KIP-516)."""

from __future__ import annotations

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.fetch_session import FetchSession
from twinlog.kafka.protocol.error_codes import OTHER_TOPIC, Code, explain
from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.model.types import TopicPartition

_NOWHERE = 2**62
"""An offset above the end of any log, so the fetch returns an empty answer."""

_OF_ANOTHER = OTHER_TOPIC | {Code.UNKNOWN_TOPIC_OR_PARTITION}


async def require_current_id(client: ClusterClient, partition: TopicPartition) -> None:
    """Raise ClusterError unless a partition's leader has the topic under the topic id of the metadata.

    Any broker answers a metadata request, also a broker that is unaware that a topic was recreated. Offsets are read by
    name, so the new topic's offsets would be taken for the old topic's offsets. With brokers before Kafka 3.1, whose
    fetches name topics, the check overlooks a recreated topic.
    """
    topic, leader = client.topic(partition.topic), client.leader(partition)
    if topic is None or topic.topic_id is None:
        return
    if leader is None:
        raise ClusterError(f"cluster {client.alias}: {partition} has no leader")
    session = FetchSession(client, leader.node, read_committed=False, kept=False)
    at = FetchPosition(_NOWHERE, 1, topic_id=topic.topic_id)
    for found in await session.fetch({partition: at}, max_wait_ms=0, min_bytes=0, max_bytes=1):
        code = found.answer.error
        if code in _OF_ANOTHER:
            raise ClusterError(
                f"cluster {client.alias}: the broker that leads {partition} has it under another id: {explain(code)}"
            )
        if code and code != Code.OFFSET_OUT_OF_RANGE:
            raise ClusterError(f"cluster {client.alias}: {partition}: {explain(code)}")
        return
    raise ClusterError(f"cluster {client.alias}: {partition}: its leader returned no topic id")
