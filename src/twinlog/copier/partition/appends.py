"""The appends of a partition, from its queue until the target acknowledges, refuses or misplaces them.

`kafka.producer.appends` has their class `Append`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from twinlog.batches.split import isolate, split_append
from twinlog.copier.partition import refused_appends
from twinlog.copier.partition.append_memory import AppendMemory
from twinlog.copier.partition.batch_limit import naming
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.copied_records import ForeignOffsets, MisplacedAppends
from twinlog.copier.partition.copy_state import CopyState
from twinlog.copier.partition.dead_letters import DeadLetters, RefusedAppend
from twinlog.copier.partition.life import ResolvePosition
from twinlog.copier.partition.offset_steps import OffsetSteps, WaitingStep
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
from twinlog.copier.partition.routed_records import PendingRoutedFetch
from twinlog.copier.partition.routes import Routes
from twinlog.errors import DifferenceError, DivergedError, TwinlogError
from twinlog.kafka.consumer.partition_reader import SourceReader
from twinlog.kafka.producer.append_queue import MAX_WINDOW, AppendQueue, QueueSender
from twinlog.kafka.producer.appender import TargetAppender
from twinlog.kafka.producer.appends import Append, PreparedFetch
from twinlog.kafka.producer.produce_errors import SentAppend
from twinlog.kafka.producer.proof import identify_append
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TargetOffset


@dataclass(frozen=True, slots=True)
class PartitionServices:
    """The objects of a copier that its partitions use: to read, to append, to count memory, to route records."""

    context: CopierContext
    reader: SourceReader
    sender: QueueSender
    appender: TargetAppender
    memory: AppendMemory
    foreign: ForeignOffsets
    routes: Routes
    dead_letters: DeadLetters
    steps: OffsetSteps


class PartitionAppends:
    """The waiting appends of a partition in `queue`; the answers of the target move the partition's `state`."""

    __slots__ = ("_now", "_open", "_rules", "_services", "_state", "queue")

    def __init__(
        self,
        state: CopyState,
        identity: ProducerIdentity,
        services: PartitionServices,
        *,
        sequence: int,
        queue: AppendQueue | None,
    ) -> None:
        """`sequence` is the sequence number of the next record that `identity` appends here.

        `queue` is given if other partitions routed records here before; the queue then has the sequence numbers.
        """
        context = services.context
        producer = context.settings.producer
        self._state = state
        self._services = services
        self._now = context.loop.clock.monotonic
        self.queue = (
            AppendQueue(
                state.remote,
                identity,
                self._acknowledged,
                self._refused,
                now=self._now,
                max_in_flight=producer.max_in_flight,
                sequence=sequence,
            )
            if queue is None
            else queue.set_owner(self._acknowledged, self._refused)
        )
        self._rules = ProduceRules(producer, state.rules.oversized, state.rules.refused, context.target.lacks)
        self._open = PendingRoutedFetch(state, self.queue, context, self.append, services.routes.append_routed)

    @property
    def arrived(self) -> bool:
        """Every sent append is acknowledged, at its expected offset."""
        return self.queue.idle and self._state.misplaced is None and self._open.unit is None

    @property
    def waits_for_unit(self) -> bool:
        """The partition stops reading until its routed records are acknowledged."""
        return self._open.unit is not None

    @property
    def waits_since(self) -> float:
        """The time since which the target has taken none of the waiting appends, in monotonic seconds.

        The time is infinite if nothing waits.
        """
        return self._open.waits_since if self.queue.idle else min(self.queue.waits_since, self._open.waits_since)

    # Puts into the queue, and drops from the queue.

    def append_fetch(self, begin: SourceOffset, prepared: PreparedFetch) -> None:
        """Append the appends of a fetch from source offset `begin` on."""
        self._services.memory.track_waiting([*prepared.appends, *prepared.routed])
        if not self._open.begin_fetch(begin, prepared):
            self._state.count_fetch(prepared)
            self.append(prepared.appends)

    def append(self, own: list[Append]) -> None:
        """Append the given appends; with an empty list, the position moves over skipped records."""
        if own:
            self.queue.put(own)
            self._services.sender.offer_queue(self.queue)
            self._begin_step()
        else:
            self._catch_up()

    def drop_unsent(self) -> SourceOffset | None:
        """Drop the unsent appends; returns the source offset from which they are read again.

        Returns None if all of them must be sent, because routed records of the same fetch, or another part of the same
        record, may have arrived.
        """
        again_from = self._open.drop_unsent()
        unsent = self.queue.unsent
        if not unsent or self._open.unit is not None or unsent[0].continues:
            return again_from
        again = unsent[0].first_source_offset
        if again < self._open.routed_to or any(append.route is not None for append in unsent):
            return again_from
        self.queue.drop_pending()
        return again

    def discard_unsent(self) -> None:
        """Drop the unsent appends for good.

        Appends that must follow routed records, or a sent part of their record, are kept. Outside of transactions an
        append that was set aside is kept, too: its record is on its way to the dead-letter topic, and the next copier
        would write it there again. A transaction would wait for it.
        """
        if not self._open.sends_all:
            if self._state.transactional:
                self.queue.drop_appends(lambda append: append.route is None)
            else:
                self.queue.drop_pending()
            return
        unsent = self._open.drop_unsent()
        if unsent is not None:
            self._state.read.seek_offset(unsent)

    def fail(self, *, refused: bool) -> bool:
        """Stop sending, and stop waiting for routed records; returns whether the arrival of every sent append is known.

        True also means that no sent append can be taken back. With `refused` the target refused the failed append, if
        it was sent, so the append stays out of the log.
        """
        routed = self._open.unit is not None or any(append.route is not None for append in self.queue.waiting())
        self._open.drop_fetch()
        self.queue.end()
        if not refused or routed or self.queue.unanswered or self._state.misplaced is not None:
            return False
        refused_at = None if self._state.transactional or self.queue.idle else self.queue.first.first_source_offset
        if refused_at is not None and refused_at > self._state.copied.acknowledged.next_source:
            # The routed records before this offset have arrived, and are routed only once.
            self._state.copied.pass_over(refused_at, self._state.read.epoch)
        first_ms = self._state.read.unread_ms if self.queue.idle else self.queue.first.first_timestamp
        self.queue.drop_all()
        # The unsent records are uncopied, so the position must stay before them.
        self._state.read.seek_offset(self._state.copied.acknowledged.next_source, first_ms)
        return True

    # Answers of the target.

    def _acknowledged(self, append: Append, base_offset: TargetOffset) -> None:
        if append.route is not None:
            self._acknowledged_for_other(append, base_offset)
            return
        if self._state.rules.keep_offsets and self._has_diverged(append, base_offset):
            return
        expected = self._state.copied.acknowledged.next_target
        if self._state.misplaced is not None or (expected is not None and base_offset < expected):
            self._note_misplaced(append, base_offset)
            return
        # Markers and aborted records of other transactions may lie before a transactional producer's first record.
        if expected is not None and base_offset > expected and not self._state.copied.leeway:
            self._services.foreign.note_offsets(self._state.life.grant, expected, base_offset)
        self._state.clear_trouble()
        self._state.copied.add(append, base_offset, self._state.read.epoch)
        if self._open.unit is not None:
            self._open.end_if_arrived()
        self._catch_up()
        self._services.context.notify_progress()
        self._state.take_acknowledgement(self.queue.queued_bytes)
        if self.queue.pending:
            self._begin_step()

    def _begin_step(self) -> None:
        """Begin the step of the queue, if all appends before it are acknowledged."""
        append = self.queue.step
        if append is None:
            return
        self.queue.set_first_aside()

        def finish(base_offset: TargetOffset) -> None:
            self.queue.finish_aside(base_offset)
            self._services.sender.offer_queue(self.queue)

        self._services.steps.start_step(WaitingStep(self._state, self.queue, append, finish))

    def _has_diverged(self, append: Append, base_offset: TargetOffset) -> bool:
        """Whether an append, or an append before it, got other offsets than its source records have.

        The stored position stays before these appends, so the next copier finds them, too.
        """
        state = self._state
        if isinstance(state.life.error, DivergedError):
            return True
        if base_offset == TargetOffset(append.first_source_offset):
            return False
        state.fail_partition(
            DivergedError(
                f"{state.source}: {state.remote} has diverged: the record at source offset "
                f"{append.first_source_offset} got offset {base_offset} there, as if another program wrote to it"
            )
        )
        return True

    def _acknowledged_for_other(self, append: Append, base_offset: TargetOffset) -> None:
        """Another partition of this copier routed these records here, in the same transactions."""
        assert append.route is not None
        self._state.copied.passed_by(append.count, base_offset)
        append.route.count_acknowledged(append)
        self._open.end_if_arrived()
        self._catch_up()
        self._services.context.notify_progress()

    def _note_misplaced(self, append: Append, base_offset: TargetOffset) -> None:
        """The target lost acknowledged records and sequence numbers, and took an append at too small an offset."""
        first = self._state.misplaced is None
        if self._state.misplaced is None:
            self.queue.close_gate()
            self._state.report_trouble(f"target: it appended at offset {base_offset}, before acknowledged records")
            self._state.set_misplaced(MisplacedAppends(base_offset, append.next_source_offset))
        assert self._state.misplaced is not None
        self._state.misplaced.add(append, base_offset)
        if first:
            self._state.request(ResolvePosition())
        self._services.context.notify_progress()

    def _catch_up(self) -> None:
        """Once all appends are answered, move the position over the records skipped since the last append."""
        if (
            self._state.copied.acknowledged.next_source != self._state.read.offset
            and self.queue.idle
            and (not self._state.left or self._open.sends_all)
            and self._open.unit is None
            and self._state.copied.pass_over(self._state.read.offset, self._state.read.epoch)
        ):
            self._services.context.notify_progress()

    def _refused(self, sent: SentAppend) -> None:
        """The first append in the window was refused or got no answer, and all other appends are answered."""
        match refused_appends.react(sent, self._appending(), self._rules, random.random()):
            case Retry(pause_s, reason):
                self._state.report_trouble(reason)
                self.queue.retry_failed(self._now() + pause_s)
                self._services.appender.refresh()
            case Resolve(reason):
                self._state.report_trouble(reason)
                self._state.request(ResolvePosition())
                return
            case Accept(base_offset):
                self.queue.accept_first(base_offset)
            case Split(into_bytes, limit_bytes):
                if not self._split(sent.append, into_bytes, limit_bytes):
                    return
            case Isolate(numbers):
                if not self._replace(sent.append, isolate(sent.append, numbers, self._state.rules)):
                    return
            case Skip(kind, reason, limit_bytes):
                if limit_bytes is not None:
                    self._state.limit.lower_limit(limit_bytes)
                self._state.leave_out(kind, reason)
                self.leave_out(sent.append)
            case WriteDeadLetter() as decision:
                # The queue waits until the record is in the dead-letter topic, or until this append is cleared away. A
                # transaction commits meanwhile, because other partitions would wait for it, too.
                self.queue.set_first_aside()
                append = sent.append
                refused = RefusedAppend(
                    self.queue, append, decision, lambda: self.leave_out_written(append), self._state.fail_partition
                )
                self._services.dead_letters.start_write(self._state, refused)
                return
            case FailAppend(error):
                self._state.fail_partition(error)
                return
        self._services.sender.offer_queue(self.queue)

    def _split(self, append: Append, into_bytes: int, limit_bytes: int) -> bool:
        """Replace the first append by smaller batches; False if its transaction starts again instead."""
        self._state.limit.lower_limit(limit_bytes)
        return self._replace(append, split_append(append, replace(self._state.limit.rules, max_batch_bytes=into_bytes)))

    def leave_out_written(self, append: Append) -> None:
        """Continue after the record of a refused append, which is in the dead-letter topic."""
        self._state.clear_trouble()
        self.leave_out(append)
        self._services.sender.offer_queue(self.queue)

    def leave_out(self, append: Append) -> None:
        """Drop the first append from the queue, if `append` is still the first."""
        if self.queue.idle or self.queue.first is not append:
            return
        self.queue.replace_first([])
        self.queue.send_now()
        if append.route is not None:
            append.route.count_acknowledged(append)
        self._open.end_if_arrived()
        self._catch_up()

    def _replace(self, append: Append, parts: list[Append]) -> bool:
        if append.route is not None:
            append.route.count_split(len(parts) - 1)
        # A transaction waits for all routed records in any case.
        elif self._open.unit is None and any(part.continues for part in parts[1:]):
            # A record now has several batches: they are in the same transaction, or all of them are sent once the first
            # is sent. After the partition has left, unsent batches are dropped and the position stays before the
            # record.
            self._open.sends_all = self._open.sends_all or not self._state.left
            if self._state.transactional:
                self._state.report_trouble(f"target: it does not take a batch of {append.bytes} bytes as it is")
                self._state.request(ResolvePosition())
                return False
        proven = self._state.copied.proof is not None and not self._state.filling
        if proven and not self._has_same_records(append, parts):
            return False
        self._services.memory.track_waiting(parts)
        self.queue.replace_first(parts)
        return True

    def _has_same_records(self, append: Append, parts: list[Append]) -> bool:
        """Whether an append was cut into parts with its records; otherwise the partition fails, unless it reports."""
        from twinlog.copier.proof.link import require_parts  # noqa: PLC0415 - numpy

        state = self._state
        try:
            require_parts(append, parts)
        except DifferenceError as error:
            if not state.report_difference(error):
                state.fail_partition(naming(error, state.source, state.remote))
                return False
        for part in parts:
            part.element = None if append.element is None else identify_append(part.data)
        return True

    def overdue(self, now: float) -> TwinlogError | None:
        """The error, once the first append has waited for its acknowledgement for `delivery.timeout.ms`.

        `now` is in monotonic seconds.
        """
        if not self.queue.overdue(now, self._rules.producer.delivery_timeout_ms / 1000):
            return None
        return refused_appends.overdue(self.queue.first, self._appending(), self._rules, self._state.trouble).error

    def _appending(self) -> Appending:
        next_target, late_appends = self._state.copied.acknowledged.next_target, self.queue.late.expected
        if self._state.rules.keep_offsets:
            # An assumed offset would hide a difference: the log is read.
            next_target = None
        return Appending(self._state.source, self._state.remote, self._state.transactional, next_target, late_appends)

    # Continuing at another position.

    def move_position(self, position: Position, runs: Sequence[CopiedRun] = ()) -> None:
        """Copying continues at `position`; `runs` had arrived before it."""
        self._state.copied.move_position(position, runs)
        self._open.drop_fetch()

    def set_producer(self, identity: ProducerIdentity, sequence: int, position: Position) -> None:
        """Drop the queue, and append as `identity` from `position` and a sequence number on."""
        self._state.clear_misplaced()
        # If every append was answered, the log that was just read contains all of them.
        most_bytes = self.queue.late_bytes_left if identity == self.queue.identity else None
        self.queue.clear(identity, sequence)
        self.expect_late(position, most_bytes)

    def expect_late(self, position: Position, most_bytes: int | None = None) -> None:
        """Appends of this partition's writer from before `position` may still arrive, with at most `most_bytes`."""
        if most_bytes is None:
            most_bytes = MAX_WINDOW * self._state.rules.max_batch_bytes
        self.queue.late.expect_appends(position.next_source, position.next_target or TargetOffset(0), most_bytes)

    def abort(self, identity: ProducerIdentity) -> bool:
        """The transaction was aborted and all its appends are answered.

        Returns whether the transaction had records of this partition.
        """
        copied = (
            not self.queue.idle
            or self._open.unit is not None
            or self._state.copied.acknowledged != self._state.copied.committed
        )
        self.queue.clear(identity)
        self._state.copied.abort()
        return copied

    def truncated(self, end: TargetOffset | None) -> None:
        """The target lost committed records from its offset `end` on; None if it lost no record."""
        if end is None:
            self._state.clear_misplaced()
        else:
            misplaced = self._state.misplaced or MisplacedAppends(end, self._state.copied.committed.next_source)
            misplaced.lower_end(end)
            self._state.set_misplaced(misplaced)

    def recommit_records(self, position: Position) -> None:
        """The lost records of committed transactions lie after `position`."""
        self._state.clear_misplaced()
        self._state.copied.recommit_records(position)
