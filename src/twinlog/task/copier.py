"""Copies the partitions it was granted: the heart of a task, on one event loop.

A copier outlives the lease that started it by a few seconds, so that the next lease can take it over without a pause;
it ends at once when its driver is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from twinlog.errors import ClusterError, EngineLostError, RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.transactions import TransactionCoordinator
from twinlog.kafka.fetch_session import Fetched
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.net.run_in_thread import run_in_thread
from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.lease.grant import Grant
from twinlog.lease.messages import LentId
from twinlog.log_once import AGAIN_S, LogOnce
from twinlog.model.call import Call, Loading
from twinlog.model.internal_topics import HEARTBEATS
from twinlog.model.types import TargetOffset, TopicName, TopicPartition
from twinlog.offsets.positions import Position
from twinlog.read.reader import SourceReader
from twinlog.settings.flow import FlowSettings
from twinlog.settings.transform import TransformSettings
from twinlog.task.beginning import PATIENCE_S, Beginning
from twinlog.task.foreign_records import ForeignOffsets
from twinlog.task.gap_check import GapCheck
from twinlog.task.hooks import Hooks
from twinlog.task.max_message_bytes import MaxMessageBytes
from twinlog.task.memory import CopierMemory
from twinlog.task.offset_committer import OffsetCommitter
from twinlog.task.partition import PartitionCopy
from twinlog.task.producer_ids import ProducerIds
from twinlog.task.recovery import Recovery
from twinlog.task.routes import Routes
from twinlog.task.start_position import StartPosition, StartPositions
from twinlog.task.tally import Tally
from twinlog.task.transactions import Transactions
from twinlog.task.troubles import Troubles
from twinlog.write.appender import TargetAppender
from twinlog.write.appends import CopyRules, Prepare
from twinlog.write.prepare import prepare
from twinlog.write.queue import AppendQueue, ProducerIdentity

if TYPE_CHECKING:
    from twinlog.transform.copying import Transforming

T = TypeVar("T")

log = logging.getLogger(__name__)

RETRY_S = 0.2
DRAIN_S = 2.0
"""How long a release waits for appends in flight; a target that answers later than this leaves the position unclean."""

NO_LIMIT_MS = 2**31 - 1
"""Connect's own `delivery.timeout.ms`: batches are tried for ever."""

MIN_REQUEST_BYTES = 8 << 20
"""A produce request carries many partitions' batches, so it may be larger than a Java producer's `max.request.size`."""


IN_FLIGHT_SHARE = 4
"""What part of the budget of memory may be on its way to all brokers of the target, beside one request for each."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A copier calls `failed` once per error that stops the flow, and `event(kind, text)` for what operators should
    see."""

    failed: Callable[[TopicPartition | None, TwinlogError], None]
    event: Callable[[str, str], None]


class Copier:
    """Everything one task copies for one flow; all methods run on the loop's thread.

    `allowed()` is asked before each append: it is False once the driver may have given the partitions to another task.
    `lend()` gives a transactional id when the flow copies exactly once; without it the copier takes that of task 0.
    """

    def __init__(
        self,
        loop: Loop,
        settings: FlowSettings,
        listener: Listener,
        allowed: Callable[[], bool] = lambda: True,
        lend: Callable[[], Coroutine[Any, Any, LentId]] | None = None,
    ) -> None:
        self.loop = loop
        self.settings = settings
        self.partitions: dict[TopicPartition, PartitionCopy] = {}
        self.source = ClusterClient(loop, settings.source, settings.consumer.client)
        self.target = ClusterClient(loop, settings.target, settings.producer.client)
        self.target.append_only_while(allowed)
        self.stopped = False
        self.undrained: set[TopicPartition] = set()
        """Released partitions whose last appends the target did not answer in time: they may still arrive."""
        self.tally = Tally()
        self._listener = listener
        self._producer_ids = ProducerIds(lambda: self.retry(self.target.init_producer))
        self._moved = loop.signal()
        loop.crashed = self._crashed
        producer = settings.producer
        self._rules = CopyRules.of(settings)
        self.memory = CopierMemory(
            settings.copier_memory_bytes, self.source.frames, self.partitions, loop.clock.monotonic
        )
        self._reader = SourceReader(
            loop,
            self.source,
            settings.consumer,
            self.partitions,
            self.memory,
            self._deliver,
            self._lost,
            producer.linger_ms,
        )
        self._appender = TargetAppender(
            loop,
            self.target,
            max_in_flight=producer.max_in_flight,
            max_request_bytes=max(producer.max_request_size, MIN_REQUEST_BYTES),
            max_in_flight_bytes=settings.copier_memory_bytes // IN_FLIGHT_SHARE,
            request_timeout_s=producer.client.request_timeout_ms / 1000,
            allowed=allowed,
            lost=self._lost,
        )
        self._transforming: Transforming | None = None
        """Set when the flow changes records."""
        self._loading: Loading | None = None
        self._start_positions = StartPositions(
            self.source, self.target, settings, self._rules, listener.event, self._prepare_for
        )
        self._limits = MaxMessageBytes(loop, self.source, self.target, settings, listener.event)
        self._foreign = ForeignOffsets(listener.event, loop.clock.monotonic)
        self._committer = OffsetCommitter(
            loop,
            self.source,
            self.target,
            settings,
            self.partitions,
            lost=self._lost,
            event=listener.event,
            tally=self.tally,
        )
        self._recovery = Recovery(
            loop,
            settings,
            GapCheck(self.source, settings, listener.event),
            self._start_positions,
            self._producer_ids.after,
            store=self._committer.now,
            refresh_source=self._reader.refresh,
            moved=self._moved,
            held=lambda part: not self.stopped and self.partitions.get(part.source) is part,
        )
        self._by_remote: dict[TopicPartition, PartitionCopy] = {}
        self._routes = Routes(
            loop,
            self.source,
            self.target,
            settings,
            self._by_remote,
            placing=self._placing,
            offer=self._offer,
            leaderless=self._appender.refresh,
            keep=self.memory.keep,
            event=listener.event,
        )
        self.transactions: Transactions | None = None
        """Set when the flow copies exactly once."""
        if settings.exactly_once == "enabled":
            self.transactions = Transactions(
                loop,
                self.target,
                settings,
                self.partitions,
                self._appender,
                lend=lend or self._own_id,
                mark=self._committer.store_maps,
                lost=self._lost,
                event=listener.event,
                routes=self._routes,
            )
        self.troubles = Troubles(
            *(self.source, self.target, self._reader),
            transaction=lambda: None if self.transactions is None else self.transactions.trouble,
        )
        self._beginning = Beginning(
            loop,
            settings,
            self._start_positions,
            refresh=lambda accepted: self.retry(lambda: self._start_positions.refresh(accepted)),
            store=self._store_first,
            begun=self._begin_all,
            failed=listener.failed,
            event=listener.event,
            stopped=lambda: self.stopped,
        )
        self._hooks: Hooks[PartitionCopy] = Hooks(
            keep=self.memory.keep,
            offer=self._offer,
            more=self._reader.resume,
            moved=self._has_moved,
            far_target=lambda: self.target.far,
            leaderless=self._appender.refresh,
            pause=lambda part, refusals: loop.start(self._recovery.pause, part, refusals),
            check=lambda part, end: loop.start(self._recovery.check, part, end),
            resolve=self._resolve_again,
            lost=lambda part: loop.start(self._recovery.copy_again, part),
            limit=lambda part: loop.start(self._limits.look, part),
            failed=listener.failed,
            foreign=self._seen_foreign,
            event=listener.event,
            source_lacks=self.source.lacks,
            target_lacks=self.target.lacks,
            tally=self.tally,
            route=self._routes.route,
            unready=lambda part: loop.start(self._await_transform, part),
        )
        self._logged = LogOnce(loop.clock)

    async def start(self) -> None:
        """Reach both clusters, for as long as it takes, and begin. Raises RefusedError when one refuses for good,
        TransformError where the flow's transform is not found here, and EngineError where SQL finds no Spark."""
        if self.settings.transform is not None:
            self._transforming = self._load(self.settings.transform)
        # At the same time: the far cluster does not wait for the other.
        target = self.loop.spawn(self._reach_target)
        transforming = self.loop.spawn(self._start_transform)
        await self.retry(self.source.connect)
        await target
        await transforming
        self._reader.start()
        self._appender.start(self._wanted)
        if self.settings.producer.delivery_timeout_ms < NO_LIMIT_MS:
            self.loop.start(self._keep_deadlines)
        self._committer.start(positions=self.transactions is None)
        self.loop.start(self._foreign.keep_counting, self.loop, lambda: self.stopped)

    def _load(self, settings: TransformSettings) -> Transforming:
        # The user's modules may take longer than silence may last.
        self._loading = Loading(self.loop.clock.monotonic(), settings.shown)
        try:
            from twinlog.transform.copying import Transforming  # noqa: PLC0415 - who copies unchanged needs no numpy

            return Transforming(self.settings, settings, self._partitions_of, self.loop.clock.monotonic)
        finally:
            self._loading = None

    async def _reach_target(self) -> None:
        await self.retry(self.target.connect)
        if self.transactions is None:
            await self._producer_ids.renew()
        else:
            await self.retry(self.transactions.start)

    async def _start_transform(self) -> None:
        transforming = self._transforming
        while transforming is not None and transforming.trouble is not None:
            try:
                await run_in_thread(self.loop.net, transforming.start)
            except EngineLostError as error:
                if self.stopped:
                    return
                if self._logged.lasts("transform", PATIENCE_S):
                    self._listener.event("waiting", f"nothing is copied yet, and it is tried again: {error}")
                await self.loop.sleep(RETRY_S)

    async def _await_transform(self, part: PartitionCopy) -> None:
        """What evaluates the transform was lost: go on with the same records once there is another one."""
        transforming = self._placing()
        if self._logged.is_new(f"transform: {part.trouble}", AGAIN_S):
            self._listener.event("transform", f"{part.source}: {part.trouble}; no record is skipped for it")
        while not self.stopped and not part.left and (trouble := transforming.trouble) is not None:
            # Appends that are still answered would clear it.
            part.hinder(f"transform: {trouble}")
            await self.loop.sleep(RETRY_S)
        part.resume()

    def _prepare_for(self, grant: Grant) -> Prepare | None:
        # Heartbeats are no records of the user's.
        name = grant.source.topic
        if self._transforming is None or name == HEARTBEATS or name.endswith(f".{HEARTBEATS}"):
            return None
        return self._transforming.road(grant.source, grant.remote)

    @property
    def call(self) -> Call | Loading | None:
        """What the flow's transform works on, or its import; may be read from any thread."""
        return self._loading if self._transforming is None else self._transforming.call

    def _placing(self) -> Transforming:
        assert self._transforming is not None
        return self._transforming

    def _partitions_of(self, topic: TopicName) -> int | None:
        known = self.target.topic(topic)
        return known.partitions if known is not None and known.partitions else None

    def _offer(self, queue: AppendQueue) -> None:
        if self.transactions is None:
            self._appender.offer(queue)
        else:
            self.transactions.offer(queue)

    def _seen_foreign(self, remote: TopicPartition, first: TargetOffset, end: TargetOffset) -> None:
        # A transform that routes records to other partitions of a remote topic does so in other copiers, too.
        if remote.topic not in self._routes.topics:
            self._foreign.seen(remote, first, end)

    def _wanted(self) -> set[TopicName]:
        """Topics of the target whose leaders must be known."""
        own = set() if self.transactions is None else self.transactions.topics
        own |= self._routes.topics
        return own | {part.remote.topic for part in self.partitions.values()}

    async def _own_id(self) -> LentId:
        name = self.settings.transactional_id(0)
        coordinator = TransactionCoordinator(self.target, name, self.settings.producer.transaction_timeout_ms)
        return LentId(name, await coordinator.init())

    def _has_moved(self) -> None:
        self._moved.set()
        if self.transactions is not None:
            self.transactions.moved()

    async def retry(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do `step` until it works; a refusal is passed on, and so is the last fault once the copier was stopped."""
        while True:
            try:
                return await step()
            except RefusedError:
                raise
            except ClusterError:
                if self.stopped:
                    raise
                await self.loop.sleep(RETRY_S)

    async def grant(self, grants: Iterable[Grant]) -> None:
        """`accept` and `begin` in one."""
        await self.begin(self.accept(grants))

    def accept(self, grants: Iterable[Grant]) -> list[Grant]:
        """Take partitions on, at once, so that a release that comes before they begin finds them; for `begin`."""
        accepted = self._beginning.accept(grant for grant in grants if grant.source not in self.partitions)
        self._start_positions.forget(grant.remote for grant in accepted)
        return accepted

    async def begin(self, accepted: Sequence[Grant]) -> None:
        """Begin to copy partitions, each from its position or, after a crash, from behind what already arrived.

        Partitions whose clusters do not answer yet are tried again until they are released.
        """
        await self._beginning.begin(accepted)

    @property
    def granted(self) -> list[TopicPartition]:
        """What this copier holds, copied already or waiting for a cluster."""
        return [*self.partitions, *self._beginning.waiting]

    @property
    def held_back(self) -> dict[TopicPartition, tuple[Grant, str]]:
        """What of it cannot begin for some time now, and why."""
        return self._beginning.held_back

    async def _store_first(
        self, found: Mapping[Grant, Position], resolved: StartPosition
    ) -> dict[TopicPartition, Position]:
        """Store where partitions begin and who appends to them; returns that as it was stored. Raises ClusterError."""
        await self._producer_ids.prepare()
        # Transactions fence late appends by themselves.
        fenced = self.transactions is not None
        writers = {
            grant: None if fenced else self._producer_ids.writer(grant.remote, position)
            for grant, position in found.items()
        }
        positions = {grant.source: replace(found[grant], writer=writer) for grant, writer in writers.items()}
        for grant in found:
            self._committer.begin(grant, positions[grant.source], resolved.runs.get(grant.source, ()))
        return positions if self.transactions is not None else await self._committer.first(positions)

    def _begin_all(self, stored: Mapping[Grant, Position]) -> None:
        for grant, position in stored.items():
            self._begin(grant, position)
        self._reader.wake()

    def _begin(self, grant: Grant, position: Position) -> None:
        if self.transactions is not None:
            identity, sequence = self.transactions.identity, self.transactions.sequence(grant.remote)
        else:
            assert position.writer is not None
            identity = ProducerIdentity(position.writer.producer_id, position.writer.epoch)
            sequence = position.writer.sequence
        copy = PartitionCopy(
            grant,
            position,
            self._rules,
            identity,
            producer=self.settings.producer,
            hooks=self._hooks,
            clock=self.loop.clock,
            sequence=sequence,
            prepare=self._prepare_for(grant) or prepare,
            queue=self._routes.hand_over(grant.remote),
        )
        inherited = grant.position is not None and grant.position.writer is not None
        if inherited and not grant.drained and self.transactions is None:
            copy.expect_late_appends(position)
        self.partitions[grant.source] = copy
        self._by_remote[grant.remote] = copy

    async def release(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Stop copying partitions, wait for what is in flight, store their positions and return them.

        Partitions that were granted but did not begin yet never will; they have no position.
        """
        partitions = list(partitions)
        for partition in partitions:
            withdrawn = self._beginning.withdraw(partition)
            if withdrawn is not None:
                self._committer.forget(partition)
                self._start_positions.forget([withdrawn.remote])
                # Nobody has waited for appends of its last copier. Transactions fence them by themselves.
                if not withdrawn.drained and self.transactions is None:
                    self.undrained.add(partition)
        leaving = [self.partitions[part] for part in partitions if part in self.partitions]
        for part in leaving:
            part.leave()
        drained = await (self._drain(leaving) if self.transactions is None else self._commit(leaving))
        await self._committer.flush_syncs(leaving)
        self._start_positions.forget(part.remote for part in leaving)
        for part in leaving:
            self._committer.forget(part.source)
            if part.source in drained:
                self.undrained.discard(part.source)
            else:
                self.undrained.add(part.source)
            part.close()
            self.partitions.pop(part.source, None)
            if self._by_remote.get(part.remote) is part:
                del self._by_remote[part.remote]
            if self.transactions is None:
                self._producer_ids.leave(part.remote, part.queue.identity)
            else:
                self.transactions.forget(part)
        self._reader.wake()
        if not self.partitions:
            self._foreign.report()
        return {part.source: part.durable for part in leaving}

    async def _drain(self, leaving: Sequence[PartitionCopy]) -> set[TopicPartition]:
        """Wait for appends in flight and store positions; returns those with no append in flight from any copier."""
        deadline = self.loop.clock.monotonic() + DRAIN_S
        while any(not part.arrived for part in leaving) and self.loop.clock.monotonic() < deadline:
            await self._moved.wait(0.02)
        await self._committer.close(leaving)
        return {part.source for part in leaving if part.arrived and not part.queue.late.expected}

    async def _commit(self, leaving: Sequence[PartitionCopy]) -> set[TopicPartition]:
        """Commit what partitions have in the open transaction; all of them, or none when the target does not answer."""
        assert self.transactions is not None
        if await self.transactions.commit(leaving, DRAIN_S):
            with suppress(ClusterError):
                await self._committer.close_committed(leaving)
            return {part.source for part in leaving if part.misplaced is None}
        self._listener.event("transaction", "the last transaction was not committed in time; it will be aborted")
        return set()

    def report_event(self, kind: str, text: str) -> None:
        """Report something that an operator should see."""
        self._listener.event(kind, text)

    def stop(self) -> None:
        """Stop at once: nothing more is sent. What is in flight counts as unknown."""
        self.stopped = True
        for part in self.partitions.values():
            part.leave()
            part.close()
        self._reader.stop()
        self._appender.stop()
        self._routes.stop()
        if self._transforming is not None:
            self._transforming.close()
        self._committer.stop()
        if self.transactions is not None:
            self.transactions.stop()
        self._moved.set()
        self.source.close()
        self.target.close()

    async def _keep_deadlines(self) -> None:
        while not self.stopped:
            await self.loop.sleep(min(1.0, self.settings.producer.delivery_timeout_ms / 10_000))
            now = self.loop.clock.monotonic()
            for part in list(self.partitions.values()):
                part.check_overdue(now)
            self._routes.check_overdue(now)

    def _deliver(self, asked: FetchPosition, fetched: Fetched) -> None:
        part = self.partitions.get(fetched.partition)
        if part is not None:
            part.deliver(asked, fetched.answer)

    def _lost(self, error: TwinlogError) -> None:
        if not self.stopped:
            self._listener.failed(None, error)

    def _crashed(self, error: BaseException) -> None:
        if isinstance(error, TwinlogError):
            self._lost(error)
        elif not self.stopped:
            log.error("copier of %s crashed", self.settings.name, exc_info=error)
            self._listener.failed(None, TwinlogError(f"internal error: {error!r}"))

    def _resolve_again(self, part: PartitionCopy) -> None:
        if self.transactions is None:
            self.loop.start(self._recovery.resolve_again, part)
        else:
            self.transactions.abort(part)
