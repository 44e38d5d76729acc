"""One source partition while a task copies it: reads, prepares and appends its batches, and handles their errors."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from twinlog.clock import Clock
from twinlog.errors import EngineLostError, RecordTooLargeError, TwinlogError
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.lease.grant import Grant
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition
from twinlog.offsets.exact import Run
from twinlog.offsets.positions import Position, Writer
from twinlog.settings.flow import ProducerSettings
from twinlog.task import produce_errors
from twinlog.task.batch_limit import BatchLimit
from twinlog.task.copied_records import CopiedRecords
from twinlog.task.counts import CopyCounts
from twinlog.task.hooks import Hooks
from twinlog.task.misplaced import Misplaced
from twinlog.task.oversized import naming, skipped
from twinlog.task.produce_errors import Accept, Appending, Fail, ProduceRules, Resolve, Retry, Skip, Split
from twinlog.task.read_ahead import ReadAhead
from twinlog.task.source_position import SourcePosition
from twinlog.task.transformed import Transformed
from twinlog.task.unit import OpenUnit
from twinlog.write.appends import Append, CopyRules, Prepare
from twinlog.write.prepare import prepare
from twinlog.write.queue import MAX_WINDOW, AppendQueue, ProducerIdentity
from twinlog.write.sent import Sent
from twinlog.write.split import split_append


class PartitionCopy:
    """Reads, prepares and appends one partition; what it cannot do itself it asks of its copier through `hooks`.

    Others read its fields; only its own methods change them.
    """

    def __init__(
        self,
        grant: Grant,
        position: Position,
        rules: CopyRules,
        identity: ProducerIdentity,
        *,
        producer: ProducerSettings,
        hooks: Hooks[PartitionCopy],
        clock: Clock,
        sequence: int = 0,
        prepare: Prepare = prepare,
        queue: AppendQueue | None = None,
    ) -> None:
        """`sequence` is that of the next record that `identity` appends here. `prepare` makes appends of fetches. With
        `queue` others routed records here before, and it has the sequence numbers."""
        self.grant = grant
        self.source: TopicPartition = grant.source
        self.remote: TopicPartition = grant.remote
        self.limit = BatchLimit(rules, grant.max_batch_bytes)
        self.queue = (
            AppendQueue(
                self.remote,
                identity,
                self._acknowledged,
                self._refused,
                now=clock.monotonic,
                max_in_flight=producer.max_in_flight,
                sequence=sequence,
            )
            if queue is None
            else queue.adopt(self._acknowledged, self._refused)
        )
        self.transactional = identity.transactional
        self.read = SourcePosition(position, grant.topic_id)
        self.copied = CopiedRecords(position, clock, hooks.tally, transactional=identity.transactional)
        self.paused = False
        self.left = False
        self.failed = False
        self.trouble: str | None = None
        self.misplaced: Misplaced | None = None
        """Set when the target took an append at too small an offset: records that it lost are copied again first."""
        self._now = clock.monotonic
        self._hooks = hooks
        self._rules = ProduceRules(producer, rules.oversized, hooks.target_lacks)
        self._read_ahead = ReadAhead()
        self._unstored = False
        self._prepare = prepare
        self._transformed = Transformed(self.source, hooks.event, hooks.tally)
        self._open = OpenUnit(self, self.queue, transactional=self.transactional, route=hooks.route, moved=hooks.moved)

    # Where it is.

    @property
    def acknowledged(self) -> Position:
        """Behind the last append that the target acknowledged."""
        return self.copied.acknowledged

    @property
    def committed(self) -> Position:
        """Behind the last transaction that was committed."""
        return self.copied.committed

    @property
    def durable(self) -> Position:
        """How far this partition is copied for good."""
        return self.copied.durable

    @property
    def lag(self) -> int:
        """Source offsets up to the end that a consumer may read; -1 before the first fetch."""
        return -1 if self.read.end < 0 else max(0, self.read.end - self.durable.next_source)

    @property
    def held_back(self) -> bool:
        """It is not read, because too much of it is queued or others need the room."""
        return self._read_ahead.held_back

    @property
    def at_rest(self) -> bool:
        """No append is in flight, no check runs, and no transaction with records of this partition is open."""
        return self.arrived and not self.copied.in_transaction and not self._unstored

    @property
    def arrived(self) -> bool:
        """Every append that was sent is acknowledged, at the offset where it belongs."""
        return self.queue.idle and self.misplaced is None and self._open.unit is None

    @property
    def rules(self) -> CopyRules:
        """By which its batches are built."""
        return self.limit.rules

    def grant_again(self) -> Grant:
        """The grant to begin again behind what is known to have arrived; more may be on its way."""
        return replace(self.grant, position=self.acknowledged, drained=False)

    # What its copier calls.

    def pause(self) -> None:
        """Read nothing, until `resume` or `seek`."""
        self.paused = True

    def resume(self) -> None:
        """Read again, unless this partition failed, was released, or is not known to be right on the target."""
        if not self.left and not self.failed and not self._unstored and self.misplaced is None:
            self.paused = False
            self._hooks.more(self.source)

    def seek(self, position: Position) -> None:
        """Read on from `position`, after a gap or a resolve; what was queued must be cleared before."""
        self._move(position)
        self.resume()

    def hinder(self, trouble: str) -> None:
        """Report `trouble` until the next success."""
        self.trouble = trouble

    def leave(self) -> None:
        """Stop reading and drop what was read but not sent; appends in flight may still be acknowledged.

        Where some of it was routed elsewhere, or is a part of what became of a record, and may have arrived, the rest
        is still sent.
        """
        self.left = True
        self.paused = True
        unit = self._open.unit
        if not self._open.sends_all:
            self.queue.drop_pending()
        elif unit is not None and not unit.sent:
            self.read.back(unit.begin)
            self._open.unit = None

    def close(self) -> None:
        """Send nothing more."""
        self.queue.end()

    def fail(self, error: TwinlogError) -> None:
        """Stop this partition for good and report why."""
        self.paused = True
        self.failed = True
        self._open.unit = None
        self.queue.end()
        self.trouble = str(error)
        self._hooks.failed(self.source, error)

    def take_runs(self) -> list[Run]:
        """Source and target offsets of the records acknowledged since the last call."""
        return self.copied.runs.take()

    def take_counts(self) -> CopyCounts:
        """Counts since the last call."""
        return self.copied.take_counts()

    def mark(self, generation: int) -> None:
        """The exact map of this partition is in another generation."""
        self.copied.mark(generation)

    def become(self, writer: Writer, position: Position, runs: Sequence[Run] = ()) -> None:
        """Prepare to append as `writer` from `position` on, behind `runs`; drops the queue.

        Appends of this writer, from here or elsewhere, may still arrive. Until `stored` nothing is read.
        """
        self.paused = self._unstored = True
        self.misplaced = None
        identity = ProducerIdentity(writer.producer_id, writer.epoch)
        # Where every append was answered, the log that was just read has them, and they count.
        most_bytes = self.queue.late_bytes_left if identity == self.queue.identity else None
        self.queue.clear(identity, writer.sequence)
        self.expect_late_appends(position, most_bytes)
        self._move(replace(position, writer=writer), runs)

    def stored(self) -> None:
        """The new writer is stored for the next copier: go on."""
        self._unstored = False
        self.resume()

    def expect_late_appends(self, position: Position, most_bytes: int | None = None) -> None:
        """Appends of this partition's writer from before `position` may still arrive, of so many bytes at most."""
        if most_bytes is None:
            most_bytes = MAX_WINDOW * self.limit.rules.max_batch_bytes
        self.queue.late.expect(position.next_source, most_bytes)

    def _move(self, position: Position, runs: Sequence[Run] = ()) -> None:
        self.copied.move(position, runs)
        self.read.seek(position)
        self._read_ahead.reset()
        self.trouble = None
        self._open.unit = None

    # Read.

    def fetch_position(self, read_ahead: int) -> FetchPosition | None:
        if self.paused or self._open.unit is not None:
            self._read_ahead.release()
            return None
        if self._read_ahead.is_full(self.queue.queued_bytes, read_ahead, self._now()):
            return None
        return self.read.next_fetch()

    def deliver(self, asked: FetchPosition, fetched: PartitionResponse) -> None:
        """Take one answer of the source."""
        read, rules = self.read, self.limit.rules
        if self.paused or self._open.unit is not None:
            return
        if asked.offset != read.offset or asked.topic_id != read.topic_id:
            return
        if fetched.error or fetched.diverging_epoch >= 0:
            self._not_fetched(fetched)
            return
        if self.trouble is not None and not self.trouble.startswith("target"):
            self.trouble = None
        read.answered(fetched, read_committed=rules.read_committed, now=self._now())
        if not fetched.records:
            return
        # So few batches may be in flight together, so each is built large when more wait.
        behind = self.queue.pending or len(fetched.records) > rules.merge_batch_bytes
        if behind and self._hooks.far_target():
            rules = rules.merging_all()
        try:
            prepared = self._prepare(fetched.records, read.offset, rules, fetched.aborted)
        except EngineLostError as error:
            self.paused = True
            self.hinder(f"transform: {error}")
            self._hooks.unready(self)
            return
        except TwinlogError as error:
            if not isinstance(error, RecordTooLargeError) or not self._must_ask_limit():
                self.fail(naming(error, self.source, self.remote))
            return
        if prepared.oversized and self._must_ask_limit():
            return
        begin = read.offset
        read.passed(prepared.position, prepared.leader_epoch)
        self.copied.left_out(prepared.aborted, prepared.control)
        self.copied.read(len(fetched.records), prepared.appends, prepared.roads)
        for record in prepared.oversized:
            self._hooks.event("oversized", skipped(self.source, record.source_offset, record.size))
        self._transformed.take(prepared)
        if not self._open.begin(begin, prepared):
            self.append(prepared.appends)

    def append(self, own: list[Append]) -> None:
        """Append what was read, perhaps nothing."""
        if own:
            self._hooks.keep(own)
            self.queue.put(own)
            self._hooks.offer(self.queue)
        else:
            self._catch_up()

    def go_on(self) -> None:
        """Read again: it waits for no routed records any more."""
        self._hooks.more(self.source)

    def routed(self, append: Append) -> None:
        """The target acknowledged an append of this partition that was routed to another one."""
        self.trouble = None
        self.copied.routed(append)

    def give_way(self, now: float) -> None:
        """Make room for others: what was not sent yet is dropped at `now` (monotonic seconds) and read again later."""
        pending = self.queue.pending
        if not pending or self.left or self._open.unit is not None or pending[0].continues:
            return
        again = pending[0].first_source_offset
        if again >= self._open.routed_to and all(append.route is None for append in pending):
            self.read.back(again)
            self.queue.drop_pending()
            self._read_ahead.give_way(now)
            # The reader may wait at the end of the log and must learn of the new offset.
            self._hooks.more(self.source)

    def take_limit(self, topic_bytes: int | None) -> None:
        """Go on with what the remote topic takes now, None if that is unknown."""
        self.limit.confirm(topic_bytes, self._now())
        self.resume()

    def _must_ask_limit(self) -> bool:
        """Whether the remote topic has to be asked first; what was read is read again then."""
        if self.limit.sure(self._now()):
            return False
        self.paused = True
        self._hooks.limit(self)
        return True

    def _not_fetched(self, fetched: PartitionResponse) -> None:
        code = fetched.error
        if error_codes.refused(code):
            self.fail(self._hooks.source_lacks("READ", f"topic {self.source.topic}", "copying it"))
            return
        self.paused = True
        if fetched.diverging_epoch >= 0 or code == Code.OFFSET_OUT_OF_RANGE:
            self._hooks.check(self, SourceOffset(fetched.diverging_end if fetched.diverging_epoch >= 0 else -1))
            return
        self.trouble = f"source: {error_codes.name_of(code)}"
        if code in (Code.UNKNOWN_TOPIC_ID, Code.INCONSISTENT_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION):
            self._hooks.check(self, None)
        else:
            self._hooks.pause(self, self.read.refused())

    # Append.

    def _acknowledged(self, append: Append, base_offset: TargetOffset) -> None:
        if append.route is not None:
            self._acknowledged_for_other(append, base_offset)
            return
        expected = self.acknowledged.next_target
        if self.misplaced is not None or (expected is not None and base_offset < expected):
            self._note_misplaced(append, base_offset)
            return
        # In front of a transactional producer's first record may be what other transactions left: markers, aborted
        # records.
        if expected is not None and base_offset > expected and not self.copied.leeway:
            self._hooks.foreign(self.remote, expected, base_offset)
        self.trouble = None
        self.copied.add(append, base_offset, self.read.epoch)
        self._open.end_if_arrived()
        self._catch_up()
        self._hooks.moved()
        if self._read_ahead.acknowledged(self.queue.queued_bytes):
            self._hooks.more(self.source)

    def _acknowledged_for_other(self, append: Append, base_offset: TargetOffset) -> None:
        """Another partition of this copier had records routed here, in the same transactions."""
        assert append.route is not None
        self.copied.passed_by(append.count, base_offset)
        append.route.acknowledged(append)
        self._open.end_if_arrived()
        self._catch_up()
        self._hooks.moved()

    def _note_misplaced(self, append: Append, base_offset: TargetOffset) -> None:
        """The target lost acknowledged records and sequence numbers, and took an append at too small an offset."""
        first = self.misplaced is None
        if self.misplaced is None:
            self.paused = True
            self.queue.shut()
            self.trouble = f"target: it appended at offset {base_offset}, before acknowledged records"
            self.misplaced = Misplaced(base_offset, append.next_source_offset)
        self.misplaced.add(append, base_offset)
        if first:
            self._hooks.resolve(self)
        self._hooks.moved()

    def _catch_up(self) -> None:
        """Where nothing is in flight the position moves over what was skipped since the last append."""
        if (
            self.queue.idle
            and (not self.left or self._open.sends_all)
            and self._open.unit is None
            and self.copied.pass_over(self.read.offset, self.read.epoch)
        ):
            self._hooks.moved()

    def _refused(self, sent: Sent) -> None:
        """The first append in the window was refused or got no answer, and nothing is in flight."""
        match produce_errors.decide(sent, self._appending(), self._rules, random.random()):
            case Retry(pause_s, reason):
                self.trouble = reason
                self.queue.retry(self._now() + pause_s)
                self._hooks.leaderless()
            case Resolve(reason):
                self.trouble = reason
                self._hooks.resolve(self)
                return
            case Accept(base_offset):
                self.queue.accept_first(base_offset)
            case Split(into_bytes, limit_bytes):
                self.limit.lower(limit_bytes)
                rules = replace(self.limit.rules, max_batch_bytes=into_bytes)
                parts = split_append(sent.append, rules)
                if sent.append.route is not None:
                    sent.append.route.split(len(parts) - 1)
                self.queue.replace_first(parts)
            case Skip(limit_bytes, reason):
                self.limit.lower(limit_bytes)
                self._hooks.event("oversized", reason)
                self.queue.replace_first([])
                if sent.append.route is not None:
                    sent.append.route.acknowledged(sent.append)
                self._open.end_if_arrived()
                self._catch_up()
            case Fail(error):
                self.fail(error)
                return
        self._hooks.offer(self.queue)

    def check_overdue(self, now: float) -> None:
        """Fail when the first append has waited for its acknowledgement for `delivery.timeout.ms`.

        `now` is in monotonic seconds.
        """
        limit_s = self._rules.producer.delivery_timeout_ms / 1000
        if not self.failed and not self.left and self.queue.overdue(now, limit_s):
            self.fail(produce_errors.overdue(self.queue.first, self._appending(), self._rules, self.trouble).error)

    def _appending(self) -> Appending:
        late_appends, next_target = self.queue.late.expected, self.acknowledged.next_target
        return Appending(self.source, self.remote, self.transactional, next_target, late_appends)

    # Transactions.

    def commit(self, position: Position) -> None:
        """The transaction with this position was committed."""
        self.copied.commit(position)

    def abort(self, identity: ProducerIdentity) -> None:
        """The transaction was aborted, nothing of it is in flight: copy on from the last committed position."""
        rested = self.queue.idle and self._open.unit is None and self.acknowledged == self.committed
        self.queue.clear(identity)
        self.copied.abort()
        if self.misplaced is not None:
            self._move(self.committed)
            self._hooks.lost(self)
        elif not rested:
            self.seek(self.committed)

    def truncated(self, end: TargetOffset | None) -> None:
        """The target lost committed records from its offset `end` on, or none (None)."""
        if end is None:
            self.misplaced = None
        else:
            self.paused = True
            self.misplaced = self.misplaced or Misplaced(end, self.committed.next_source)
            self.misplaced.reach(end)

    def copy_again(self, position: Position) -> None:
        """The target lost records of committed transactions behind `position`: copy from there."""
        self.misplaced = None
        self.copied.recommit(position)
        self.seek(position)
