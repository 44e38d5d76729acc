"""Copies its granted partitions: the main part of a task, on a single event loop.

A copier outlives its first lease by a few seconds, so that the next lease can take the copier over at once. The copier
ends at once when its driver is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from twinlog.batches.prepare import prepare
from twinlog.copier.beginning import PartitionStarter
from twinlog.copier.copier_producer import CopierProducer
from twinlog.copier.copier_transform import CopierTransform
from twinlog.copier.foreign_records import ForeignOffsets
from twinlog.copier.held_partitions import CopierHeldPartitions, DeliveryTimeout, StallReasons
from twinlog.copier.idempotent_producer import IdempotentProducer
from twinlog.copier.listener import CopierListener
from twinlog.copier.max_message_bytes import MaxMessageBytes
from twinlog.copier.memory import CopierMemory
from twinlog.copier.offset_committer import OffsetCommitter
from twinlog.copier.partition.counters import CopierCounters
from twinlog.copier.partition.dead_letters import DeadLetters
from twinlog.copier.partition.hooks import CopierHooks
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.partition.routes import Routes
from twinlog.copier.recovery import Recovery
from twinlog.copier.releasing import PartitionReleaser
from twinlog.copier.start.gap_check import GapCheck
from twinlog.copier.start.logs_at_rest import LogsAtRest
from twinlog.copier.start.producer_ids import ProducerIds
from twinlog.copier.start.start_position import StartPositions
from twinlog.copier.transactions.transactional_producer import TransactionalProducer, own_id
from twinlog.copier.transactions.transactions import Transactions
from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.partition_reader import SourceReader
from twinlog.kafka.fetch_session import Fetched
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appender import TargetAppender
from twinlog.kafka.producer.appends import CopyRules
from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.lease.grant import Grant
from twinlog.lease.messages import LentId
from twinlog.mirror.gaps import UNKNOWN
from twinlog.mirror.offsets.positions import Position
from twinlog.model.call import TransformCall, TransformImport
from twinlog.model.held import reason_of
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

T = TypeVar("T")

log = logging.getLogger(__name__)

RETRY_S = 0.2
LOOK_AT_ROUTES_S = 60.0

MIN_REQUEST_BYTES = 8 << 20
"""A produce request carries many partitions' batches, so the request may be larger than a Java producer's
`max.request.size`."""

IN_FLIGHT_SHARE = 4
"""The share of the memory budget that may be in flight to all brokers of the target, beside a request for each
broker."""


class Copier:
    """Copies the partitions of a task for a flow; all methods run on the loop's thread.

    `allowed()` is asked before each append: it is False once the driver may have given the partitions to another task.
    `lend()` gives a transactional id when the flow copies exactly once; by default the copier takes the id of task 0.
    """

    def __init__(
        self,
        loop: Loop,
        settings: FlowSettings,
        listener: CopierListener,
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
        self.tally = CopierCounters()
        self._listener = listener
        self._moved = loop.signal()
        loop.crashed = self._crashed
        producer = settings.producer
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
        self._transform = CopierTransform(
            loop, self.target, settings, event=listener.event, stopped=lambda: self.stopped
        )
        self._logs_at_rest = LogsAtRest(self.target)
        self._start_positions = StartPositions(
            *(self.source, self.target, settings),
            event=listener.event,
            logs_at_rest=self._logs_at_rest,
            prepare_for=self._transform.make_preparer,
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
        ids = ProducerIds(lambda: self.retry(self.target.init_producer))
        recovery = Recovery(
            loop,
            settings,
            GapCheck(self.source, settings, listener.event),
            self._start_positions,
            ids.continue_identity,
            store=self._committer.store_position,
            refresh_source=self._reader.refresh,
            moved=self._moved,
            held=lambda part: not self.stopped and self.partitions.get(part.source) is part,
        )
        self._dead_letters = DeadLetters(loop, self.target, settings, self.tally, listener.event)
        self._by_remote: dict[TopicPartition, PartitionCopy] = {}
        self._routes = Routes(
            loop,
            self.source,
            self.target,
            settings,
            self._by_remote,
            placing=self._transform.loaded,
            offer=self._offer,
            leaderless=self._appender.refresh,
            keep=self.memory.track_waiting,
            dead_letter=lambda owner, refused: loop.start(self._dead_letters.write, owner, refused),
            event=listener.event,
        )
        self._producer: CopierProducer
        self.transactions: Transactions | None = None
        """Set when the flow copies exactly once."""
        if settings.exactly_once == "enabled":
            self.transactions = Transactions(
                loop,
                self.target,
                settings,
                self.partitions,
                self._appender,
                lend=lend or (lambda: own_id(self.target, settings)),
                mark=self._committer.store_maps,
                lost=self._lost,
                event=listener.event,
                routes=self._routes,
            )
            self._producer = TransactionalProducer(self.transactions, self._committer, listener.event)
        else:
            self._producer = IdempotentProducer(loop, ids, self._appender, self._committer, recovery, self._moved)
        self._delivery_timeout = DeliveryTimeout(
            *(loop, producer.delivery_timeout_ms, self.partitions, self._routes), stopped=lambda: self.stopped
        )
        self.troubles = StallReasons(
            *(self.source, self.target, self._reader),
            transaction=lambda: self._producer.trouble,
        )
        self._beginning = PartitionStarter(
            loop,
            settings,
            self._start_positions,
            refresh=lambda accepted: self.retry(lambda: self._start_positions.refresh(accepted)),
            producer=self._producer,
            committer=self._committer,
            begun=self._begin_all,
            failed=lambda error: listener.failed(None, error),
            refused=self._cannot_begin,
            event=listener.event,
            stopped=lambda: self.stopped,
        )
        self._releasing = PartitionReleaser(
            self.partitions, self._by_remote, self._beginning, self._logs_at_rest, self._producer, self._committer
        )
        self._held = CopierHeldPartitions(loop, settings, self.source, self._releasing, listener)
        self._hooks: CopierHooks[PartitionCopy] = CopierHooks(
            keep=self.memory.track_waiting,
            offer=self._producer.offer_queue,
            more=self._reader.resume,
            moved=self._has_moved,
            far_target=lambda: self.target.far,
            leaderless=self._appender.refresh,
            pause=lambda part, refusals: loop.start(recovery.pause, part, refusals),
            check=lambda part, end: loop.start(recovery.check_source, part, end),
            resolve=self._producer.resolve_partition,
            lost=lambda part: loop.start(recovery.copy_again, part),
            abort=self._producer.abort,
            limit=lambda part: loop.start(self._limits.refresh_limit, part),
            dead_letter=lambda part, refused: loop.start(self._dead_letters.write, part, refused),
            failed=self._partition_failed,
            foreign=self._seen_foreign,
            event=listener.event,
            source_lacks=self.source.lacks,
            target_lacks=self.target.lacks,
            tally=self.tally,
            log_left_out=settings.failed_records.log_errors,
            route=self._routes.append_routed,
            unready=lambda part: loop.start(self._transform.wait, part),
        )

    async def start(self) -> None:
        """Reach both clusters, for as long as it takes, and begin.

        Raises RefusedError when a cluster refuses for good, TransformError if the flow's transform is missing here, and
        EngineError if Spark is missing for SQL.
        """
        self._transform.load()
        # Both clusters are reached at the same time, because each distant cluster costs time.
        target = self.loop.spawn(self._reach_target)
        transforming = self.loop.spawn(self._transform.start)
        await self.retry(self.source.connect)
        await target
        await transforming
        self._reader.start()
        self._appender.start(self._wanted)
        self._delivery_timeout.start()
        if self.settings.transform is not None:
            self.loop.start(self._forget_routes)
        self._committer.start(positions=self.transactions is None)
        self.loop.start(self._foreign.keep_counting, self.loop, lambda: self.stopped)

    async def _reach_target(self) -> None:
        await self.retry(self.target.connect)
        await self.retry(self._producer.start)

    @property
    def call(self) -> TransformCall | TransformImport | None:
        """The records that the flow's transform works on, or its import; may be read from any thread."""
        return self._transform.call

    def _offer(self, queue: AppendQueue) -> None:
        self._producer.offer_queue(queue)

    def _seen_foreign(self, remote: TopicPartition, first: TargetOffset, end: TargetOffset) -> None:
        # A transform that routes records writes to any partition, from other copiers as well. Also, several connectors
        # between two clusters all copy heartbeats.
        owner = self._by_remote.get(remote)
        if remote.topic not in self._routes.topics and not (owner is not None and owner.grant.heartbeats):
            self._foreign.seen(remote, first, end)

    def _wanted(self) -> set[TopicName]:
        """Topics of the target whose leaders must be known."""
        own = self._producer.topics | self._routes.topics
        return own | {part.remote.topic for part in self.partitions.values()}

    def _has_moved(self) -> None:
        self._moved.set()
        self._producer.notify_progress()

    async def retry(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Repeat `step` until it works; raises a refusal at once, and the last fault once the copier is stopped."""
        while True:
            try:
                return await step()
            except RefusedError:
                raise
            except ClusterError:
                if self.stopped:
                    raise
                await self.loop.sleep(RETRY_S)

    async def copy_partitions(self, grants: Iterable[Grant]) -> None:
        """Do `add_grants`, then `begin_partitions`."""
        await self.begin_partitions(self.add_grants(grants))

    def add_grants(self, grants: Iterable[Grant]) -> list[Grant]:
        """Take partitions on at once, for `begin_partitions`, so that an early release finds the partitions."""
        accepted = self._beginning.add_grants(
            grant for grant in grants if grant.source not in self.partitions and grant.source not in self._held.held
        )
        self._logs_at_rest.forget_logs(grant.remote for grant in accepted)
        return accepted

    async def begin_partitions(self, accepted: Sequence[Grant]) -> None:
        """Begin to copy partitions, each from its position or, after a crash, from after its arrived records.

        Partitions whose clusters are still silent are tried again until they are released.
        """
        await self._beginning.begin_partitions(accepted)

    @property
    def granted(self) -> list[TopicPartition]:
        """The partitions of this copier: copied, waiting for a cluster, or held."""
        return [*self.partitions, *self._beginning.waiting, *self._held.held]

    @property
    def held_back(self) -> dict[TopicPartition, tuple[Grant, str, SourceOffset]]:
        """The granted partitions that are stalled now.

        They are held partitions, and partitions that have failed to begin for some time. Each has its grant, the
        reason, and the end of its source partition, -1 while the end is unknown.
        """
        waiting = {source: (grant, why, UNKNOWN) for source, (grant, why) in self._beginning.held_back.items()}
        held = {source: (one.grant, one.held.text, one.end) for source, one in self._held.held.items()}
        return waiting | held

    def _begin_all(self, stored: Mapping[Grant, Position]) -> None:
        for grant, position in stored.items():
            self._begin(grant, position)
        self._reader.wake()

    def _begin(self, grant: Grant, position: Position) -> None:
        identity, sequence = self._producer.identity(grant.remote, position)
        copy = PartitionCopy(
            grant,
            position,
            CopyRules.of(self.settings, grant.source.topic),
            identity,
            producer=self.settings.producer,
            hooks=self._hooks,
            clock=self.loop.clock,
            sequence=sequence,
            prepare=self._transform.make_preparer(grant) or prepare,
            queue=self._routes.hand_over(grant.remote),
        )
        inherited = grant.position is not None and grant.position.writer is not None
        if inherited and self._producer.meets_late_appends(grant):
            copy.expect_late_appends(position)
        self.partitions[grant.source] = copy
        self._by_remote[grant.remote] = copy

    async def release_partitions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Stop copying partitions, wait for appends in flight, store the positions and return them.

        Granted partitions that are still waiting are withdrawn; the result leaves them out.
        """
        partitions = list(partitions)
        await self._held.wait_held(partitions)
        stored = self._held.take_back(partitions) | await self._releasing.release_partitions(partitions)
        self._reader.wake()
        if not self.partitions:
            self._foreign.report()
        return stored

    @property
    def undrained(self) -> set[TopicPartition]:
        """Released partitions whose last appends the target left unanswered in time: they may still arrive."""
        return self._releasing.undrained

    def report_event(self, kind: str, text: str) -> None:
        """Report an event for operators."""
        self._listener.event(kind, text)

    def stop(self) -> None:
        """Stop sending at once. The result of appends in flight stays unknown."""
        self.stopped = True
        for part in self.partitions.values():
            part.stop_reading()
            part.close()
        self._reader.stop()
        self._appender.stop()
        self._routes.stop()
        self._transform.close()
        self._committer.stop()
        self._producer.stop()
        self._moved.set()
        self.source.close()
        self.target.close()

    async def _forget_routes(self) -> None:
        while not self.stopped:
            await self.loop.sleep(LOOK_AT_ROUTES_S)
            self._routes.forget_unused(self.loop.clock.monotonic())

    def _deliver(self, asked: FetchPosition, fetched: Fetched) -> None:
        part = self.partitions.get(fetched.partition)
        if part is not None:
            part.add_answer(asked, fetched.answer)

    def _partition_failed(self, part: PartitionCopy, error: TwinlogError) -> None:
        if reason_of(error) is not None and (part.left or self.partitions.get(part.source) is not part):
            # The next copier of the partition meets the same error.
            return
        if self._held.stops_flow(error, part.source):
            self._listener.failed(part.source, error)
        else:
            self._held.hold_partition(part, error)

    def _cannot_begin(self, grant: Grant, error: TwinlogError) -> None:
        self._releasing.note_unbegun(grant)
        if self._held.stops_flow(error, grant.source):
            self._listener.failed(grant.source, error)
        else:
            self._held.hold_unbegun(grant, error)

    def _lost(self, error: TwinlogError) -> None:
        if not self.stopped:
            self._listener.failed(None, error)

    def _crashed(self, error: BaseException) -> None:
        if isinstance(error, TwinlogError):
            self._lost(error)
        elif not self.stopped:
            log.error("copier of %s crashed", self.settings.name, exc_info=error)
            self._listener.failed(None, TwinlogError(f"internal error: {error!r}"))
