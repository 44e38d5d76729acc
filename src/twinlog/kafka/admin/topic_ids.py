"""Makes sure that a topic id is the one by which its leader has the topic (KIP-516)."""

from __future__ import annotations

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.fetch_session import FetchSession
from twinlog.kafka.protocol.error_codes import Code, explain
from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.kafka.protocol.fetch_response import TOPIC_IDS_SINCE
from twinlog.model.types import TopicPartition

_NOWHERE = 2**62
"""No log reaches so far, so none gives a record."""

_OF_ANOTHER = frozenset({Code.UNKNOWN_TOPIC_ID, Code.INCONSISTENT_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION})


async def require_current_id(client: ClusterClient, partition: TopicPartition) -> None:
    """Raise ClusterError unless a partition's leader has it as one of the topic that metadata named.

    Any broker answers a question for metadata, also one that has not heard yet that a topic was made anew, and offsets
    are asked for by name: what one topic holds would be taken for what is left of the other. Brokers that know no topic
    ids are believed.
    """
    topic, leader = client.topic(partition.topic), client.leader(partition)
    if client.fetch_version < TOPIC_IDS_SINCE or topic is None or topic.topic_id is None:
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
    raise ClusterError(f"cluster {client.alias}: {partition} does not tell its id")
