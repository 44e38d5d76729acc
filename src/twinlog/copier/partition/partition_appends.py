"""The appends of one partition: from its queue to what the target acknowledged, refused, or put in the wrong place."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any, Protocol

from twinlog.batches.split import isolate, split_append
from twinlog.clock import Clock
from twinlog.copier.partition import produce_errors, unit
from twinlog.copier.partition.batch_limit import BatchLimit
from twinlog.copier.partition.copied_records import CopiedRecords, MisplacedAppends
from twinlog.copier.partition.dead_letters import RefusedAppend
from twinlog.copier.partition.hooks import CopierHooks
from twinlog.copier.partition.produce_errors import (
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
from twinlog.copier.partition.source_log import ReadAhead, SourcePosition
from twinlog.copier.partition.unit import PendingRoutedFetch
from twinlog.errors import TwinlogError
from twinlog.kafka.producer.append_queue import MAX_WINDOW, AppendQueue, ProducerIdentity
from twinlog.kafka.producer.appends import Append, PreparedFetch
from twinlog.kafka.producer.sent import SentAppend
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TargetOffset
from twinlog.settings.flow import ProducerSettings


class AppendsOwner(unit.RoutedFetchOwner, Protocol):
    """The partition that they belong to."""

    left: bool
    limit: BatchLimit
    read: SourcePosition
    read_ahead: ReadAhead

    def pause(self) -> None:
        """Read nothing: it is not known to be right on the target."""

    def clear_trouble(self) -> None:
        """The target took something."""

    def resolve_position(self) -> None:
        """Find the position anew from the remote log."""

    def left_out(self, kind: str, text: str) -> None:
        """A policy left a record out."""

    def leave_out(self, append: Append) -> None:
        """The record of a refused append is in the dead-letter topic: copy what follows."""


class PartitionAppends:
    """What of one partition waits in `queue`, and the records that were `copied`.

    `misplaced` is set when the target took an append at too small an offset: records that it lost are copied again
    first.
    """

    __slots__ = (
        "_hooks",
        "_now",
        "_open",
        "_owner",
        "_rules",
        "_transactional",
        "copied",
        "misplaced",
        "queue",
    )

    def __init__(
        self,
        owner: AppendsOwner,
        position: Position,
        identity: ProducerIdentity,
        *,
        producer: ProducerSettings,
        hooks: CopierHooks[Any],
        clock: Clock,
        sequence: int,
        queue: AppendQueue | None,
    ) -> None:
        """`sequence` is that of the next record that `identity` appends here. With `queue` others routed records here
        before, and it has the sequence numbers."""
        self.queue = (
            AppendQueue(
                owner.remote,
                identity,
                self._acknowledged,
                self._refused,
                now=clock.monotonic,
                max_in_flight=producer.max_in_flight,
                sequence=sequence,
            )
            if queue is None
            else queue.set_owner(self._acknowledged, self._refused)
        )
        self.copied = CopiedRecords(position, clock, hooks.tally, transactional=identity.transactional)
        self.misplaced: MisplacedAppends | None = None
        self._owner = owner
        self._hooks = hooks
        self._now = clock.monotonic
        self._rules = ProduceRules(producer, owner.rules.oversized, owner.rules.refused, hooks.target_lacks)
        self._transactional = identity.transactional
        self._open = PendingRoutedFetch(
            owner,
            self.queue,
            transactional=identity.transactional,
            route=hooks.route,
            moved=hooks.moved,
            now=clock.monotonic,
        )

    @property
    def arrived(self) -> bool:
        """Every append that was sent is acknowledged, at the offset where it belongs."""
        return self.queue.idle and self.misplaced is None and self._open.unit is None

    @property
    def waits_for_unit(self) -> bool:
        """Nothing is read until what a transform routed has arrived."""
        return self._open.unit is not None

    @property
    def waits_since(self) -> float:
        """Since when the target took nothing of what waits, in monotonic seconds; infinite where nothing does."""
        return self._open.waits_since if self.queue.idle else min(self.queue.waits_since, self._open.waits_since)

    # Into the queue, and out of it again.

    def append_fetch(self, begin: SourceOffset, prepared: PreparedFetch) -> None:
        """Append what was made of a fetch from source offset `begin` on."""
        self._hooks.keep([*prepared.appends, *prepared.routed])
        if not self._open.begin_fetch(begin, prepared):
            self._owner.count_fetch(prepared)
            self.append(prepared.appends)

    def append(self, own: list[Append]) -> None:
        """Append what was read, perhaps nothing."""
        if own:
            self.queue.put(own)
            self._hooks.offer(self.queue)
        else:
            self._catch_up()

    def drop_unsent(self) -> SourceOffset | None:
        """Drop what was not sent, and return the source offset from which it is read again; None where all of it has to
        be sent, as what was routed of the same fetch, or another part of a record, may have arrived."""
        again_from = self._open.drop_unsent()
        pending = self.queue.pending
        if not pending or self._open.unit is not None or pending[0].continues:
            return again_from
        again = pending[0].first_source_offset
        if again < self._open.routed_to or any(append.route is not None for append in pending):
            return again_from
        self.queue.drop_pending()
        return again

    def discard_unsent(self) -> None:
        """Drop what was not sent, for good, but for what has to follow something that was routed, or a part of what
        became of a record."""
        if not self._open.sends_all:
            self.queue.drop_pending()
            return
        unsent = self._open.drop_unsent()
        if unsent is not None:
            self._owner.read.seek_offset(unsent)

    def fail(self, *, refused: bool) -> bool:
        """Send nothing more, and wait for nothing that was routed; returns whether all that was sent is known to have
        arrived or not, and nothing of it may be taken back.

        With `refused` the target has refused what failed, if it was sent: it will not arrive.
        """
        routed = self._open.unit is not None or any(append.route is not None for append in self.queue.waiting())
        self._open.drop_fetch()
        self.queue.end()
        if not refused or routed or self.queue.unanswered or self.misplaced is not None:
            return False
        refused_at = None if self._transactional or self.queue.idle else self.queue.first.first_source_offset
        if refused_at is not None and refused_at > self.copied.acknowledged.next_source:
            # What was routed of the records before has arrived: it is not routed again.
            self.copied.pass_over(refused_at, self._owner.read.epoch)
        self.queue.drop_all()
        # What was read of it is not copied: the position must not pass over it.
        self._owner.read.seek_offset(self.copied.acknowledged.next_source)
        return True

    # What the target answers.

    def _acknowledged(self, append: Append, base_offset: TargetOffset) -> None:
        if append.route is not None:
            self._acknowledged_for_other(append, base_offset)
            return
        expected = self.copied.acknowledged.next_target
        if self.misplaced is not None or (expected is not None and base_offset < expected):
            self._note_misplaced(append, base_offset)
            return
        # In front of a transactional producer's first record may be what other transactions left: markers, aborted
        # records.
        if expected is not None and base_offset > expected and not self.copied.leeway:
            self._hooks.foreign(self._owner.remote, expected, base_offset)
        self._owner.clear_trouble()
        self.copied.add(append, base_offset, self._owner.read.epoch)
        self._open.end_if_arrived()
        self._catch_up()
        self._hooks.moved()
        if self._owner.read_ahead.acknowledged(self.queue.queued_bytes):
            self._hooks.more(self._owner.source)

    def _acknowledged_for_other(self, append: Append, base_offset: TargetOffset) -> None:
        """Another partition of this copier had records routed here, in the same transactions."""
        assert append.route is not None
        self.copied.passed_by(append.count, base_offset)
        append.route.count_acknowledged(append)
        self._open.end_if_arrived()
        self._catch_up()
        self._hooks.moved()

    def _note_misplaced(self, append: Append, base_offset: TargetOffset) -> None:
        """The target lost acknowledged records and sequence numbers, and took an append at too small an offset."""
        first = self.misplaced is None
        if self.misplaced is None:
            self._owner.pause()
            self.queue.close_gate()
            self._owner.report_trouble(f"target: it appended at offset {base_offset}, before acknowledged records")
            self.misplaced = MisplacedAppends(base_offset, append.next_source_offset)
        self.misplaced.add(append, base_offset)
        if first:
            self._owner.resolve_position()
        self._hooks.moved()

    def _catch_up(self) -> None:
        """Where nothing is in flight the position moves over what was skipped since the last append."""
        if (
            self.queue.idle
            and (not self._owner.left or self._open.sends_all)
            and self._open.unit is None
            and self.copied.pass_over(self._owner.read.offset, self._owner.read.epoch)
        ):
            self._hooks.moved()

    def _refused(self, sent: SentAppend) -> None:
        """The first append in the window was refused or got no answer, and nothing is in flight."""
        match produce_errors.decide(sent, self._appending(), self._rules, random.random()):
            case Retry(pause_s, reason):
                self._owner.report_trouble(reason)
                self.queue.retry_failed(self._now() + pause_s)
                self._hooks.leaderless()
            case Resolve(reason):
                self._owner.report_trouble(reason)
                self._owner.resolve_position()
                return
            case Accept(base_offset):
                self.queue.accept_first(base_offset)
            case Split(into_bytes, limit_bytes):
                if not self._split(sent.append, into_bytes, limit_bytes):
                    return
            case Isolate(numbers):
                if not self._replace(sent.append, isolate(sent.append, numbers, self._owner.rules)):
                    return
            case Skip(kind, reason, limit_bytes):
                if limit_bytes is not None:
                    self._owner.limit.lower_limit(limit_bytes)
                self._owner.left_out(kind, reason)
                self.leave_out(sent.append)
            case WriteDeadLetter() as decision:
                # Nothing is sent until the record is in the dead-letter topic, or this append is cleared away.
                self.queue.retry_failed(inf)
                append = sent.append
                refused = RefusedAppend(
                    self.queue, append, decision, lambda: self._owner.leave_out(append), self._owner.fail_partition
                )
                self._hooks.dead_letter(self._owner, refused)
                return
            case FailAppend(error):
                self._owner.fail_partition(error)
                return
        self._hooks.offer(self.queue)

    def _split(self, append: Append, into_bytes: int, limit_bytes: int) -> bool:
        """Put smaller batches in the place of the first append; False where its transaction begins anew instead."""
        self._owner.limit.lower_limit(limit_bytes)
        return self._replace(append, split_append(append, replace(self._owner.limit.rules, max_batch_bytes=into_bytes)))

    def leave_out(self, append: Append) -> None:
        """The first append is not sent again; nothing happens where it is not the first any more."""
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
        # A transaction waits for all that was routed anyway.
        elif self._open.unit is None and any(part.continues for part in parts[1:]):
            # What became of a record is in several batches now: in one transaction, or all sent once begun.
            # Once the partition has left, what was not sent is dropped, and the position stays before it.
            self._open.sends_all = self._open.sends_all or not self._owner.left
            if self._transactional:
                self._owner.report_trouble(f"target: it does not take a batch of {append.bytes} bytes as it is")
                self._owner.resolve_position()
                return False
        self._hooks.keep(parts)
        self.queue.replace_first(parts)
        return True

    def overdue(self, now: float) -> TwinlogError | None:
        """The error, once the first append has waited for its acknowledgement for `delivery.timeout.ms`.

        `now` is in monotonic seconds.
        """
        if not self.queue.overdue(now, self._rules.producer.delivery_timeout_ms / 1000):
            return None
        return produce_errors.overdue(self.queue.first, self._appending(), self._rules, self._owner.trouble).error

    def _appending(self) -> Appending:
        next_target, late_appends = self.copied.acknowledged.next_target, self.queue.late.expected
        return Appending(self._owner.source, self._owner.remote, self._transactional, next_target, late_appends)

    # Continuing at another position.

    def move_position(self, position: Position, runs: Sequence[CopiedRun] = ()) -> None:
        """Copying continues at `position`; `runs` had arrived before it."""
        self.copied.move_position(position, runs)
        self._open.drop_fetch()

    def set_producer(self, identity: ProducerIdentity, sequence: int, position: Position) -> None:
        """Drop the queue, and append as `identity` from `position` and a sequence number on."""
        self.misplaced = None
        # If every append was answered, the log that was just read contains them all.
        most_bytes = self.queue.late_bytes_left if identity == self.queue.identity else None
        self.queue.clear(identity, sequence)
        self.expect_late(position, most_bytes)

    def expect_late(self, position: Position, most_bytes: int | None = None) -> None:
        """Appends of this partition's writer from before `position` may still arrive, of so many bytes at most."""
        if most_bytes is None:
            most_bytes = MAX_WINDOW * self._owner.rules.max_batch_bytes
        self.queue.late.expect_appends(position.next_source, most_bytes)

    def abort(self, identity: ProducerIdentity) -> bool:
        """The transaction was aborted, nothing of it is in flight; whether anything was copied in it."""
        copied = not self.queue.idle or self._open.unit is not None or self.copied.acknowledged != self.copied.committed
        self.queue.clear(identity)
        self.copied.abort()
        return copied

    def truncated(self, end: TargetOffset | None) -> None:
        """The target lost committed records from its offset `end` on, or none (None)."""
        if end is None:
            self.misplaced = None
        else:
            self._owner.pause()
            self.misplaced = self.misplaced or MisplacedAppends(end, self.copied.committed.next_source)
            self.misplaced.lower_end(end)

    def recommit_records(self, position: Position) -> None:
        """What the target lost of committed transactions lies after `position`."""
        self.misplaced = None
        self.copied.recommit_records(position)
