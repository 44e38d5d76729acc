"""Copies exactly once: appends and positions of a copier go in one transaction after the other (KIP-98, KIP-618).

A transaction takes in the partitions that have something to append, closes after a while, waits until everything sent
is acknowledged, stores the positions and commits. On any trouble it is aborted, and its partitions go on from their
last committed positions under a new producer epoch. A copier whose transactional id was taken over ends.

A coordinator ends a transaction once each of its partitions has the marker, and begins no other one under the same
transactional id before that (Kafka class TransactionMarkerChannelManager).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, Protocol

from twinlog.clock import LONG_AGO
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.partition.routes import Routes
from twinlog.copier.transactions.transaction_partitions import TransactionPartitions
from twinlog.copier.transactions.transaction_positions import PATIENCE_S, AbortedError, TransactionPositions
from twinlog.copier.transactions.transaction_recovery import TransactionRecovery
from twinlog.copier.transactions.transactional_id import TransactionalId
from twinlog.errors import ClusterError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.append_queue import AppendQueue, ProducerIdentity
from twinlog.kafka.producer.appender import TargetAppender
from twinlog.lease.messages import LentId
from twinlog.mirror.offsets.positions import Position
from twinlog.model.topics import listed
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings


class TransactionParticipants(Protocol):
    """Some partitions of the open transaction."""

    @property
    def partitions(self) -> Collection[TopicPartition]: ...


class LeaderlessPartitions:
    """Which partitions of the open transaction, or of the one before it, have no leader, and since when."""

    def __init__(self, client: ClusterClient, *taking_part: TransactionParticipants) -> None:
        self._client = client
        self._taking_part = taking_part
        self._before: set[TopicPartition] = set()
        self._since: dict[TopicPartition, float] = {}

    def ended(self) -> None:
        """The open transaction is decided: its partitions get their markers before the next one begins."""
        self._before = {partition for some in self._taking_part for partition in some.partitions}

    def clear_partitions(self) -> None:
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


LATE_S = 2.0
"""A partition whose appends are not acknowledged so long after the transaction closed is reported: the others wait for
it."""

KEEP_ALIVE_S = 6 * 3600.0
"""Coordinators forget an unused transactional id after `transactional.id.expiration.ms`, 7 days unless set lower."""

MOST_SEQUENCES = 10_000
"""Sequence numbers of partitions that nothing is appended to any more, as of topics that a transform makes each day.
With more of them they begin anew, under another epoch."""


class Transactions:
    """The transactions of one copier; all methods run on the loop's thread.

    `partitions` are those of the copier, read anew each time. `lend()` gives a transactional id with a fresh
    producer epoch. `mark(positions)` stores the maps that end at positions and returns these as they are to be stored.
    `lost(error)` is called when the flow stops, `event(kind, text)` for aborts.
    """

    def __init__(
        self,
        loop: Loop,
        client: ClusterClient,
        settings: FlowSettings,
        partitions: Mapping[TopicPartition, PartitionCopy],
        appender: TargetAppender,
        *,
        lend: Callable[[], Coroutine[Any, Any, LentId]],
        mark: Callable[[Mapping[TopicPartition, Position]], Coroutine[Any, Any, dict[TopicPartition, Position]]],
        lost: Callable[[TwinlogError], None],
        event: Callable[[str, str], None],
        routes: Routes,
    ) -> None:
        self.trouble: str | None = None
        """What keeps the transaction from going on."""
        self.ended = False
        self._loop = loop
        self._now = loop.clock.monotonic
        self._settings = settings
        self._partitions = partitions
        self._mark = mark
        self._lost = lost
        self._routes = routes
        self._sequences: dict[TopicPartition, int] = {}
        routes.in_transactions(lambda why: self._break(AbortedError(why)), self._sequences)
        self._wake = loop.signal()
        # The target must not abort a transaction that only waits to be due.
        timeout_ms = settings.producer.transaction_timeout_ms
        self._interval_s = min(settings.transaction_interval_ms, timeout_ms / 2) / 1000
        self._holder = TransactionalId(
            client, settings, appender, lend=lend, failed=self._not_answered, ended=lambda: self.ended
        )
        self._stored: dict[TopicPartition, Position] = {}
        self._in_transaction = TransactionPartitions(client, appender, self._wake.set)
        self._positions = TransactionPositions(client, settings, appender, self._holder, self._wake, self._break)
        self._leaderless = LeaderlessPartitions(client, self._in_transaction, self._positions)
        self._commit_wanted = False
        self._recovery = TransactionRecovery(
            *(client, settings, partitions, self._holder, self._in_transaction, self._positions, routes, self._wake),
            event=event,
            ended=lambda: self.ended,
        )
        self._broken: TwinlogError | None = None
        self._opened_at = LONG_AGO
        self._ended_at = self._now()

    async def start(self) -> None:
        """Become a writer; raises RefusedError without the rights, ClusterError while the cluster does not answer."""
        await self._holder.take_up()
        self._start_over()
        self._loop.start(self._run)

    def stop(self) -> None:
        """Send nothing more; an open transaction stays open until it is fenced or times out."""
        self.ended = True
        self._wake.set()

    @property
    def topics(self) -> set[TopicName]:
        """Topics of our own whose leaders must be known."""
        return {self._positions.topic}

    @property
    def identity(self) -> ProducerIdentity:
        """Who appends now."""
        return self._holder.identity

    def sequence(self, remote: TopicPartition) -> int:
        """Where the sequence numbers of a partition go on that was copied here before."""
        return self._sequences.get(remote, 0)

    def offer_queue(self, queue: AppendQueue) -> None:
        """A queue may have something to send: now if it takes part in the open transaction, else with the next one."""
        self._in_transaction.offer_queue(queue)

    def notify_progress(self) -> None:
        """Something was acknowledged or passed over."""
        self._wake.set()

    def abort(self, part: PartitionCopy) -> None:
        """The target lost the state of this producer, or the open transaction: abort it."""
        self._recovery.add_suspect(part)
        self._break(AbortedError(f"{part.remote}: {part.trouble}"))

    def abort_without(self, part: PartitionCopy) -> None:
        """A partition has failed, and what it appended is unknown: abort the open transaction. The target has lost
        nothing that was committed, and is not asked."""
        self._break(AbortedError(f"{part.remote}: {part.trouble}"))

    async def commit(self, parts: Iterable[PartitionCopy], timeout_s: float) -> bool:
        """Commit what partitions that are leaving have appended, their positions too; False when time is over."""
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
        """Whether everything of a partition is committed, and no marker will come that ends a transaction with it.

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
        # A partition that takes part gets a marker, even if nothing of it was sent in time.
        return {
            part.source: part
            for part in self._partitions.values()
            if part.queue.all_acknowledged
            and part.misplaced is None
            and (part.remote in self._in_transaction or self._stored.get(part.source) != part.acknowledged)
        }

    async def _transaction(self) -> None:
        """One transaction from its first partition to its commit."""
        self._check()
        self._opened_at = self._now()
        if self._opened_at - self._ended_at > KEEP_ALIVE_S or len(self._sequences) > MOST_SEQUENCES:
            await self._holder.renew_epoch()
            self._start_over()
        if self._in_transaction.waiting:
            await self._admit()
        # Counted from here: were the coordinator slow, a transaction would else be over before anything is sent.
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
            # Copies in a transaction need their position in it, even where the map is not known.
            positions |= await self._holder.retry(lambda: self._mark(positions))
            await self._positions.store_positions(positions, self._check)
        self._check()
        # From here on the coordinator decides whether it is committed.
        if (self._in_transaction or self._positions) and not await self._holder.end(commit=True):
            raise AbortedError("the coordinator no longer knows the transaction")
        self._leaderless.ended()
        self._in_transaction.end_transaction()
        self._positions.end_transaction()
        for source, position in positions.items():
            self._stored[source] = position
            # A partition that went back meanwhile, as the target lost records, keeps its earlier position.
            if changed[source].committed is before[source]:
                changed[source].commit(position)
        self._ended_at = self._now()
        self._routes.resume_sending()

    async def _finish_units(self) -> None:
        """Wait until no unit is half way: what a transform routed is in one transaction with the rest of its fetch."""
        self._routes.pause_sending()
        closed_at = self._now()
        while unfinished := self._routes.unfinished:
            if self._in_transaction.waiting:
                await self._admit()
                continue
            if self._now() - closed_at > PATIENCE_S:
                names = listed(str(unit.owner.source) for unit in unfinished)
                raise AbortedError(f"the target did not take what was routed of {names}")
            await self._wake.wait(0.1)
            self._check()

    def _full(self, until: float) -> bool:
        """Whether the open transaction takes no more in."""
        now = self._now()
        if now >= until or self._commit_wanted:
            return True
        if self._settings.transaction_boundary == "interval" or self._in_transaction.waiting:
            return False
        return self._in_transaction.idle

    async def _admit(self) -> None:
        """Let the partitions that wait take part."""
        fresh = self._in_transaction.take_waiting()
        if not fresh:
            return
        refused = await self._holder.add(fresh)
        if refused:
            self.trouble = self._in_transaction.left_outside(refused)
        else:
            self._in_transaction.open_queues()

    async def _await_acknowledgements(self) -> None:
        """Send nothing new and wait until everything sent is acknowledged."""
        self._in_transaction.close()
        closed_at = self._now()
        while late := self._in_transaction.late:
            waited_s = self._now() - closed_at
            # A queue stays stopped only when its partition has failed.
            failed = waited_s > PATIENCE_S or any(queue.stopped for queue in late)
            if failed or waited_s > LATE_S:
                names = listed(str(queue.partition) for queue in late) + self._leaderless.named()
                self.trouble = f"target: the open transaction waits for {names}"
            if failed:
                for queue in late:
                    self._in_transaction.exclude_queue(queue)
                raise AbortedError(f"the target did not take what was appended to {names}")
            await self._wake.wait(0.1)
            self._check()

    def _break(self, error: TwinlogError) -> None:
        if self._broken is None:
            self._broken = error
        self._wake.set()

    def _check(self) -> None:
        """Raise the error that keeps the open transaction from being committed."""
        if self._broken is not None:
            raise self._broken
        if self.ended:
            raise AbortedError("the copier ends")

    def _not_answered(self, error: ClusterError) -> None:
        self.trouble = f"{error}{self._leaderless.named()}"

    async def _recover(self, error: TwinlogError) -> None:
        """Abort the open transaction, and copy again what was in it."""
        while not self.ended:
            try:
                last = await self._recovery.recover_transaction(error, self._opened_at)
            except TwinlogError as another:
                # By its traceback it would hold this frame, and so itself.
                error = another.with_traceback(None)
                continue
            if last is None:
                self._start_over()
            else:
                self.ended = True
                self._lost(last)
            return

    def _start_over(self) -> None:
        """Every partition goes on from its committed position, under a new epoch with sequence numbers from 0 on."""
        self._broken = None
        self._in_transaction.clear()
        self._recovery.clear()
        self._sequences.clear()
        self._leaderless.clear_partitions()
        self._positions.clear(self.identity)
        self._routes.clear(self.identity)
        for part in self._partitions.values():
            part.abort(self.identity)
        self._ended_at = self._now()
