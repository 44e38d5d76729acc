"""Asks leaders for their epochs, and for the offsets from which their logs differ from the read records (KIP-320).

Fetches report these offsets from version 12 on (Kafka 2.7, KIP-595). For older brokers Kafka's own consumer sends
separate requests (Kafka class OffsetsForLeaderEpochClient). Metadata has the epochs of leaders. Before Kafka 2.4 these
may be old (KAFKA-9212), and kafka-python drops old epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from math import inf
from typing import Any

from kafka.protocol.consumer.offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest

from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import FetchPosition, PartitionResponse
from twinlog.kafka.protocol.offsets import LATEST
from twinlog.model.types import TopicName, TopicPartition

_WITH_CURRENT_EPOCH = 2
_COMPARING = 4
"""The version of ListOffsets since which a request may name the expected leader epoch."""

_CONSUMER = -1


async def find_divergence(
    client: ClusterClient, node: int, positions: Mapping[TopicPartition, FetchPosition]
) -> dict[TopicPartition, PartitionResponse]:
    """Find the partitions whose logs differ from the read records, or whose leader refuses to answer.

    Returns the answers in the form of a fetch of version 12, with empty records. A log that lacks the epoch of the read
    records is out of range. Brokers that lack the request are skipped. Raises ClusterError.
    """
    if not client.supports(OffsetForLeaderEpochRequest.API_KEY, _WITH_CURRENT_EPOCH):
        return {}
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    topics: dict[TopicName, list[Any]] = {}
    for (topic, number), at in positions.items():
        topics.setdefault(topic, []).append(
            kind.OffsetForLeaderPartition(
                partition=number, current_leader_epoch=at.leader_epoch, leader_epoch=at.last_epoch
            )
        )
    request = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=[kind(topic=name, partitions=parts) for name, parts in topics.items()],
        min_version=_WITH_CURRENT_EPOCH,
    )
    response = await client.send_request(request, node)
    found = {}
    for topic in response.topics:
        for part in topic.partitions:
            partition = TopicPartition(TopicName(topic.topic), part.partition)
            asked = positions.get(partition)
            if asked is None:
                continue
            answer = PartitionResponse(part.partition, part.error_code, -1, -1, -1, (), memoryview(b""))
            if not answer.error and (part.end_offset < 0 or part.leader_epoch < 0):
                answer.error = Code.OFFSET_OUT_OF_RANGE
            elif not answer.error and (part.leader_epoch < asked.last_epoch or part.end_offset < asked.offset):
                answer.diverging_epoch, answer.diverging_end = part.leader_epoch, part.end_offset
            if answer.error or answer.diverging_epoch >= 0:
                found[partition] = answer
    return found


UNREAD_S = 1.0
"""For so many seconds a partition may be absent from fetches and its log still count as verified.

Elections take longer.
"""


class VerifiedLogs:
    """Partitions whose logs have the read records, as their leader has confirmed, each in a leader epoch.

    A log is truncated only between two epochs. Brokers before Kafka 2.4 have unreliable epochs, so that each is -1.
    With these brokers an election shows in the error of a fetch, or in a broken connection, as long as a fetch names
    the partition. So a partition loses its verification when the last fetch omitted it.
    """

    def __init__(self) -> None:
        self._epochs: dict[TopicPartition, int] = {}
        self._named: set[TopicPartition] = set()
        self._answered_at = -inf

    def begin_fetch(self, now: float) -> None:
        """Drop expired verifications before a fetch, at this monotonic second."""
        if not self._epochs:
            return
        if now - self._answered_at > UNREAD_S:
            self._epochs.clear()
        for partition in [partition for partition in self._epochs if partition not in self._named]:
            del self._epochs[partition]

    def end_fetch(self, named: Mapping[TopicPartition, object], now: float) -> None:
        """Note the answer to a fetch of these partitions, which the request or the broker's session names."""
        self._named, self._answered_at = set(named) if self._epochs else set(), now

    def lacks(self, partition: TopicPartition, at: FetchPosition) -> bool:
        """Whether the leader is still to ask about the partition."""
        return at.last_epoch >= 0 and self._epochs.get(partition) != at.leader_epoch

    def add(self, positions: Mapping[TopicPartition, FetchPosition]) -> None:
        """Note that the leaders have the read records before these positions."""
        self._epochs.update((partition, at.leader_epoch) for partition, at in positions.items())
        self._named.update(positions)

    def drop_partition(self, partition: TopicPartition) -> None:
        """Drop the verification of a partition: an election may have changed its log."""
        self._epochs.pop(partition, None)

    def clear(self) -> None:
        """Drop all verifications: only an open connection shows an election."""
        self._epochs.clear()


class EpochOrder(Enum):
    """The order of the epoch of a partition's leader and the epoch of a read record."""

    OLDER = -1
    SAME = 0
    NEWER = 1
    UNKNOWN = None


_ORDERS = {Code.UNKNOWN_LEADER_EPOCH: EpochOrder.OLDER, Code.FENCED_LEADER_EPOCH: EpochOrder.NEWER}


async def compare_leader_epochs(
    client: ClusterClient, read_epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[EpochOrder, int]]:
    """The order of each partition, and the end of the leader's own log; the end is -1 if the epochs differ.

    The leader itself compares: the leader refuses a question for another epoch. An epoch in `read_epochs` is -1 when
    unknown; brokers of other products may lack the comparison. A partition is missing if the comparison fails now.
    Raises ClusterError when a broker fails to answer.
    """
    compares = client.supports(ListOffsetsRequest.API_KEY, _COMPARING)
    asked = {partition: epoch for partition, epoch in read_epochs.items() if compares and epoch >= 0}
    errors: dict[TopicPartition, int] = {}
    ends = await client.list_offsets(asked, LATEST, log_end=True, leader_epochs=asked, errors=errors) if asked else {}
    return {
        **{partition: (EpochOrder.UNKNOWN, -1) for partition in read_epochs if partition not in asked},
        **{partition: (EpochOrder.SAME, end) for partition, end in ends.items()},
        **{partition: (_ORDERS[Code(code)], -1) for partition, code in errors.items() if code in _ORDERS},
    }
