"""Copies its granted partitions: the main part of a task, on a single event loop.

A copier outlives its first lease by a few seconds, so that the next lease can take the copier over at once. The copier
ends at once when its driver is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from twinlog.batches.prepare import prepare
from twinlog.copier.granted_partitions import PartitionReleaser, PartitionStarter
from twinlog.copier.memory import CopierMemory
from twinlog.copier.offset_committer import OffsetCommitter
from twinlog.copier.offset_fillers import OffsetFillers
from twinlog.copier.partition.appends import PartitionServices
from twinlog.copier.partition.context import CopierContext, CopierListener
from twinlog.copier.partition.copied_records import ForeignOffsets
from twinlog.copier.partition.copier_transform import CopierTransform
from twinlog.copier.partition.dead_letters import DeadLetters
from twinlog.copier.partition.life import (
    AbortTransaction,
    AskLimit,
    AwaitTransform,
    CheckSource,
    CopyAgain,
    FailPartition,
    HoldPartition,
    PartitionLife,
    PartitionRequest,
    PauseFetch,
    ResolvePosition,
)
from twinlog.copier.partition.offset_steps import OffsetSteps
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.partition.routes import Routes
from twinlog.copier.producers import CopierProducer, IdempotentProducer
from twinlog.copier.proofs import CopierProofs
from twinlog.copier.recovery import MaxMessageBytes, Recovery
from twinlog.copier.remote_bounds import RemoteBounds
from twinlog.copier.stalled_partitions import CopierHeldPartitions, DeliveryTimeout, StalledGrant, StallReasons
from twinlog.copier.start.first_look import LogsAtRest
from twinlog.copier.start.gap_check import GapCheck
from twinlog.copier.start.producer_ids import ProducerIds
from twinlog.copier.start.start_position import StartPositions
from twinlog.copier.transactions.open_transaction import TransactionPartitions
from twinlog.copier.transactions.transactions import TransactionalProducer, Transactions, own_id
from twinlog.errors import TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.fetch_pace import FetchPacer
from twinlog.kafka.consumer.partition_reader import SourceReader
from twinlog.kafka.fetch_session import Fetched
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.append_queue import QueueSender
from twinlog.kafka.producer.appender import TargetAppender
from twinlog.kafka.producer.appends import CopyRules
from twinlog.kafka.protocol.fetch import FetchPosition
from twinlog.lease.messages import Grant, LentId
from twinlog.lease.progress import CopierCounters
from twinlog.mirror.offsets.positions import Position
from twinlog.model.call import TransformCall, TransformImport
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

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
        self.context = context = CopierContext(loop, settings, self.source, self.target, listener)
        loop.crashed = self._crashed
        self.proofs = CopierProofs(context, self.partitions)
        self.memory = CopierMemory(
            settings.copier_memory_bytes - self.proofs.memory_bytes,
            *(self.source.frames, self.partitions, loop.clock.monotonic),
        )
        self._reader = SourceReader(
            *(loop, self.source, settings.consumer, self.partitions, self.memory),
            deliver=self._deliver,
            lost=context.report_lost,
            pacer=lambda: FetchPacer(settings.producer.linger_ms),
        )
        self._appender = self._make_appender(allowed)
        self._transform = CopierTransform(context)
        self._logs_at_rest = LogsAtRest(self.target)
        self._start_positions = StartPositions(
            *(self.source, self.target, settings),
            event=context.report_event,
            logs_at_rest=self._logs_at_rest,
            prepare_for=self._transform.make_preparer,
        )
        self._limits = MaxMessageBytes(context)
        self._committer = OffsetCommitter(context, self.partitions)
        self._fillers = OffsetFillers(context, self.partitions, self._committer)
        self._bounds = RemoteBounds(context, self.partitions)
        self._ids = ProducerIds(lambda: context.retry(self.target.init_producer))
        gap_check = GapCheck(self.source, settings, context.report_event)
        self._recovery = Recovery(
            *(context, self.partitions, gap_check, self._start_positions, self._ids, self._committer, self._reader)
        )
        exactly_once = settings.exactly_once == "enabled"
        in_transaction = TransactionPartitions(self.target, self._appender) if exactly_once else None
        sender: QueueSender = self._appender if in_transaction is None else in_transaction
        dead_letters = DeadLetters(context)
        self._routes = Routes(context, self._transform, sender, self._appender, self.memory, dead_letters)
        self._foreign = ForeignOffsets(context, self._routes.topics)
        self._steps = OffsetSteps(context)
        self._services = PartitionServices(
            *(context, self._reader, sender, self._appender, self.memory, self._foreign, self._routes, dead_letters),
            steps=self._steps,
        )
        self._producer: CopierProducer
        self.transactions: Transactions | None = None
        """Set when the flow copies exactly once."""
        if in_transaction is None:
            self._producer = IdempotentProducer(context, self._ids, self._committer, self._recovery)
        else:
            lend = lend or (lambda: own_id(self.target, settings))
            self.transactions = Transactions(
                *(context, self.partitions, self._appender, in_transaction, self._committer, self._routes, lend)
            )
            self._producer = TransactionalProducer(context, self.transactions, self._committer)
        self._delivery_timeout = DeliveryTimeout(context, self.partitions, self._routes)
        self.troubles = StallReasons(context, self._reader, self._producer)
        self._beginning = PartitionStarter(
            *(context, self._start_positions, self._producer, self._committer),
            begun=self._begin_all,
            refused=self._cannot_begin,
        )
        self._releasing = PartitionReleaser(
            *(self.partitions, self._routes, self._beginning, self._logs_at_rest),
            *(self._producer, self._committer, self.proofs),
        )
        self._held = CopierHeldPartitions(context, self.partitions, self._releasing)

    def _make_appender(self, allowed: Callable[[], bool]) -> TargetAppender:
        producer = self.settings.producer
        return TargetAppender(
            self.loop,
            self.target,
            max_in_flight=producer.max_in_flight,
            max_request_bytes=max(producer.max_request_size, MIN_REQUEST_BYTES),
            max_in_flight_bytes=self.settings.copier_memory_bytes // IN_FLIGHT_SHARE,
            request_timeout_s=producer.client.request_timeout_ms / 1000,
            allowed=allowed,
            lost=self.context.report_lost,
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
        await self.context.retry(self.source.connect)
        await target
        await transforming
        self._reader.start()
        self._appender.start(self._wanted)
        self._delivery_timeout.start()
        if self.settings.transform is not None:
            self.loop.start(self._forget_routes)
        self._committer.start(positions=self.transactions is None)
        self.loop.start(self._foreign.keep_counting)
        if self.settings.may_keep_offsets:
            self.loop.start(self._bounds.keep)

    async def _reach_target(self) -> None:
        await self.context.retry(self.target.connect)
        await self.context.retry(self._producer.start)

    @property
    def call(self) -> TransformCall | TransformImport | None:
        """The records that the flow's transform works on, or its import; may be read from any thread."""
        return self._transform.call

    def _wanted(self) -> set[TopicName]:
        """Topics of the target whose leaders must be known."""
        own = self._producer.topics | self._routes.topics
        return own | {part.remote.topic for part in self.partitions.values()}

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
    def held_back(self) -> dict[TopicPartition, StalledGrant]:
        """The granted partitions that are stalled now: held, or failing to begin for some time."""
        waiting = {source: StalledGrant(grant, why) for source, (grant, why) in self._beginning.held_back.items()}
        held = {
            source: StalledGrant(one.grant, one.held.text, one.end, one.waiting_ms)
            for source, one in self._held.held.items()
        }
        return waiting | held

    def _begin_all(self, stored: Mapping[PartitionLife, Position]) -> None:
        for life, position in stored.items():
            self._begin(life, position)
        self._reader.wake()

    def _begin(self, life: PartitionLife, position: Position) -> None:
        grant = life.grant
        self._steps.forget_partition(grant.remote)
        identity, sequence = self._producer.identity(grant.remote, position)
        copy = PartitionCopy(
            life,
            position,
            CopyRules.of(self.settings, grant.source.topic),
            identity,
            self._services,
            self._do_request,
            sequence=sequence,
            prepare=self._transform.make_preparer(grant) or prepare,
            queue=self._routes.hand_over(grant.remote),
            proof=self.proofs.open_partition(life, position, transactional=identity.transactional),
        )
        log.debug(
            "%s: %s begins at source offset %d, target offset %s",
            *(self.settings.name, grant.source, position.next_source, position.next_target),
        )
        inherited = grant.position is not None and grant.position.writer is not None
        if inherited and self._producer.meets_late_appends(grant):
            copy.expect_late_appends(position)
        self.partitions[grant.source] = copy
        self._routes.add_owned(life, copy.queue)
        if position.fills:
            self.loop.start(self._fillers.fill, copy)

    def _cannot_begin(self, life: PartitionLife, error: TwinlogError) -> None:
        self._held.fail_unbegun(life, error)

    def _do_request(self, part: PartitionCopy, request: PartitionRequest) -> None:
        """Do a request of a partition; longer work runs beside the other partitions."""
        match request:
            case PauseFetch(_, refusals):
                self.loop.start(self._recovery.pause, part, refusals)
            case CheckSource(end):
                self.loop.start(self._recovery.check_source, part, end)
            case ResolvePosition():
                self._producer.resolve_partition(part)
            case CopyAgain():
                self.loop.start(self._recovery.copy_again, part)
            case AbortTransaction():
                self._producer.abort(part)
            case AskLimit():
                self.loop.start(self._limits.refresh_limit, part)
            case AwaitTransform():
                self.loop.start(self._transform.wait, part.state)
            case HoldPartition(error):
                self._held.fail_partition(part, error)
            case FailPartition(error):
                part.fail_partition(error)

    async def release_partitions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Stop copying partitions, wait for appends in flight, store the positions and return them.

        Granted partitions that are still waiting are withdrawn; the result leaves them out.
        """
        partitions = list(partitions)
        await self._held.wait_held(partitions)
        stored = self._held.take_back(partitions) | await self._releasing.release_partitions(partitions)
        for source, position in stored.items():
            log.debug("%s: %s is released at source offset %d", self.settings.name, source, position.next_source)
        self._reader.wake()
        if not self.partitions:
            self._foreign.report()
        return stored

    @property
    def undrained(self) -> set[TopicPartition]:
        """Released partitions whose last appends the target left unanswered in time: they may still arrive."""
        return self._releasing.undrained

    @property
    def tally(self) -> CopierCounters:
        """The counters of this copier."""
        return self.context.tally

    @property
    def stopped(self) -> bool:
        """Whether the copier has stopped."""
        return self.context.stopped

    def report_event(self, kind: str, text: str) -> None:
        """Report an event for operators."""
        self.context.report_event(kind, text)

    def stop(self) -> None:
        """Stop sending at once. The result of appends in flight stays unknown."""
        self.context.stop()
        for part in self.partitions.values():
            part.stop_reading()
            part.close()
        self._reader.stop()
        self.proofs.stop()
        self._appender.stop()
        self._routes.stop()
        self._transform.close()
        self._committer.stop()
        self._producer.stop()
        self.context.moved.set()
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

    def _crashed(self, error: BaseException) -> None:
        if isinstance(error, TwinlogError):
            self.context.report_lost(error)
        elif not self.stopped:
            log.error("TW-FAULT-02: copier of %s crashed", self.settings.name, exc_info=error)
            self.context.listener.report_failure(None, TwinlogError(f"internal error: {error!r}"))
