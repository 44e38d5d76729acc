"""Appends records that a transform routed to other partitions.

Several source partitions may route to the same partition. Without transactions the routed appends of a unit are
acknowledged before the unit's own appends are sent. A position thus counts only arrived records, and after a crash some
routed records are on the target twice. In a transaction a unit is committed as a whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from twinlog.batches.split import isolate, split_append
from twinlog.copier.partition import refused_appends
from twinlog.copier.partition.append_memory import AppendMemory
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.copier_transform import CopierTransform
from twinlog.copier.partition.copy_state import CopyState
from twinlog.copier.partition.dead_letters import DeadLetters, RefusedAppend
from twinlog.copier.partition.life import PartitionLife
from twinlog.copier.partition.refused_appends import (
    Accept,
    Appending,
    FailAppend,
    Isolate,
    ProduceRules,
    Resolve,
    Retry,
    Skip,
    Split,
    WriteDeadLetter,
)
from twinlog.copier.partition.routed_records import RoutedFetch, RoutedTopics, RoutePlacement
from twinlog.errors import (
    ClusterError,
    CopyError,
    NoPartitionError,
    RecordTooLargeError,
    RefusedError,
    RefusedRecordError,
    TwinlogError,
)
from twinlog.kafka.producer.append_queue import AppendQueue, QueueSender
from twinlog.kafka.producer.appender import TargetAppender
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.produce_errors import SentAppend
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.kafka.retry import LATE_PARTITION, Backoff
from twinlog.model.types import TargetOffset, TopicName, TopicPartition

LATER_S = 0.05
FORGET_S = 3_600.0
"""A topic is forgotten this long after its last routed record: some transforms make a new topic each day."""

PARTITION_S = 2.0
"""How often the target is asked for a missing partition to which records are routed."""


class _Owned(NamedTuple):
    """The queue of a remote partition that this copier also copies a source partition to."""

    queue: AppendQueue
    life: PartitionLife


class Routes:
    """The routed appends of a copier.

    Within transactions the queue of a partition that the copier also copies to has the sequence numbers of both.
    """

    def __init__(
        self,
        context: CopierContext,
        transform: CopierTransform,
        sender: QueueSender,
        appender: TargetAppender,
        memory: AppendMemory,
        dead_letters: DeadLetters,
    ) -> None:
        self._context = context
        self._loop = context.loop
        self._target = context.target
        self._settings = context.settings
        self._owned: dict[TopicPartition, _Owned] = {}
        self._sender = sender
        self._appender = appender
        self._memory = memory
        self._topics = RoutedTopics(context)
        self._placement = RoutePlacement(context.settings, self._topics, transform)
        self._dead_letters = dead_letters
        self._queues: dict[TopicPartition, AppendQueue] = {}
        self._identity: ProducerIdentity | None = None
        self._sequences: MutableMapping[TopicPartition, int] = {}
        self._abort: Callable[[str], None] | None = None
        self._units: dict[RoutedFetch, None] = {}
        """Sent units of the open transaction that may be unfinished."""
        self._held: list[RoutedFetch] | None = None
        self._sent_owners: set[CopyState] = set()
        """The owners of the sent units of the open transaction."""
        self._backoffs: dict[CopyState, Backoff] = {}
        """The owners whose units were unfinished in an aborted transaction, until a transaction with them is
        committed."""
        self._excluded: dict[CopyState, float] = {}
        """The time until which the units of an owner stay out of transactions, in monotonic seconds."""

    def in_transactions(self, abort: Callable[[str], None], sequences: MutableMapping[TopicPartition, int]) -> None:
        """Make all appends a part of transactions.

        `abort(reason)` ends the open transaction. `sequences` has the next sequence number of each partition with
        earlier appends.
        """
        self._abort, self._sequences = abort, sequences

    def stop(self) -> None:
        """Stop sending."""
        for queue in self._queues.values():
            queue.end()

    @property
    def topics(self) -> set[TopicName]:
        """Topics of the target whose leaders must be known."""
        return self._topics.names

    @property
    def queues(self) -> Iterable[AppendQueue]:
        """The queues of partitions that receive only routed records of this copier."""
        return self._queues.values()

    @property
    def unfinished(self) -> list[RoutedFetch]:
        """Units of the transaction with sent appends of which some are unacknowledged.

        Dropped units count, too: their arrived records must stay uncommitted.
        """
        for unit in [unit for unit in self._units if not unit.wanted and not unit.given_up]:
            del self._units[unit]
        return list(self._units)

    def check_overdue(self, now: float) -> None:
        """Fail the owners of appends that wait for longer than `delivery.timeout.ms`; `now` is in monotonic seconds."""
        limit_s = self._settings.producer.delivery_timeout_ms / 1000
        for where, queue in list(self._queues.items()):
            if queue.ended or not queue.overdue(now, limit_s):
                continue
            unit = queue.first.route
            assert isinstance(unit, RoutedFetch)
            appending = self._appending(where, unit)
            rules = self._rules(unit.owner)
            self._give_up(queue, refused_appends.overdue(queue.first, appending, rules, unit.owner.trouble).error)

    def forget_unused(self, now: float) -> None:
        """Forget topics `FORGET_S` after their last routed record; `now` is in monotonic seconds.

        Look-ups of leaders leave forgotten topics out. A topic that receives records later is looked up again.
        """
        busy = {topic for unit in (*self.unfinished, *(self._held or ())) for topic in unit.topics}
        for topic in self._topics.unused(now - FORGET_S) - busy:
            queues = [queue for where, queue in self._queues.items() if where.topic == topic]
            if not all(queue.idle and not queue.ended for queue in queues):
                continue
            for queue in queues:
                del self._queues[queue.partition]
                if self._abort is not None:
                    self._sequences[queue.partition] = queue.next_sequence
            if queues and self._abort is None:
                # Sequence numbers would begin at 0 again, and brokers could take new appends for duplicates.
                self._identity = None
            self._placement.forget_topic(topic)
            self._topics.drop_topic(topic)
            if all(where.topic != topic for where in self._owned):
                self._target.forget_topic(topic)

    def pause_sending(self) -> None:
        """Hold further units back, because the transaction is about to end."""
        if self._held is None:
            self._held = []

    def exclude_unfinished(self) -> None:
        """Keep the owners of unfinished units out of transactions for a while: the transaction is aborted because of
        them."""
        now = self._loop.clock.monotonic()
        self._excluded = {owner: until for owner, until in self._excluded.items() if until > now}
        self._backoffs = {owner: backoff for owner, backoff in self._backoffs.items() if not owner.left}
        for owner in {unit.owner for unit in self.unfinished}:
            self._excluded[owner] = now + self._backoffs.setdefault(owner, LATE_PARTITION.backoff()).count_failure()

    def resume_sending(self) -> None:
        """The transaction was committed: send the units that were held back."""
        for owner in self._sent_owners:
            self._backoffs.pop(owner, None)
        self._sent_owners.clear()
        held, self._held = self._held or [], None
        for unit in held:
            self.append_routed(unit)

    def clear(self, identity: ProducerIdentity) -> None:
        """The transaction was aborted: drop its appends, and continue as `identity`."""
        self._identity = identity
        self._units.clear()
        self._sent_owners.clear()
        self._held = None
        for queue in self._queues.values():
            queue.clear(identity)

    def hand_over(self, partition: TopicPartition) -> AppendQueue | None:
        """The copier begins to copy to a partition.

        Returns the queue with the sequence numbers within transactions, else None.
        """
        return self._queues.pop(partition, None) if self._abort is not None else None

    def add_owned(self, life: PartitionLife, queue: AppendQueue) -> None:
        """The copier copies a partition through `queue`."""
        self._owned[life.grant.remote] = _Owned(queue, life)

    def remove_owned(self, partition: TopicPartition, queue: AppendQueue) -> None:
        """The copier has released a partition."""
        owned = self._owned.get(partition)
        if owned is not None and owned.queue is queue:
            del self._owned[partition]

    def append_routed(self, unit: RoutedFetch) -> None:
        """Append the routed rows of a unit, as soon as its topics exist."""
        if self._held is not None:
            self._held.append(unit)
            return
        if not unit.wanted or self._context.stopped:
            return
        now = self._loop.clock.monotonic()
        if (rest_s := self._excluded.get(unit.owner, now) - now) > 0:
            unit.owner.report_trouble(f"target: it did not take what was routed; this is sent again in {rest_s:.0f} s")
            self._loop.start(self._try_later, unit, rest_s)
            return
        self._topics.touch_topics(unit.topics, now)
        if self._identity is None or not all(map(self._topics.has_topic, unit.topics)):
            self._loop.start(self._begin, unit)
            return
        try:
            placed = self._placement.place_rows(unit)
        except NoPartitionError as error:
            if self._settings.transform is not None and self._settings.transform.tolerance == "all":
                self._loop.start(self._have_it_fail, unit)
            else:
                # The text is passed on, because the error itself would hold the rows.
                self._loop.start(self._wait_for_partition, unit, str(error))
            return
        except TwinlogError as error:
            unit.owner.fail_partition(error)
            return
        if any((owned := self._owned.get(where)) is not None and owned.life.left for where in placed):
            # The sequence numbers of the partition are known once its last transaction is over.
            self._loop.start(self._try_later, unit, LATER_S)
            return
        unit.count_queued(sum(map(len, placed.values())))
        if self._abort is not None:
            self._units[unit] = None
            self._sent_owners.add(unit.owner)
        for where, appends in placed.items():
            queue = self._queue(where)
            self._memory.track_waiting(appends)
            queue.put(appends)
            self._sender.offer_queue(queue)
        if self._abort is not None:
            # In a transaction the unit's own appends are sent together with its routed appends.
            unit.append_own()

    def _queue(self, where: TopicPartition) -> AppendQueue:
        owned = self._owned.get(where)
        if self._abort is not None and owned is not None:
            return owned.queue
        queue = self._queues.get(where)
        if queue is None:
            assert self._identity is not None
            queue = self._queues[where] = AppendQueue(
                where,
                self._identity,
                self._acknowledged,
                partial(self._refused, where),
                now=self._loop.clock.monotonic,
                max_in_flight=self._settings.producer.max_in_flight,
                sequence=self._sequences.get(where, 0),
            )
        return queue

    @staticmethod
    def _acknowledged(append: Append, _base_offset: TargetOffset) -> None:
        assert append.route is not None
        append.route.count_acknowledged(append)

    async def _begin(self, unit: RoutedFetch) -> None:
        if await self._make_ready(unit, unit.topics):
            self.append_routed(unit)

    async def _make_again(self, unit: RoutedFetch, topic: TopicName) -> None:
        self._topics.forget_topic(topic)
        await self._make_ready(unit, [topic])

    async def _make_ready(self, unit: RoutedFetch, topics: Iterable[TopicName]) -> bool:
        """Find or create topics of a unit, and the producer, for as long as it takes.

        Returns False once the unit is unwanted.
        """
        owner, backoff = unit.owner, Backoff.of(self._settings.producer.client)
        while unit.wanted and not self._context.stopped:
            try:
                if self._identity is None:
                    self._identity = ProducerIdentity(*await self._target.init_producer())
                # The clusters are compared before a topic is created.
                await self._topics.compare_clusters()
                for topic in topics:
                    if not unit.topics[topic]:
                        self._placement.check_route(topic, owner.source)
                for topic in topics:
                    text = await self._topics.ensure_topic(topic, unit, dead=unit.topics[topic])
                    if text is not None:
                        self._context.report_event("routed", f"TW-TRANSFORM-03: {text}")
            except RefusedError as error:
                owner.fail_partition(error)
            except ClusterError as error:
                owner.report_trouble(f"target: {error}")
                await self._loop.sleep(backoff.count_failure())
            except TwinlogError as error:
                owner.fail_partition(CopyError(f"{owner.source}: the transform: {error}"))
            else:
                return True
        return False

    async def _have_it_fail(self, unit: RoutedFetch) -> None:
        """Read a unit again that has records for a missing partition: the transform then fails on these records.

        The partition may have been added since the target was asked last.
        """
        backoff = Backoff.of(self._settings.producer.client)
        while unit.wanted and not self._context.stopped:
            try:
                await self._target.refresh(unit.topics)
            except RefusedError as error:
                unit.owner.fail_partition(error)
            except ClusterError as error:
                unit.owner.report_trouble(f"target: {error}")
                await self._loop.sleep(backoff.count_failure())
            else:
                for topic in unit.topics:
                    self._placement.confirm_partitions(topic)
                unit.read_again()

    async def _wait_for_partition(self, unit: RoutedFetch, error: str) -> None:
        """An operator has to add the partition; the source topic may have got more partitions, too."""
        unit.owner.report_trouble(f"target: {error}")
        if unit.is_news(error):
            self._context.report_event("routed", f"{error}; this is waited for")
        await self._loop.sleep(PARTITION_S)
        with suppress(ClusterError):
            await self._target.refresh(unit.topics)
        self.append_routed(unit)

    async def _try_later(self, unit: RoutedFetch, pause_s: float) -> None:
        await self._loop.sleep(pause_s)
        self.append_routed(unit)

    def _refused(self, where: TopicPartition, sent: SentAppend) -> None:
        """The first append in the window of a queue was refused or got no answer, and nothing is in flight."""
        queue, unit = self._queues[where], sent.append.route
        assert isinstance(unit, RoutedFetch)
        match refused_appends.react(sent, self._appending(where, unit), self._rules(unit.owner), random.random()):
            case Retry(pause_s, reason):
                unit.owner.report_trouble(reason)
                queue.retry_failed(self._loop.clock.monotonic() + pause_s)
                self._appender.refresh()
                if sent.code == Code.UNKNOWN_TOPIC_OR_PARTITION:
                    self._loop.start(self._make_again, unit, where.topic)
            case Resolve(reason):
                if self._abort is not None:
                    self._abort(f"{where}: {reason}")
                else:
                    self._loop.start(self._send_again, queue)
                return
            case Accept():
                raise AssertionError("nothing is known of where it would belong")
            case Split(into_bytes, limit_bytes):
                self._placement.set_limit(where.topic, limit_bytes)
                parts = split_append(sent.append, replace(unit.owner.rules, max_batch_bytes=into_bytes))
                self._replace(queue, unit, parts)
            case Isolate(numbers):
                self._replace(queue, unit, isolate(sent.append, numbers, unit.owner.rules))
            case Skip(kind, reason):
                unit.owner.leave_out(kind, reason)
                self._leave_out(queue, unit, sent.append)
            case WriteDeadLetter() as decision:
                # The queue waits until the record is in the dead-letter topic, or until this append is cleared away.
                queue.set_first_aside()
                leave_out = partial(self._leave_out, queue, unit, sent.append)
                give_up = partial(self._fail_owner, queue, unit)
                self._dead_letters.start_write(
                    unit.owner, RefusedAppend(queue, sent.append, decision, leave_out, give_up)
                )
                return
            case FailAppend(error) if isinstance(error, (RefusedRecordError, RecordTooLargeError)):
                self._fail_owner(queue, unit, error)
                return
            case FailAppend(error):
                self._give_up(queue, error)
                return
        self._sender.offer_queue(queue)

    def _replace(self, queue: AppendQueue, unit: RoutedFetch, parts: list[Append]) -> None:
        unit.count_split(len(parts) - 1)
        self._memory.track_waiting(parts)
        queue.replace_first(parts)

    def _leave_out(self, queue: AppendQueue, unit: RoutedFetch, append: Append) -> None:
        queue.replace_first([])
        queue.send_now()
        unit.count_acknowledged(append)
        self._sender.offer_queue(queue)

    def _rules(self, owner: CopyState) -> ProduceRules:
        return ProduceRules(self._settings.producer, owner.rules.oversized, owner.rules.refused, self._target.lacks)

    def _appending(self, where: TopicPartition, unit: RoutedFetch) -> Appending:
        # Other producers append to the partition, too, so the offset of the next append is unknown.
        return Appending(unit.owner.source, where, self._abort is not None, None, True)

    def _give_up(self, queue: AppendQueue, error: TwinlogError) -> None:
        """End a queue for good: the owners of all units that wait for it fail.

        The owner of the first unit may have left.
        """
        units = [append.route for append in queue.waiting() if isinstance(append.route, RoutedFetch)]
        queue.end()
        # An owner that is held tries again later with another queue, whose sequence numbers begin at 0.
        self._queues.pop(queue.partition, None)
        if self._abort is None:
            self._identity = None
        for owner in dict.fromkeys(unit.owner for unit in units if unit.wanted):
            owner.fail_partition(error)

    def _fail_owner(self, queue: AppendQueue, unit: RoutedFetch, error: TwinlogError) -> None:
        """The first append of a queue has a refused record: fail its source partition.

        The records of this partition are routed again from its stored position on. The routed records of other source
        partitions are sent.
        """
        queue.replace_first([])
        queue.drop_appends(lambda append: isinstance(append.route, RoutedFetch) and append.route.owner is unit.owner)
        queue.send_now()
        unit.owner.fail_partition(error)
        self._sender.offer_queue(queue)

    async def _send_again(self, queue: AppendQueue) -> None:
        """The target lost the state of this producer: send the unacknowledged appends under a new producer id."""
        backoff = Backoff.of(self._settings.producer.client)
        while not self._context.stopped:
            try:
                identity = ProducerIdentity(*await self._target.init_producer())
            except ClusterError:
                await self._loop.sleep(backoff.count_failure())
                continue
            waiting = list(queue.waiting())
            queue.clear(identity)
            queue.put(waiting)
            self._sender.offer_queue(queue)
            return
