"""What becomes of a batch that the target did not take: sent again, taken apart, left out, or its partition's end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from twinlog.errors import CopyError, RecordTooLargeError
from twinlog.kafka.net.backoff import pause_s
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.settings.flow import ProducerSettings
from twinlog.task.hooks import Hooks
from twinlog.write.appender import NO_ANSWER
from twinlog.write.appends import Append
from twinlog.write.queue import DOUBTED, Sent
from twinlog.write.split import split_append

if TYPE_CHECKING:
    from twinlog.task.partition import PartitionCopy

_LOST_TRACK = (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID, Code.INVALID_PRODUCER_EPOCH)


class ProduceErrors:
    """Decides for the appends of one partition, as often and as long as the producer's settings say."""

    def __init__(self, part: PartitionCopy, producer: ProducerSettings, hooks: Hooks, now: Callable[[], float]) -> None:
        self._part = part
        self._producer = producer
        self._hooks = hooks
        self._now = now

    def troubled(self, sent: Sent) -> None:
        """The first append on its way was refused or got no answer, and nothing is in flight any more."""
        part, code = self._part, sent.code
        if code == NO_ANSWER or code in error_codes.RETRIABLE:
            self._again(sent)
        elif part.transactional and code in error_codes.TRANSACTION_LOST:
            part.trouble = f"target: {error_codes.name_of(code)}"
            self._hooks.resolve(part)
        elif code == Code.DUPLICATE_SEQUENCE_NUMBER:
            expected = part.acknowledged.next_target
            if expected is None or part.queue.doubting:
                self._hooks.resolve(part)
            else:
                part.queue.accept_first(expected)
                self._hooks.offer(part.queue)
        elif code == DOUBTED:
            part.trouble = "target: it had an append with these sequence numbers, which is looked at"
            self._hooks.resolve(part)
        elif code in _LOST_TRACK:
            part.trouble = f"target: {error_codes.name_of(code)}"
            self._hooks.resolve(part)
        elif code in (Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE):
            self._too_large(sent.append)
        elif error_codes.refused(code):
            part.fail(self._hooks.target_lacks("WRITE", f"topic {part.remote.topic}", "copying to it"))
        else:
            first = sent.append.first_source_offset
            part.fail(
                CopyError(
                    f"{part.remote}: the target refuses source offsets {first} to "
                    f"{sent.append.next_source_offset - 1} of {part.source}: {error_codes.explain(code)}"
                )
            )

    def check(self, now: float) -> None:
        """Fail when the target has not acknowledged anything that waits for `delivery.timeout.ms`.

        `now` is in monotonic seconds.
        """
        part, limit_ms = self._part, self._producer.delivery_timeout_ms
        if not part.failed and not part.left and part.queue.overdue(now, limit_ms / 1000):
            part.fail(self._gave_up(part.queue.first, f"delivery.timeout.ms = {limit_ms}"))

    def _again(self, sent: Sent) -> None:
        part = self._part
        part.trouble = "target: no answer" if sent.code == NO_ANSWER else f"target: {error_codes.name_of(sent.code)}"
        # As in Kafka's producer, which waits for a connection and only then sends (class Sender).
        if sent.failures - sent.unreached > self._producer.retries:
            part.fail(self._gave_up(sent.append, f"retries = {self._producer.retries}"))
            return
        client = self._producer.client
        pause = pause_s(sent.failures, client.retry_backoff_ms, client.retry_backoff_max_ms)
        part.queue.retry(self._now() + pause)
        self._hooks.leaderless()
        self._hooks.offer(part.queue)

    def _gave_up(self, append: Append, limit: str) -> CopyError:
        part = self._part
        return CopyError(
            f"{part.remote}: the target did not take source offsets {append.first_source_offset} to "
            f"{append.next_source_offset - 1} of {part.source} within {limit} ({part.trouble or 'no answer yet'})"
        )

    def _too_large(self, append: Append) -> None:
        # The remote topic's limit was lowered, or the broker's own is lower than the topic's.
        part = self._part
        part.rules = replace(part.rules, max_batch_bytes=min(part.rules.max_batch_bytes, append.bytes - 1))
        if append.count > 1:
            part.queue.replace_first(split_append(append, replace(part.rules, max_batch_bytes=append.bytes // 2)))
            self._hooks.offer(part.queue)
        elif part.rules.oversized == "skip":
            self._leave_out(append)
        else:
            part.fail(
                RecordTooLargeError(
                    f"{part.remote}: the target refuses the record at source offset {append.first_source_offset} of "
                    f"{part.source} as too large ({append.bytes} bytes); raise max.message.bytes of "
                    f"{part.remote.topic}, or set twinlog.oversized.record.policy = skip to leave such records out",
                    source_offset=append.first_source_offset,
                    size=append.bytes,
                )
            )

    def _leave_out(self, append: Append) -> None:
        part = self._part
        self._hooks.event(
            "oversized",
            f"{part.source}: record at source offset {append.first_source_offset} left out: {append.bytes} bytes",
        )
        part.queue.replace_first([])
        self._hooks.offer(part.queue)
        if part.queue.idle:
            part.catch_up()
