"""Writes records that the target refuses to the dead-letter topic, with the context that Connect adds (KIP-298)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from zlib import crc32

from twinlog.clock import wall_ms
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.copy_state import CopyState
from twinlog.copier.partition.refused_appends import WriteDeadLetter
from twinlog.errors import ClusterError, CopyError, NotAppendedError, RefusedError, TwinlogError
from twinlog.kafka.admin.topics import create_topic
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.produce_errors import Remedy, remedy_for
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.batch import HEADER_SIZE, read_batch
from twinlog.kafka.record.records import decode_records
from twinlog.kafka.retry import Backoff
from twinlog.model.topics import MAX_MESSAGE_BYTES, NewTopic
from twinlog.model.types import SourceOffset, TopicName, TopicPartition

PREFIX = "__connect.errors."
PURPOSE = "writing records to it that the target refuses"
TIMEOUT_S = 10.0
LARGEST_BYTES = 100 << 20
"""`max.message.bytes` of a dead-letter topic that is created here. It is larger than any record that a topic may refuse
for its size."""

KEPT = 1_000
"""How many written records are remembered: after an aborted transaction the target refuses the same records again."""


@dataclass(frozen=True, slots=True)
class RefusedAppend:
    """The first append of `queue` has a single record, which the target refuses.

    `leave_out()` makes the queue send the next append, and `give_up(error)` ends the queue.
    """

    queue: AppendQueue
    append: Append
    decision: WriteDeadLetter
    leave_out: Callable[[], None]
    give_up: Callable[[TwinlogError], None]

    @property
    def waits(self) -> bool:
        """Whether the queue still waits for the append."""
        return not self.queue.ended and not self.queue.idle and self.queue.first is self.append


class DeadLetters:
    """The dead-letter topic of a copier's flow.

    A record is written before its partition continues, so each record arrives; a crash may leave a second copy in the
    dead-letter topic.
    """

    def __init__(self, context: CopierContext) -> None:
        settings, target, loop = context.settings, context.target, context.loop
        self._context = context
        self._loop = loop
        self._target = target
        self._settings = settings
        self._failed = settings.failed_records
        self._topic = TopicName(self._failed.dead_letter_topic)
        self._writer = TopicWriter(target, self._topic, TIMEOUT_S, PURPOSE, wait_s=TIMEOUT_S)
        self._writing = loop.lock()
        self._there = False
        self._written: dict[tuple[TopicPartition, SourceOffset, int], None] = {}

    def start_write(self, part: CopyState, refused: RefusedAppend) -> None:
        """Do `write` beside the other partitions of the copier."""
        self._loop.start(self.write, part, refused)

    async def write(self, part: CopyState, refused: RefusedAppend) -> None:
        """Write the record of a refused append, then have its queue leave the append out.

        The partition is held if the topic refuses the record.
        """
        append, decision = refused.append, refused.decision
        backoff = Backoff.of(self._settings.producer.client)
        while refused.waits:
            try:
                async with self._writing:
                    await self._write(part.source, append, decision.reason)
            except TwinlogError as error:
                self._there = False
                final = self._final(part, append, error)
                if final is None:
                    part.report_trouble(f"target: {error}")
                    await self._loop.sleep(backoff.count_failure())
                elif refused.waits:
                    refused.give_up(final)
                    return
                # An append that was cleared away meanwhile comes again, here or in another copier.
            else:
                part.leave_out(decision.kind, f"{decision.reason}; it is in topic {self._topic}")
                if refused.waits:
                    refused.leave_out()
                return

    def _final(self, part: CopyState, append: Append, error: TwinlogError) -> TwinlogError | None:
        """The error of the partition; None if the dead-letter topic may take the record later."""
        if isinstance(error, NotAppendedError):
            self._context.tally.dead_letter_failures += 1
            # Code 0 means a missing answer.
            retriable = not error.code or remedy_for(error.code) is Remedy.RETRY
            return None if retriable else self._not_taken(part, append, error)
        retriable = isinstance(error, ClusterError) and not isinstance(error, RefusedError)
        return None if retriable else error

    async def _write(self, source: TopicPartition, append: Append, reason: str) -> None:
        known = source, append.first_source_offset, crc32(append.data[HEADER_SIZE:])
        if known in self._written:
            return
        if not self._there:
            await self._find_topic()
        view = memoryview(append.data)
        batch = read_batch(view, 0)
        assert batch is not None
        for record in decode_records(view, batch):
            self._context.tally.dead_letters += 1
            headers = [*record.headers, *self._headers(source, append.first_source_offset, reason)]
            try:
                await self._writer.append([(record.key, record.value, headers)], timestamp_ms=record.timestamp)
            except NotAppendedError as error:
                if error.code != Code.INVALID_TIMESTAMP:
                    raise
                # The dead-letter topic has the same limits for timestamps as other topics of its cluster.
                headers.append((PREFIX + "timestamp", str(record.timestamp).encode()))
                now = wall_ms(self._loop.clock)
                await self._writer.append([(record.key, record.value, headers)], timestamp_ms=now)
        self._written[known] = None
        while len(self._written) > KEPT:
            del self._written[next(iter(self._written))]

    async def _find_topic(self) -> None:
        """Find or create the topic.

        Raises RefusedError without the rights, CopyError when the target refuses the topic, and ClusterError while the
        target is silent.
        """
        found = (await self._target.refresh([self._topic]))[self._topic]
        if found.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            new = NewTopic(
                self._topic, 1, self._failed.dead_letter_replication_factor, {MAX_MESSAGE_BYTES: str(LARGEST_BYTES)}
            )
            refusal = await create_topic(self._target, new, PURPOSE)
            if refusal is not None and refusal.code == Code.INVALID_REPLICATION_FACTOR:
                # As for remote topics: a target with fewer brokers uses its own default.
                refusal = await create_topic(self._target, replace(new, replication_factor=-1), PURPOSE)
            if refusal is not None:
                raise CopyError(f"cluster {self._target.alias} does not create topic {self._topic}: {refusal.text}")
            self._context.report_event(
                "dead-letter", f"topic {self._topic} was created for records that the target refuses"
            )
        self._there = True

    def _headers(self, source: TopicPartition, offset: SourceOffset, reason: str) -> Iterator[tuple[str, bytes]]:
        if not self._failed.dead_letter_headers:
            return
        context = {
            "topic": source.topic,
            "partition": str(source.partition),
            "offset": str(offset),
            "connector.name": self._settings.name,
            "stage": "TASK_PUT",
            "exception.message": reason,
        }
        for name, text in context.items():
            yield PREFIX + name, text.encode()

    def _not_taken(self, part: CopyState, append: Append, error: NotAppendedError) -> CopyError:
        large = remedy_for(error.code) is Remedy.SPLIT
        why = f"{error.size} bytes" if large else error_codes.name_of(error.code)
        return CopyError(
            f"{part.remote}: the target refuses the record at source offset {append.first_source_offset} of "
            f"{part.source}, and the dead-letter topic {self._topic} does not take it either ({why})",
            way_out=f"raise max.message.bytes of {self._topic}" if large else f"change the settings of {self._topic}",
        )
