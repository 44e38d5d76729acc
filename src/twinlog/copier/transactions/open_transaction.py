"""The open transaction of a copier: its transactional id, its partitions, and the positions that it commits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.transactions import ProducerEpoch, TransactionCoordinator
from twinlog.kafka.net.loop import Signal
from twinlog.kafka.producer.append_queue import AppendQueue, Gate
from twinlog.kafka.producer.appender import TargetAppender
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.kafka.retry import LATE_PARTITION, TRANSACTION_STEP, Backoff, RetryPolicy, retry
from twinlog.lease.messages import LentId
from twinlog.mirror.offsets.position_writer import PositionLog
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

T = TypeVar("T")


class TransactionalId:
    """The producer of a copier's transactions: a transactional id that the driver lent, and its producer epoch.

    `lend()` gives an id with a fresh epoch. `failed(error)` is called when a request failed, and the request is
    repeated; `ended()` is True once the copier has stopped waiting for answers.
    """

    def __init__(
        self,
        client: ClusterClient,
        settings: FlowSettings,
        appender: TargetAppender,
        *,
        lend: Callable[[], Coroutine[Any, Any, LentId]],
        failed: Callable[[TwinlogError], None],
        ended: Callable[[], bool],
    ) -> None:
        self._client = client
        self._settings = settings
        self._appender = appender
        self._lend = lend
        self._failed = failed
        self._ended = ended
        self._coordinator: TransactionCoordinator
        self._holder: ProducerEpoch

    @property
    def name(self) -> str:
        return self._coordinator.transactional_id

    @property
    def timeout_s(self) -> float:
        """The target aborts a transaction that was open for this time."""
        return self._coordinator.timeout_ms / 1000

    @property
    def identity(self) -> ProducerIdentity:
        """The identity that appends now."""
        return ProducerIdentity(self._holder.producer_id, self._holder.epoch, transactional=True)

    async def take_up(self) -> None:
        """Take a lent id. Raises RefusedError without the rights, ClusterError while the cluster is silent."""
        lent = await self._lend()
        self._coordinator = TransactionCoordinator(
            self._client, lent.transactional_id, self._settings.producer.transaction_timeout_ms
        )
        self._appender.transactional_id = lent.transactional_id
        self._holder = lent.producer

    async def renew_epoch(self) -> None:
        """Take a new producer epoch for the id, while all its transactions are closed."""
        self._holder = await self.retry(lambda: self._coordinator.init(self._holder))

    async def add(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Add partitions to the open transaction; returns the error codes of the refused partitions."""
        return await self.retry(lambda: self._coordinator.add(self._holder, partitions))

    async def end(self, *, commit: bool) -> bool:
        """Commit or abort the open transaction; False when the coordinator has forgotten it."""
        return await self.retry(lambda: self._coordinator.end(self._holder, commit=commit))

    async def retry(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Repeat `step` until the cluster has answered it."""
        policy = RetryPolicy.of(self._settings.producer.client)
        return await retry(self._client.loop, policy, step, stopped=self._ended, failed=self._note_failure)

    def _note_failure(self, error: TwinlogError) -> None:
        # A partition whose marker is missing may have no requests in flight, so its leader is looked up here.
        self._appender.refresh()
        self._failed(error)


EXCLUDED_S = 2.0
"""A refused or leaderless partition is tried again after this time; the other partitions continue meanwhile."""


class TransactionPartitions:
    """The queues of a copier, by their part in the open transaction.

    `wake` is set when a queue waits. A queue is `wanted` once it has appends, and `entering` while the coordinator
    adds it. Then the queue takes part, with its gate open until the transaction closes. A queue of a missing or
    leaderless partition is excluded for a while. A late queue, which costs all partitions a transaction, is excluded by
    the policy `LATE_PARTITION`.
    """

    def __init__(self, client: ClusterClient, appender: TargetAppender) -> None:
        self.wake = client.loop.signal()
        self._client = client
        self._now = client.loop.clock.monotonic
        self._appender = appender
        self._wanted: dict[AppendQueue, None] = {}
        self._excluded: dict[AppendQueue, float] = {}
        self._backoffs: dict[AppendQueue, Backoff] = {}
        """The queues that were late, until a transaction with them is committed."""
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
        if queue.gate is not Gate.OPEN and queue.ready and queue not in self._excluded:
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
            if queue.ready:
                self._wanted[queue] = None
        return bool(self._wanted)

    @property
    def excluded_until(self) -> float:
        """When the first excluded queue may take part again, in monotonic seconds."""
        return min(self._excluded.values(), default=float("inf"))

    @property
    def idle(self) -> bool:
        """Whether all appends of the queues that take part are acknowledged, or set aside with what follows them."""
        return all(queue.all_acknowledged and not queue.ready for queue in self._inside.values())

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
                self._exclude(queue, EXCLUDED_S)
            elif queue.ready:
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
                self._exclude(queue, EXCLUDED_S)
        return ", ".join(f"{partition}: {error_codes.explain(code)}" for partition, code in list(refused.items())[:3])

    def _lacks(self, partition: TopicPartition) -> RefusedError:
        return self._client.lacks("WRITE", f"topic {partition.topic}", "copying to it")

    def close(self) -> None:
        """Close all queues for new appends; their remaining appends wait for the next transaction."""
        for queue in self._inside.values():
            queue.close()
            if queue.ready:
                self._wanted[queue] = None

    def exclude_late(self) -> None:
        """Keep the late queues out of transactions for a while: the transaction is aborted because of them."""
        for queue in self.late:
            self._exclude(queue, self._backoffs.setdefault(queue, LATE_PARTITION.backoff()).count_failure())

    def _exclude(self, queue: AppendQueue, for_s: float) -> None:
        self._excluded[queue] = self._now() + for_s
        self._appender.refresh()

    def end_transaction(self) -> None:
        """The transaction was committed."""
        for queue in self._inside.values():
            self._backoffs.pop(queue, None)
        self._end()

    def clear(self) -> None:
        """The transaction was aborted; its queues are cleared, so all waits are over."""
        self._end()
        self._wanted.clear()

    def _end(self) -> None:
        self._inside.clear()
        self._entering = {}

    def forget_queue(self, queue: AppendQueue) -> None:
        """The copier has released its partition."""
        self._wanted.pop(queue, None)
        self._excluded.pop(queue, None)
        self._backoffs.pop(queue, None)
        self._inside.pop(queue.partition, None)

    def _open(self, queue: AppendQueue) -> None:
        queue.open()
        self._appender.offer_queue(queue)


PATIENCE_S = 10.0
"""A transaction is aborted if its appends are still unacknowledged this long after it closed, because it delays
readers."""


class AbortedError(ClusterError):
    """This transaction can no longer be committed."""


class TransactionPositions:
    """The positions topic, and the partitions of it that take part in the open transaction.

    `broken(error)` is called with the error that ends the transaction, `wake` is set when the topic answers.
    """

    def __init__(
        self,
        client: ClusterClient,
        settings: FlowSettings,
        appender: TargetAppender,
        holder: TransactionalId,
        wake: Signal,
        broken: Callable[[TwinlogError], None],
    ) -> None:
        self._client = client
        self._holder = holder
        self._wake = wake
        self._broken = broken
        self._log = PositionLog(client, settings, appender.offer_queue, appender.refresh, self._answered)
        self._inside: set[TopicPartition] = set()

    def __bool__(self) -> bool:
        """Whether any partition takes part."""
        return bool(self._inside)

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions that take part."""
        return self._inside

    @property
    def topic(self) -> TopicName:
        return self._log.topic

    @property
    def queues(self) -> Iterable[AppendQueue]:
        return self._log.queues

    async def store_positions(self, positions: Mapping[TopicPartition, Position], check: Callable[[], None]) -> None:
        """Append positions as a part of the open transaction, and wait until they are acknowledged.

        Raises RefusedError without the right to, ClusterError when the transaction must be aborted; `check()` raises
        the error that prevents the commit.
        """
        loop = self._client.loop
        batches = await self._holder.retry(lambda: self._log.encode(positions))
        fresh = [partition for partition in batches if partition not in self._inside]
        while fresh:
            refused = await self._holder.add(fresh)
            if not refused:
                break
            if any(error_codes.refused(code) for code in refused.values()):
                raise self._client.lacks("WRITE", f"topic {self.topic}", "storing positions")
            await loop.sleep(TRANSACTION_STEP.first_s)
            check()
        self._inside.update(fresh)
        self._log.send(batches)
        deadline = loop.clock.monotonic() + PATIENCE_S
        while not self._log.all_acknowledged:
            if loop.clock.monotonic() > deadline:
                raise AbortedError(f"the target does not acknowledge positions in {self.topic}")
            await self._wake.wait(0.1)
            check()

    def end_transaction(self) -> None:
        """The transaction is over."""
        self._inside.clear()

    def clear(self, identity: ProducerIdentity) -> None:
        """The transaction was aborted: drop its appends, and continue as `identity`."""
        self._inside.clear()
        self._log.clear(identity)

    def _answered(self, error: TwinlogError | None) -> None:
        """The log answered: an error, or None for an acknowledged append."""
        if error is not None:
            self._broken(error)
        self._wake.set()
