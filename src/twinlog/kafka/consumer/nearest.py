"""Which broker a partition is read from: its leader, or a replica near us that the leader named (KIP-392)."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.clock import LONG_AGO
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.metadata import Leader
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.model.types import TopicPartition

SHUN_S = 10.0
"""How long fetches carry no rack after a near replica failed: until the cluster itself has noticed, as a rule
(`broker.session.timeout.ms` is 9 s). Meanwhile leaders return the records themselves."""


@dataclass(slots=True)
class _Near:
    node: int
    leader: Leader
    until: float
    high_watermark: int
    last_stable_offset: int


class NearestReplicas:
    """The partitions that are read from a near replica, and until when.

    As in Kafka's consumer (classes SubscriptionState, AbstractFetch) that ends after `max_age_s`, with a new leader or
    epoch, when the replica is not online any more, and with any error: then the leader is asked again. Kafka's consumer
    would be sent back at once to a replica that died, until the cluster has noticed; here fetches carry no rack
    meanwhile, each time for twice as long while the same replica keeps failing.
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
        """The rack to send to a leader: ours, or none after a near replica failed."""
        if self._rack and any(until > self._now() for until, _ in self._shunned.values()):
            return ""
        return self._rack

    def node(self, partition: TopicPartition) -> int | None:
        """The broker to read a partition from; None while it has no known leader."""
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
        """A leader names another replica to read from; False when that replica is not known here."""
        leader, node = self._client.leader(partition), answer.preferred_replica
        if leader is None or not self._client.holds(partition, node):
            self._shun(node)
            return False
        until = self._now() + self._max_age_s
        self._near[partition] = _Near(node, leader, until, answer.high_watermark, answer.last_stable_offset)
        return True

    def record_answer(self, partition: TopicPartition, node: int, answer: PartitionResponse) -> None:
        """A near replica answered: its end of the log lags behind the leader's, which counts here."""
        if node in self._shunned and self._shunned[node][0] <= self._now():
            del self._shunned[node]
        near = self._near.get(partition)
        if near is not None and near.node == node:
            answer.high_watermark = max(answer.high_watermark, near.high_watermark)
            answer.last_stable_offset = max(answer.last_stable_offset, near.last_stable_offset)

    def leave_replica(self, partition: TopicPartition, node: int) -> None:
        """A replica gave an error for a partition."""
        near = self._near.get(partition)
        if near is not None and near.node == node:
            del self._near[partition]
            self._shun(node)

    def leave_broker(self, node: int) -> list[TopicPartition]:
        """A broker does not answer; returns the partitions that go back to their leaders."""
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
