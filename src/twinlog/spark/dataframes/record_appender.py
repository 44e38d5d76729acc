"""Appends a task's batches to the partitions of a cluster, on another thread than the thread that encodes them."""

from __future__ import annotations

import logging
import threading

from twinlog.batches.split import split_append
from twinlog.errors import ClusterError, CopyError, FencedError, RecordTooLargeError, TopicGoneError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.transactions import ProducerEpoch, TransactionCoordinator
from twinlog.kafka.producer.append_queue import AppendQueue, Gate
from twinlog.kafka.producer.appender import TargetAppender
from twinlog.kafka.producer.appends import Append, CopyRules
from twinlog.kafka.producer.produce_errors import NO_ANSWER, NOWHERE, Remedy, SentAppend, decide, explain_refusal
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.kafka.retry import TROUBLED_S, Backoff
from twinlog.model.amounts import counted
from twinlog.model.topics import listed
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.settings.client import ProducerSettings

log = logging.getLogger(__name__)

MOST_BYTES = 32 << 20
"""The bytes of unacknowledged batches above which the task waits."""

GONE_S = 10.0
"""How long brokers have to report a missing topic before the report counts, in seconds: their metadata may be old."""

_WATCH_S = 0.5
LOOK_S = 0.02


class RecordAppender:
    """A task's appends, all by the same producer; with a `coordinator` within its open transaction.

    The task's thread makes, feeds and closes it. Every call raises the error that has ended the writing, if any.
    """

    def __init__(
        self,
        client: ClusterClient,
        settings: ProducerSettings,
        identity: ProducerIdentity,
        coordinator: TransactionCoordinator | None,
    ) -> None:
        self._loop = client.loop
        self._client = client
        self._settings = settings
        self._identity = identity
        self._coordinator = coordinator
        self._now = self._loop.clock.monotonic
        self._partitions: dict[TopicName, int] = {}
        self._queues: dict[TopicPartition, AppendQueue] = {}
        self._troubles: dict[TopicPartition, str] = {}
        self._fresh: list[TopicPartition] = []
        self._changed = threading.Condition()
        self._waiting_bytes = 0
        self._error: TwinlogError | None = None
        self._closed = False
        self._put: dict[TopicPartition, int] = {}
        self._appender = TargetAppender(
            self._loop,
            client,
            max_in_flight=settings.max_in_flight,
            max_request_bytes=max(settings.max_request_size, settings.merge_batch_bytes),
            max_in_flight_bytes=MOST_BYTES,
            request_timeout_s=settings.client.request_timeout_ms / 1000,
            allowed=lambda: True,
            lost=self._fail,
        )
        if coordinator is not None:
            self._appender.transactional_id = coordinator.transactional_id
        self._loop.call_threadsafe(self._start)

    def partitions(self, topic: TopicName) -> int:
        """The number of a topic's partitions. Raises TopicGoneError for a missing topic."""
        known = self._partitions.get(topic)
        if known is None:
            known = self._partitions[topic] = self._loop.run(self._look_up, topic)
        return known

    def append(self, partition: TopicPartition, batch: bytearray, records: int) -> None:
        """Append a batch after the batches before it; waits while too many bytes wait."""
        number = self._put.get(partition, 0)
        self._put[partition] = number + records
        append = Append(
            batch,
            records,
            SourceOffset(number),
            SourceOffset(number + records),
            -1,
            ((SourceOffset(number), records),),
        )
        with self._changed:
            self._waiting_bytes += append.bytes
        self._loop.call_threadsafe(lambda: self._take(partition, append))
        self._wait(MOST_BYTES)

    def flush(self) -> None:
        """Wait until everything is acknowledged by all in-sync replicas."""
        self._wait(0)

    def close(self) -> None:
        """Stop sending, and forget unacknowledged batches."""
        self._loop.call_threadsafe(self._stop)

    async def wait_for_answers(self, patience_s: float) -> list[TopicPartition]:
        """Wait, after `close` and on the loop, for answers to the sent batches; returns unanswered partitions."""
        give_up_at = self._now() + patience_s
        while any(queue.in_flight for queue in self._queues.values()) and self._now() < give_up_at:
            await self._loop.sleep(LOOK_S)
        return [partition for partition, queue in self._queues.items() if queue.unanswered]

    def _wait(self, most_bytes: int) -> None:
        def over() -> bool:
            return self._error is not None or self._waiting_bytes <= most_bytes or self._loop.ended

        with self._changed:
            while not self._loop.clock.wait_for(self._changed, over, _WATCH_S):
                pass
            if self._error is not None:
                raise self._error
            if self._waiting_bytes > most_bytes:
                raise ClusterError(f"cluster {self._client.alias}: its connections ended by an error of their own")

    # On the loop's thread.

    def _start(self) -> None:
        self._appender.start(lambda: {partition.topic for partition in self._queues})
        self._loop.start(self._watch)

    def _stop(self) -> None:
        self._closed = True
        self._appender.stop()
        for queue in self._queues.values():
            queue.end()

    def _take(self, partition: TopicPartition, append: Append) -> None:
        if self._closed or self._error is not None:
            return
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = AppendQueue(
                partition,
                self._identity,
                self._acknowledged,
                lambda sent: self._refused(partition, sent),
                now=self._now,
                max_in_flight=self._settings.max_in_flight,
            )
            if self._coordinator is not None:
                self._fresh.append(partition)
                if len(self._fresh) == 1:
                    self._loop.start(self._admit)
        queue.put([append])
        if queue.gate is Gate.OPEN:
            self._appender.offer_queue(queue)

    async def _admit(self) -> None:
        """Let new partitions take part in the transaction."""
        backoff = Backoff.of(self._settings.client)
        assert self._coordinator is not None
        holder = ProducerEpoch(self._identity.producer_id, self._identity.epoch)
        while self._fresh and not self._closed and self._error is None:
            fresh = list(self._fresh)
            try:
                refused = await self._coordinator.add(holder, fresh)
            except TwinlogError as error:
                if not error.retriable:
                    self._fail(error)
                    return
                self._troubles.update(dict.fromkeys(fresh, str(error)))
                await self._loop.sleep(backoff.count_failure())
                continue
            for partition, code in refused.items():
                if error_codes.refused(code):
                    self._fail(self._client.lacks("WRITE", f"topic {partition.topic}", "writing to it"))
                    return
                self._troubles[partition] = error_codes.explain(code)
            if refused:
                await self._loop.sleep(backoff.count_failure())
                continue
            del self._fresh[: len(fresh)]
            for partition in fresh:
                self._queues[partition].open()
                self._appender.offer_queue(self._queues[partition])

    def _acknowledged(self, append: Append, _: TargetOffset) -> None:
        with self._changed:
            self._waiting_bytes -= append.bytes
            self._changed.notify_all()

    def _refused(self, partition: TopicPartition, sent: SentAppend) -> None:
        queue, transactional = self._queues[partition], self._identity.transactional
        self._troubles[partition] = "no answer" if sent.code == NO_ANSWER else explain_refusal(sent)
        decision = decide(sent, self._settings.client, transactional=transactional)
        match decision.remedy:
            case Remedy.RETRY:
                queue.retry_failed(self._now() + decision.pause_s)
                self._appender.refresh()
            case Remedy.SPLIT if sent.append.count > 1:
                parts = split_append(sent.append, CopyRules(max_batch_bytes=sent.append.bytes // 2))
                with self._changed:
                    self._waiting_bytes += sum(part.bytes for part in parts) - sent.append.bytes
                queue.replace_first(parts)
            case Remedy.ACCEPT:
                queue.accept_first(NOWHERE)
            case _:
                self._fail(self._error_of(decision.remedy, sent, partition))
                return
        self._appender.offer_queue(queue)

    def _error_of(self, remedy: Remedy, sent: SentAppend, where: TopicPartition) -> TwinlogError:
        """The error that ends the writing."""
        cluster, reason = f"cluster {self._client.alias}", explain_refusal(sent)
        match remedy:
            case Remedy.AUTHORIZE:
                return self._client.lacks("WRITE", f"topic {where.topic}", "writing to it")
            case Remedy.SPLIT:
                return RecordTooLargeError(
                    f"{where}: a record needs a batch of {sent.append.bytes} bytes, and the topic takes less; raise "
                    "its max.message.bytes, or write a smaller value",
                    size=sent.append.bytes,
                )
            case Remedy.FENCE | Remedy.ABORT if self._identity.transactional:
                return FencedError(
                    f"{cluster}: {where}: the transaction has ended: another attempt of this task began, or it was "
                    f"open for longer than kafka.transaction.timeout.ms ({reason})"
                )
            case Remedy.RESOLVE:
                return ClusterError(f"{cluster}: {where} lost records that were acknowledged: {reason}")
            case _:
                return CopyError(
                    f"{where}: {cluster} refuses a batch of {counted(sent.append.count, 'record')}: {reason}"
                )

    async def _watch(self) -> None:
        """Fail when an append is unacknowledged after `delivery.timeout.ms`, and log it long before."""
        limit_ms = self._settings.delivery_timeout_ms
        troubled_s = min(TROUBLED_S, limit_ms / 1000)
        logged = LogOnce(self._loop.clock)
        while not self._closed:
            late = [part for part, queue in self._queues.items() if queue.overdue(self._now(), troubled_s)]
            if late and logged.is_due("late", again_s=AGAIN_S):
                log.warning(
                    "TW-DATA-06: %s accept no records, waiting for up to kafka.delivery.timeout.ms = %d: %s",
                    listed(map(str, late)),
                    limit_ms,
                    self._troubles.get(late[0], "no answer yet"),
                )
            if not late and logged.end_condition("late"):
                log.warning("TW-DATA-06: all partitions accept records again")
            for partition in late:
                if self._queues[partition].overdue(self._now(), limit_ms / 1000):
                    why = self._troubles.get(partition, "no answer yet")
                    self._fail(
                        ClusterError(
                            f"cluster {self._client.alias}: {partition} refused records for kafka.delivery.timeout.ms "
                            f"= {limit_ms}: {why}"
                        )
                    )
            await self._loop.sleep(_WATCH_S)

    def _fail(self, error: TwinlogError) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()
        self._stop()

    async def _look_up(self, topic: TopicName) -> int:
        client, clock = self._client, self._loop.clock
        backoff = Backoff.of(client.settings)
        began_at = clock.monotonic()
        while True:
            found = (await client.refresh([topic])).get(topic)
            if found is not None and error_codes.refused(found.error):
                raise client.lacks("WRITE", f"topic {topic}", "writing to it")
            if found is not None and not found.error and found.partitions:
                return found.partitions
            if found is not None and found.error == Code.INVALID_TOPIC:
                raise TopicGoneError(f"cluster {client.alias}: '{topic}' is invalid as a topic's name")
            if clock.monotonic() - began_at > GONE_S:
                raise TopicGoneError(
                    f"cluster {client.alias}: topic {topic} is missing; create it first, as a write leaves that to you"
                )
            await self._loop.sleep(backoff.count_failure())
