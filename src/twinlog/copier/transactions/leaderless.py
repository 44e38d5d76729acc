"""Names the remote partitions that hold up a copier's transactions because they have no leader.

A coordinator ends a transaction once each of its partitions has the marker, and begins no other one under the same
transactional id before that (Kafka class TransactionMarkerChannelManager).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from twinlog.kafka.client import ClusterClient
from twinlog.model.topics import listed
from twinlog.model.types import TopicPartition


class TakingPart(Protocol):
    """Some partitions of the open transaction."""

    @property
    def partitions(self) -> Collection[TopicPartition]: ...


class LeaderlessPartitions:
    """Which partitions of the open transaction, or of the one before it, have no leader, and since when."""

    def __init__(self, client: ClusterClient, *taking_part: TakingPart) -> None:
        self._client = client
        self._taking_part = taking_part
        self._before: set[TopicPartition] = set()
        self._since: dict[TopicPartition, float] = {}

    def ended(self) -> None:
        """The open transaction is decided: its partitions get their markers before the next one begins."""
        self._before = {partition for some in self._taking_part for partition in some.partitions}

    def forget(self) -> None:
        """Every marker is written."""
        self._before.clear()

    def named(self) -> str:
        """The end of a sentence for messages; empty while all of them have a leader, as far as is known."""
        now = self._client.loop.clock.monotonic()
        concerned = self._before.union(*(some.partitions for some in self._taking_part))
        lost = [partition for partition in concerned if self._client.leader(partition) is None]
        self._since = {partition: self._since.get(partition, now) for partition in lost}
        if not lost:
            return ""
        seconds = now - min(self._since.values())
        return f"; without a leader for {seconds:.0f} s: {listed(map(str, lost))}"
