"""Chooses the broker that a partition is read from: the leader, or a near replica that the leader named (KIP-392)."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.clock import LONG_AGO
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.metadata import Leader
from twinlog.kafka.protocol.fetch import PartitionResponse
from twinlog.model.types import TopicPartition

SHUN_S = 10.0
"""The seconds for which fetches omit the rack after a near replica failed. Meanwhile leaders return the records.

The cluster itself usually notices the failure within this time (`broker.session.timeout.ms` is 9 s).
"""


@dataclass(slots=True)
class _Near:
    node: int
    leader: Leader
    until: float
    high_watermark: int
    last_stable_offset: int


class NearestReplicas:
    """The partitions that are read from a near replica, and the end of that time for each.

    As in Kafka's consumer (classes SubscriptionState, AbstractFetch) the time ends after `max_age_s`, with a new leader
    or epoch, when the replica is offline, and with any error. Then the leader is asked again.

    Until the cluster notices the death of a replica, a leader would name the dead replica to Kafka's consumer again at
    once. Here fetches omit the rack meanwhile, and each further failure of the same replica doubles this time.
    """

    def __init__(self, client: ClusterClient, rack: str, max_age_s: float) -> None:
        self._client = client
        self._rack = rack
        self._max_age_s = max_age_s
        self._now = client.loop.clock.monotonic
        self._near: dict[TopicPartition, _Near] = {}
        self._shunned: dict[int, tuple[float, float]] = {}

    @property
    def rack(self) -> str:
        """The rack to send to a leader: the rack of this client, or an empty name after a near replica failed."""
        if self._rack and any(until > self._now() for until, _ in self._shunned.values()):
            return ""
        return self._rack

    def node(self, partition: TopicPartition) -> int | None:
        """The broker to read a partition from; None while its leader is unknown."""
        leader = self._client.leader(partition)
        near = self._near.get(partition)
        if near is None:
            return None if leader is None else leader.node
        if leader == near.leader and self._now() < near.until and self._client.holds(partition, near.node):
            return near.node
        del self._near[partition]
        return None if leader is None else leader.node

    def leads(self, partition: TopicPartition, node: int) -> bool:
        """Whether `node` leads a partition; a follower's log may lag behind or be truncated."""
        leader = self._client.leader(partition)
        return leader is None or leader.node == node

    def set_replica(self, partition: TopicPartition, answer: PartitionResponse) -> bool:
        """Read a partition from the replica that its leader names; False if the metadata lacks this replica."""
        leader, node = self._client.leader(partition), answer.preferred_replica
        if leader is None or not self._client.holds(partition, node):
            self._shun(node)
            return False
        until = self._now() + self._max_age_s
        self._near[partition] = _Near(node, leader, until, answer.high_watermark, answer.last_stable_offset)
        return True

    def record_answer(self, partition: TopicPartition, node: int, answer: PartitionResponse) -> None:
        """Note the answer of a near replica: its end of the log lags behind, so the leader's end counts."""
        if node in self._shunned and self._shunned[node][0] <= self._now():
            del self._shunned[node]
        near = self._near.get(partition)
        if near is not None and near.node == node:
            answer.high_watermark = max(answer.high_watermark, near.high_watermark)
            answer.last_stable_offset = max(answer.last_stable_offset, near.last_stable_offset)

    def leave_replica(self, partition: TopicPartition, node: int) -> None:
        """Return a partition to its leader after a replica answered with an error."""
        near = self._near.get(partition)
        if near is not None and near.node == node:
            del self._near[partition]
            self._shun(node)

    def leave_broker(self, node: int) -> list[TopicPartition]:
        """Return the partitions of a silent broker to their leaders; returns these partitions."""
        left = [partition for partition, near in self._near.items() if near.node == node]
        for partition in left:
            del self._near[partition]
        if left:
            self._shun(node)
        return left

    def _shun(self, node: int) -> None:
        now = self._now()
        until, span = self._shunned.get(node, (LONG_AGO, SHUN_S / 2))
        if until <= now:
            span = min(2 * span, max(self._max_age_s, SHUN_S))
            self._shunned[node] = (now + span, span)
