"""Copies exactly once: appends and positions of a copier go in successive transactions (KIP-98, KIP-618).

A transaction takes in the partitions that have appends, and closes after a while. Then it waits until all sent appends
are acknowledged, stores the positions and commits. On any trouble the transaction is aborted, and its partitions
continue from their last committed positions under a new producer epoch. A copier whose transactional id was taken over
ends.

A coordinator ends a transaction once each of its partitions has the marker. Only then it begins the next transaction
under the same transactional id (Kafka class TransactionMarkerChannelManager).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Protocol

from twinlog.clock import LONG_AGO
from twinlog.copier.offset_committer import OffsetCommitter
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.partition.routes import Routes
from twinlog.copier.producers import DRAIN_S
from twinlog.copier.transactions.open_transaction import (
    PATIENCE_S,
    AbortedError,
    TransactionalId,
    TransactionPartitions,
    TransactionPositions,
)
from twinlog.copier.transactions.transaction_recovery import TransactionRecovery
from twinlog.errors import ClusterError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.transactions import TransactionCoordinator
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appender import TargetAppender
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.lease.messages import Grant, LentId
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.topics import listed
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings


class TransactionParticipants(Protocol):
    """Some partitions of the open transaction."""

    @property
    def partitions(self) -> Collection[TopicPartition]: ...


class UnwritablePartitions:
    """The partitions that hold up the open transaction, or the end of the transaction before it.

    Each of them lacks a leader, with the time since which the leader is missing, or has too few replicas in sync for
    appends and markers. `queues()` are all queues of the copier.
    """

    def __init__(
        self,
        client: ClusterClient,
        queues: Callable[[], Iterable[AppendQueue]],
        *taking_part: TransactionParticipants,
    ) -> None:
        self._client = client
        self._queues = queues
        self._taking_part = taking_part
        self._before: set[TopicPartition] = set()
        self._since: dict[TopicPartition, float] = {}

    def ended(self) -> None:
        """The open transaction is decided: its partitions get their markers before the next transaction begins."""
        self._before = {partition for some in self._taking_part for partition in some.partitions}

    def clear_partitions(self) -> None:
        """Every marker is written."""
        self._before.clear()

    def named(self) -> str:
        """The end of a sentence for messages; empty while all partitions take appends, as far as is known."""
        now = self._client.loop.clock.monotonic()
        concerned = self._before.union(*(some.partitions for some in self._taking_part))
        lost = [partition for partition in concerned if self._client.leader(partition) is None]
        self._since = {partition: self._since.get(partition, now) for partition in lost}
        text = ""
        if lost:
            seconds = now - min(self._since.values())
            text = f"; without a leader for {seconds:.0f} s: {listed(map(str, lost))}"
        short = {queue.partition for queue in self._queues() if queue.few_replicas} & concerned - set(lost)
        if short:
            text += f"; with too few replicas in sync: {listed(map(str, short))}"
        return text


LATE_S = 2.0
"""A partition is reported if its appends are still unacknowledged this long after the transaction closed: all other
partitions wait for it."""

KEEP_ALIVE_S = 6 * 3600.0
"""Coordinators forget an unused transactional id after `transactional.id.expiration.ms`, 7 days unless set lower."""

MOST_SEQUENCES = 10_000
"""The most partitions with stored sequence numbers. They include partitions that get no further appends, as of topics
that a transform makes each day. Above this number all sequence numbers begin again at 0, under another epoch."""


class Transactions:
    """The transactions of a copier; all methods run on the loop's thread.

    `partitions` are the copier's partitions, read again each time. `lend()` gives a transactional id with a fresh
    producer epoch.
    """

    def __init__(
        self,
        context: CopierContext,
        partitions: Mapping[TopicPartition, PartitionCopy],
        appender: TargetAppender,
        in_transaction: TransactionPartitions,
        committer: OffsetCommitter,
        routes: Routes,
        lend: Callable[[], Coroutine[Any, Any, LentId]],
    ) -> None:
        client, settings = context.target, context.settings
        self.trouble: str | None = None
        """The trouble of the open transaction, or None."""
        self.ended = False
        self._context = context
        self._loop = context.loop
        self._now = context.loop.clock.monotonic
        self._settings = settings
        self._partitions = partitions
        self._committer = committer
        self._routes = routes
        self._sequences: dict[TopicPartition, int] = {}
        routes.in_transactions(lambda why: self._break(AbortedError(why)), self._sequences)
        self._wake = in_transaction.wake
        context.signal_progress_to(self._wake)
        # The interval is shorter than the timeout, because the target must not abort a transaction that waits for its
        # commit.
        timeout_ms = settings.producer.transaction_timeout_ms
        self._interval_s = min(settings.transaction_interval_ms, timeout_ms / 2) / 1000
        self._holder = TransactionalId(
            client, settings, appender, lend=lend, failed=self._not_answered, ended=lambda: self.ended
        )
        self._stored: dict[TopicPartition, Position] = {}
        self._in_transaction = in_transaction
        self._positions = TransactionPositions(client, settings, appender, self._holder, self._wake, self._break)
        self._unwritable = UnwritablePartitions(client, self._all_queues, self._in_transaction, self._positions)
        self._commit_wanted = False
        self._recovery = TransactionRecovery(
            *(context, partitions, self._holder, self._in_transaction, self._positions, self._all_queues),
            ended=lambda: self.ended,
        )
        self._broken: TwinlogError | None = None
        self._opened_at = LONG_AGO
        self._ended_at = self._now()

    async def start(self) -> None:
        """Become a writer; raises RefusedError without the rights, ClusterError while the cluster is silent."""
        await self._holder.take_up()
        self._start_over()
        self._loop.start(self._run)

    def stop(self) -> None:
        """Stop sending; an open transaction stays open until it is fenced or times out."""
        self.ended = True
        self._wake.set()

    @property
    def topics(self) -> set[TopicName]:
        """Topics of the transactions themselves whose leaders must be known."""
        return {self._positions.topic}

    @property
    def identity(self) -> ProducerIdentity:
        """The identity that appends now."""
        return self._holder.identity

    def _all_queues(self) -> list[AppendQueue]:
        own = (part.queue for part in self._partitions.values())
        return [*own, *self._positions.queues, *self._routes.queues]

    def sequence(self, remote: TopicPartition) -> int:
        """The next sequence number of a partition that was copied here before, or 0."""
        return self._sequences.get(remote, 0)

    def abort(self, part: PartitionCopy) -> None:
        """The target lost the state of this producer, or the open transaction: abort the transaction."""
        self._recovery.add_suspect(part)
        self._break(AbortedError(f"{part.remote}: {part.trouble}"))

    def abort_without(self, part: PartitionCopy) -> None:
        """A partition has failed, and the result of its appends is unknown: abort the open transaction.

        The target has all committed records, so recovery skips the look for losses.
        """
        self._break(AbortedError(f"{part.remote}: {part.trouble}"))

    async def commit(self, parts: Iterable[PartitionCopy], timeout_s: float) -> bool:
        """Commit the appends and the positions of leaving partitions; False when time is over."""
        parts = list(parts)
        deadline = self._now() + timeout_s
        while not self.ended:
            if all(self._is_out(part) for part in parts):
                return True
            if self._now() > deadline:
                return False
            self._commit_wanted = True
            self._wake.set()
            await self._loop.sleep(0.005)
        return False

    def _is_out(self, part: PartitionCopy) -> bool:
        """Whether all records of a partition are committed, and all its markers are written.

        Records that the target lost are copied again by the next copier.
        """
        if part.remote in self._in_transaction:
            return False
        return part.misplaced is not None or (part.at_rest and self._stored.get(part.source) == part.acknowledged)

    def forget_partition(self, part: PartitionCopy) -> None:
        """The copier has released a partition."""
        self._sequences[part.remote] = part.queue.next_sequence
        self._stored.pop(part.source, None)
        self._recovery.forget_partition(part)
        self._in_transaction.forget_queue(part.queue)

    async def _run(self) -> None:
        while not self.ended:
            if not self._due():
                await self._wake.wait(self._until_due())
                continue
            try:
                await self._transaction()
                self.trouble = None
            except TwinlogError as error:
                await self._recover(error)

    def _due(self) -> bool:
        if self._broken is not None:
            return True
        if self._in_transaction.waiting:
            return True
        idle_s = self._now() - self._ended_at
        if self._commit_wanted or idle_s >= self._settings.position_interval_ms / 1000:
            if self._changed():
                return True
            self._commit_wanted = False
        return idle_s > KEEP_ALIVE_S

    def _until_due(self) -> float:
        excluded_s = self._in_transaction.excluded_until - self._now()
        return max(0.01, min(self._settings.position_interval_ms / 1000, excluded_s))

    def _changed(self) -> dict[TopicPartition, PartitionCopy]:
        # A partition that takes part gets a marker, even if all its appends came too late.
        return {
            part.source: part
            for part in self._partitions.values()
            if part.queue.all_acknowledged
            and part.misplaced is None
            and (part.remote in self._in_transaction or self._stored.get(part.source) != part.acknowledged)
        }

    async def _transaction(self) -> None:
        """Run a transaction from its first partition to its commit."""
        self._check()
        self._opened_at = self._now()
        if self._opened_at - self._ended_at > KEEP_ALIVE_S or len(self._sequences) > MOST_SEQUENCES:
            await self._holder.renew_epoch()
            self._start_over()
        if self._in_transaction.waiting:
            await self._admit()
        # The interval begins here: with a slow coordinator an earlier begin would end the transaction before its first
        # append.
        until = self._now() + self._interval_s
        while not self._full(until):
            if self._in_transaction.waiting:
                await self._admit()
                continue
            await self._wake.wait(max(0.0, until - self._now()))
            self._check()
        self._commit_wanted = False
        await self._finish_units()
        await self._await_acknowledgements()
        changed = self._changed()
        before = {part.source: part.committed for part in changed.values()}
        positions = {
            part.source: part.copied.transaction_end(marked=part.remote in self._in_transaction)
            for part in changed.values()
        }
        if positions:
            # A transaction with copied records must store their position, even if the map is unknown.
            positions |= await self._holder.retry(lambda: self._committer.store_maps(positions))
            await self._positions.store_positions(positions, self._check)
        self._check()
        # From here on the coordinator decides about the commit.
        if (self._in_transaction or self._positions) and not await self._holder.end(commit=True):
            raise AbortedError("the coordinator no longer knows the transaction")
        self._unwritable.ended()
        self._in_transaction.end_transaction()
        self._positions.end_transaction()
        for source, position in positions.items():
            self._stored[source] = position
            # A partition that went back meanwhile, because the target lost records, keeps its earlier position.
            if changed[source].committed is before[source]:
                changed[source].commit(position)
        self._ended_at = self._now()
        self._routes.resume_sending()

    async def _finish_units(self) -> None:
        """Wait until each unit is complete.

        The routed records of a fetch are in the same transaction as its other records.
        """
        self._routes.pause_sending()
        closed_at = self._now()
        while unfinished := self._routes.unfinished:
            if self._in_transaction.waiting:
                await self._admit()
                continue
            if self._now() - closed_at > PATIENCE_S:
                names = listed(str(unit.owner.source) for unit in unfinished)
                self._routes.exclude_unfinished()
                raise AbortedError(f"the target did not take what was routed of {names}")
            await self._wake.wait(0.1)
            self._check()

    def _full(self, until: float) -> bool:
        """Whether the open transaction is closed for further appends."""
        now = self._now()
        if now >= until or self._commit_wanted:
            return True
        if self._settings.transaction_boundary == "interval" or self._in_transaction.waiting:
            return False
        return self._in_transaction.idle

    async def _admit(self) -> None:
        """Let the waiting partitions take part."""
        fresh = self._in_transaction.take_waiting()
        if not fresh:
            return
        refused = await self._holder.add(fresh)
        if refused:
            self.trouble = self._in_transaction.left_outside(refused)
        else:
            self._in_transaction.open_queues()

    async def _await_acknowledgements(self) -> None:
        """Stop sending new appends and wait until all sent appends are acknowledged."""
        self._in_transaction.close()
        closed_at = self._now()
        while late := self._in_transaction.late:
            waited_s = self._now() - closed_at
            # A queue stays stopped only when its partition has failed.
            failed = waited_s > PATIENCE_S or any(queue.stopped for queue in late)
            if failed or waited_s > LATE_S:
                names = listed(str(queue.partition) for queue in late) + self._unwritable.named()
                self.trouble = f"TW-WAIT-08: target: the open transaction waits for {names}"
            if failed:
                self._in_transaction.exclude_late()
                raise AbortedError(f"the target did not take what was appended to {names}")
            await self._wake.wait(0.1)
            self._check()

    def _break(self, error: TwinlogError) -> None:
        if self._broken is None:
            self._broken = error
        self._wake.set()

    def _check(self) -> None:
        """Raise the error that prevents the commit of the open transaction."""
        if self._broken is not None:
            raise self._broken
        if self.ended:
            raise AbortedError("the copier ends")

    def _not_answered(self, error: TwinlogError) -> None:
        self.trouble = f"{error}{self._unwritable.named()}"

    async def _recover(self, error: TwinlogError) -> None:
        """Abort the open transaction, and copy its records again."""
        while not self.ended:
            try:
                last = await self._recovery.recover_transaction(error, self._opened_at)
            except TwinlogError as another:
                # The traceback would hold this frame, and so the error itself.
                error = another.with_traceback(None)
                continue
            if last is not None:
                self.ended = True
                self._context.report_lost(last)
            elif not self.ended:
                # At the end of the copier appends may be unanswered, which another start would take for its own.
                self._start_over()
            return

    def _start_over(self) -> None:
        """Every partition continues from its committed position, under a new epoch with sequence numbers from 0 on."""
        self._broken = None
        self._in_transaction.clear()
        self._recovery.clear()
        self._sequences.clear()
        self._unwritable.clear_partitions()
        self._positions.clear(self.identity)
        self._routes.clear(self.identity)
        for part in self._partitions.values():
            part.abort(self.identity)
        self._ended_at = self._now()


class TransactionalProducer:
    """Appends in the transactions of a copier."""

    def __init__(self, context: CopierContext, transactions: Transactions, committer: OffsetCommitter) -> None:
        self.start = transactions.start
        self.stop = transactions.stop
        self.resolve_partition = transactions.abort
        self.abort = transactions.abort_without
        self.forget_partition = transactions.forget_partition
        self._transactions = transactions
        self._committer = committer
        self._context = context

    @property
    def topics(self) -> set[TopicName]:
        return self._transactions.topics

    @property
    def trouble(self) -> str | None:
        return self._transactions.trouble

    async def prepare_producer(self) -> None:
        pass

    def writer(self, remote: TopicPartition, position: Position) -> Writer | None:
        return None

    async def store_first(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        return dict(positions)

    def identity(self, remote: TopicPartition, position: Position) -> tuple[ProducerIdentity, int]:
        return self._transactions.identity, self._transactions.sequence(remote)

    def meets_late_appends(self, grant: Grant) -> bool:
        return False

    async def drain_partitions(self, leaving: Sequence[PartitionCopy], *, patient: bool = False) -> set[TopicPartition]:
        """Commit the appends of the partitions; returns the partitions whose committed records the target still has.

        If the commit takes too long, the result is empty, and the transactions end for good.
        """
        if await self._transactions.commit(leaving, inf if patient else DRAIN_S):
            with suppress(ClusterError):
                await self._committer.close_committed(leaving)
            return {part.source for part in leaving if part.misplaced is None}
        # A later commit would lack the positions of the leaving partitions.
        self._transactions.stop()
        self._context.report_event("transaction", "the last transaction was not committed in time; it will be aborted")
        return set()


async def own_id(target: ClusterClient, settings: FlowSettings) -> LentId:
    """The transactional id of task 0, for a copier that runs without a driver."""
    name = settings.transactional_id(0)
    coordinator = TransactionCoordinator(target, name, settings.producer.transaction_timeout_ms)
    return LentId(name, await coordinator.init())
