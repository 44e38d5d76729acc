"""Whether anything is left to copy: positions of MirrorMaker 2 stand before the markers that follow its last record."""

from __future__ import annotations

from twinlog.kafka.client import ClusterClient
from twinlog.kafka.fetch_session import FetchSession
from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.kafka.record.batch import scan
from twinlog.model.types import TopicPartition

FETCH_BYTES = 1 << 16


async def is_hollow(client: ClusterClient, where: TopicPartition, start: int, end: int) -> bool:
    """Whether a partition has nothing but markers of transactions in these offsets. Raises ClusterError."""
    await client.refresh([where.topic])
    leader, topic = client.leader(where), client.topic(where.topic)
    if leader is None or topic is None:
        return False
    session = FetchSession(client, leader.node, read_committed=False, kept=False)
    while start < end:
        position = FetchPosition(start, FETCH_BYTES, topic_id=topic.topic_id)
        answers = await session.fetch({where: position}, max_wait_ms=100, min_bytes=1, max_bytes=FETCH_BYTES)
        batches = [batch for one in answers for batch in scan(one.answer.records)]
        if not batches or not all(batch.is_control or not batch.record_count for batch in batches):
            return False
        start = batches[-1].last_offset + 1
    return True
