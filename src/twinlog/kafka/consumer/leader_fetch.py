"""Fetches a range of a partition answer by answer from its leader: the part that all readers of ranges share."""

from __future__ import annotations

import uuid

from twinlog.errors import ClusterError, TopicGoneError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.fetch_session import FetchSession
from twinlog.kafka.metadata import TopicMetadata
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.model.types import TopicPartition
from twinlog.settings.flow import ConsumerSettings

WAIT_MS = 500
CONNECT_S = 30.0
EMPTY_PAUSE_S = 0.02
"""The pause after an empty answer; as a rule the broker has waited before it."""
GONE_S = 10.0
"""A deleted or recreated topic counts after this time only: a broker that has just started reports the same."""


class LeaderFetch:
    """Fetches from partitions of one cluster, each answer by a request of its own to the leader.

    `partition_bytes` is the size of an answer, in bytes; a larger batch comes whole. `stale` has the next fetch ask for
    leaders first. `connect_s` is the patience of the first connection, in seconds.
    """

    def __init__(
        self,
        client: ClusterClient,
        settings: ConsumerSettings,
        *,
        read_committed: bool,
        partition_bytes: int | None = None,
        connect_s: float = CONNECT_S,
    ) -> None:
        self.stale = True
        self.connect_s = connect_s
        self._client = client
        self._read_committed = read_committed
        self._max_bytes = settings.fetch_max_bytes
        self._partition_bytes = settings.max_partition_fetch_bytes if partition_bytes is None else partition_bytes

    async def fetch_answer(
        self, partition: TopicPartition, position: int, topic_id: uuid.UUID | None
    ) -> PartitionResponse | None:
        """The answer of the leader from `position` on; None for a broker over its quota, which names no partition.

        Without `topic_id` the topic may be of any id. Raises TopicGoneError for a topic that the metadata do not have,
        or have under another id, and ClusterError.
        """
        client = self._client
        if not client.connected:
            await client.connect(self.connect_s)
        leader = client.leader(partition)
        if self.stale or leader is None:
            topic = (await client.refresh([partition.topic])).get(partition.topic)
            self.stale = is_gone(topic, topic_id)
            if self.stale:
                raise TopicGoneError(f"cluster {client.alias}: topic {partition.topic} was deleted")
            leader = client.leader(partition)
        if leader is None:
            self.stale = True
            raise ClusterError(f"cluster {client.alias}: {partition} has no leader")
        session = FetchSession(client, leader.node, read_committed=self._read_committed, kept=False)
        known = client.topic(partition.topic)
        known_id = known.topic_id if topic_id is None and known is not None else topic_id
        at = FetchPosition(position, self._partition_bytes, topic_id=known_id)
        answers = await session.fetch({partition: at}, max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=self._max_bytes)
        return answers[0].answer if answers else None


def is_gone(topic: TopicMetadata | None, topic_id: uuid.UUID | None) -> bool:
    """Whether the metadata lack the topic, or have a topic of another id under its name."""
    if topic is None or topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
        return True
    return not topic.error and topic_id not in {None, topic.topic_id}
