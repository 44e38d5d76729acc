"""The remote partitions that take part in the open transaction of a copier, and the partitions that wait for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from twinlog.errors import RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.append_queue import AppendQueue, Gate
from twinlog.kafka.producer.appender import TargetAppender
from twinlog.kafka.protocol import error_codes
from twinlog.model.types import TopicPartition

EXCLUDED_S = 2.0
"""A refused partition is tried again after this time; the other partitions continue meanwhile."""


class TransactionPartitions:
    """The queues of a copier, by their part in the open transaction.

    `wake` is set when a queue waits. A queue is `wanted` once it has appends, and `entering` while the coordinator
    adds it. Then the queue takes part, with its gate open until the transaction closes. A queue of a missing or
    leaderless partition is excluded for a while.
    """

    def __init__(self, client: ClusterClient, appender: TargetAppender) -> None:
        self.wake = client.loop.signal()
        self._client = client
        self._now = client.loop.clock.monotonic
        self._appender = appender
        self._wanted: dict[AppendQueue, None] = {}
        self._excluded: dict[AppendQueue, float] = {}
        self._inside: dict[TopicPartition, AppendQueue] = {}
        self._entering: Mapping[TopicPartition, AppendQueue] = {}

    def __contains__(self, remote: TopicPartition) -> bool:
        """Whether a marker will end the transaction in this partition, as far as is known."""
        return remote in self._inside or remote in self._entering

    def __bool__(self) -> bool:
        return bool(self._inside)

    def offer_queue(self, queue: AppendQueue) -> None:
        """Send the appends of a queue now if it takes part, else with the next transaction."""
        if queue.gate is Gate.OPEN or (queue.partition in self._inside and not queue.all_acknowledged):
            self._appender.offer_queue(queue)
        if queue.gate is not Gate.OPEN and queue.pending and queue not in self._excluded:
            self._wanted[queue] = None
            self.wake.set()

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions that take part."""
        return self._inside.keys()

    @property
    def waiting(self) -> bool:
        """Whether a queue waits that may take part now."""
        now = self._now()
        for queue in [queue for queue, until in self._excluded.items() if until <= now]:
            del self._excluded[queue]
            if queue.pending:
                self._wanted[queue] = None
        return bool(self._wanted)

    @property
    def excluded_until(self) -> float:
        """When the first excluded queue may take part again, in monotonic seconds."""
        return min(self._excluded.values(), default=float("inf"))

    @property
    def idle(self) -> bool:
        """Whether all appends of the queues that take part are acknowledged."""
        return all(queue.idle for queue in self._inside.values())

    @property
    def late(self) -> list[AppendQueue]:
        """The queues that take part and have unacknowledged appends, or failed."""
        return [queue for queue in self._inside.values() if not queue.all_acknowledged]

    def take_waiting(self) -> Mapping[TopicPartition, AppendQueue]:
        """The queues that wait and can take part; `open_queues` or `left_outside` follows."""
        waiting, self._wanted = self._wanted, {}
        fresh: dict[TopicPartition, AppendQueue] = {}
        for queue in waiting:
            if queue.partition in self._inside:
                self._open(queue)
            elif self._client.leader(queue.partition) is None:
                self.exclude_queue(queue)
            elif queue.pending:
                fresh[queue.partition] = queue
        self._entering = fresh
        return fresh

    def open_queues(self) -> None:
        """The coordinator has added all entering queues; they may append."""
        fresh, self._entering = self._entering, {}
        self._inside.update(fresh)
        for queue in fresh.values():
            self._open(queue)

    def left_outside(self, refused: Mapping[TopicPartition, int]) -> str:
        """The coordinator refused some of the entering queues, and so added no queue; returns the reason.

        Raises RefusedError if a permission is missing.
        """
        fresh, self._entering = self._entering, {}
        for partition, queue in fresh.items():
            if partition not in refused:
                self._wanted[queue] = None
            elif error_codes.refused(refused[partition]):
                raise self._lacks(partition)
            else:
                self.exclude_queue(queue)
        return ", ".join(f"{partition}: {error_codes.explain(code)}" for partition, code in list(refused.items())[:3])

    def _lacks(self, partition: TopicPartition) -> RefusedError:
        return self._client.lacks("WRITE", f"topic {partition.topic}", "copying to it")

    def close(self) -> None:
        """Close all queues for new appends; their remaining appends wait for the next transaction."""
        for queue in self._inside.values():
            queue.close()
            if queue.pending:
                self._wanted[queue] = None

    def exclude_queue(self, queue: AppendQueue) -> None:
        """Keep a queue out of transactions for a while."""
        self._excluded[queue] = self._now() + EXCLUDED_S
        self._appender.refresh()

    def end_transaction(self) -> None:
        """The transaction is over."""
        self._inside.clear()
        self._entering = {}

    def clear(self) -> None:
        """The transaction was aborted; its queues are cleared, so all waits are over."""
        self.end_transaction()
        self._wanted.clear()

    def forget_queue(self, queue: AppendQueue) -> None:
        """The copier has released its partition."""
        self._wanted.pop(queue, None)
        self._excluded.pop(queue, None)
        self._inside.pop(queue.partition, None)

    def _open(self, queue: AppendQueue) -> None:
        queue.open()
        self._appender.offer_queue(queue)
