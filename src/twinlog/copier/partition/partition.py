"""A source partition while a task copies it: fetched records become appends, until the partition leaves or fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twinlog.batches.prepare import prepare as copy_as_it_is
from twinlog.clock import Clock
from twinlog.copier.partition import fetch_errors
from twinlog.copier.partition.batch_limit import BatchLimit, left_out, naming
from twinlog.copier.partition.copied_records import MisplacedAppends
from twinlog.copier.partition.counters import CopyCounts
from twinlog.copier.partition.fetch_errors import CheckSource, FailFetch, PauseFetch
from twinlog.copier.partition.hooks import CopierHooks
from twinlog.copier.partition.left_out_records import LeftOutRecords
from twinlog.copier.partition.partition_appends import PartitionAppends
from twinlog.copier.partition.source_log import ReadAhead, SourcePosition
from twinlog.errors import EngineLostError, NotAcknowledgedError, RecordTooLargeError, TwinlogError
from twinlog.kafka.producer.append_queue import AppendQueue, ProducerIdentity
from twinlog.kafka.producer.appends import Append, CopyRules, Prepare, PreparedFetch
from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.lease.grant import Grant
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition
from twinlog.settings.flow import ProducerSettings


class PartitionCopy:
    """Reads, prepares and appends a partition; further work is requested from its copier through `hooks`.

    Other classes read its fields; only its own methods change them.
    """

    def __init__(
        self,
        grant: Grant,
        position: Position,
        rules: CopyRules,
        identity: ProducerIdentity,
        *,
        producer: ProducerSettings,
        hooks: CopierHooks[PartitionCopy],
        clock: Clock,
        sequence: int = 0,
        prepare: Prepare = copy_as_it_is,
        queue: AppendQueue | None = None,
    ) -> None:
        """`prepare` makes appends of fetches. `sequence` and `queue` are as in `PartitionAppends`."""
        self.grant = grant
        self.source: TopicPartition = grant.source
        self.remote: TopicPartition = grant.remote
        self.limit = BatchLimit(rules, grant.max_batch_bytes)
        self.transactional = identity.transactional
        self.read = SourcePosition(position, grant.topic_id)
        # A failed transaction leaves no visible records, and only a transform routes records. So both cases skip the
        # trial.
        careful = grant.on_trial and not self.transactional and prepare is not copy_as_it_is
        self.read_ahead = ReadAhead(on_trial=careful)
        self.paused = False
        self.left = False
        self.failed = False
        self.trouble: str | None = None
        self._now = clock.monotonic
        self._hooks = hooks
        self._unstored = False
        self._prepare = prepare
        self._left_out = LeftOutRecords(self.source, hooks.event, hooks.tally, log_all=hooks.log_left_out)
        self._appends = PartitionAppends(
            self, position, identity, producer=producer, hooks=hooks, clock=clock, sequence=sequence, queue=queue
        )
        self.queue = self._appends.queue
        self.copied = self._appends.copied

    # The position.

    @property
    def acknowledged(self) -> Position:
        """The position after the last append that the target acknowledged."""
        return self.copied.acknowledged

    @property
    def committed(self) -> Position:
        """The position after the last committed transaction."""
        return self.copied.committed

    @property
    def durable(self) -> Position:
        """The position up to which this partition is copied for good."""
        return self.copied.durable

    @property
    def lag(self) -> int:
        """Source offsets up to the end that a consumer may read; -1 before the first fetch."""
        return -1 if self.read.end < 0 else max(0, self.read.end - self.durable.next_source)

    @property
    def held_back(self) -> bool:
        """Reading is held back, because too many of its records are queued or other partitions need the memory."""
        return self.read_ahead.held_back

    @property
    def waits_since(self) -> float:
        """The time since which the target has taken none of the waiting appends, in monotonic seconds.

        The time is infinite if nothing waits.
        """
        return self._appends.waits_since

    @property
    def at_rest(self) -> bool:
        """All appends, checks, and transactions with records of this partition are over."""
        return self.arrived and not self.copied.in_transaction and not self._unstored

    @property
    def arrived(self) -> bool:
        """Every sent append is acknowledged, at its expected offset."""
        return self._appends.arrived

    @property
    def misplaced(self) -> MisplacedAppends | None:
        """Set when the target took an append at too small an offset: the lost records are copied again first."""
        return self._appends.misplaced

    @property
    def rules(self) -> CopyRules:
        """The rules for building its batches."""
        return self.limit.rules

    def grant_again(self) -> Grant:
        """The grant to begin again after the acknowledged records; more appends may be in flight."""
        return replace(self.grant, position=self.acknowledged, drained=False)

    # Methods for its copier.

    def pause(self) -> None:
        """Stop reading until `resume` or `seek`."""
        self.paused = True

    def resume(self) -> None:
        """Read again, unless this partition failed, was released, or its position on the target is in doubt."""
        if not self.left and not self.failed and not self._unstored and self.misplaced is None:
            self.paused = False
            self._hooks.more(self.source)

    def seek(self, position: Position) -> None:
        """Read on from `position`, after a gap or a resolve; the caller clears the queue before."""
        self._move(position)
        self.resume()

    def report_trouble(self, trouble: str) -> None:
        """Report `trouble` until the next success."""
        self.trouble = trouble

    def clear_trouble(self) -> None:
        """The target took an append, so the trouble is over."""
        self.trouble = None

    def stop_reading(self) -> None:
        """Stop reading and drop the unsent records; appends in flight may still be acknowledged.

        Unsent records are still sent if a part of their fetch was routed, or a part of their record was sent, and may
        have arrived.
        """
        self.left = True
        self.paused = True
        self._appends.discard_unsent()

    def close(self) -> None:
        """Stop sending."""
        self.queue.end()

    def fail_partition(self, error: TwinlogError) -> None:
        """Stop this partition for good and report the error."""
        self.paused = True
        self.failed = True
        self.trouble = str(error)
        # Within a transaction, an abort also ends the appends that may still arrive.
        if not self._appends.fail(refused=not isinstance(error, NotAcknowledgedError)) and self.transactional:
            self._hooks.abort(self)
        self._hooks.failed(self, error)

    def take_runs(self) -> list[CopiedRun]:
        """Source and target offsets of the records acknowledged since the last call."""
        return self.copied.runs.take_runs()

    def take_counts(self) -> CopyCounts:
        """Counts since the last call."""
        return self.copied.take_counts()

    def set_generation(self, generation: int) -> None:
        """The exact map of this partition is in another generation."""
        self.copied.set_generation(generation)

    def set_writer(self, writer: Writer, position: Position, runs: Sequence[CopiedRun] = ()) -> None:
        """Prepare to append as `writer` from `position` on, after `runs`; drops the queue.

        Appends of this writer, from here or from another copier, may still arrive. The partition reads again after
        `stored`.
        """
        self.paused = self._unstored = True
        self._appends.set_producer(ProducerIdentity(writer.producer_id, writer.epoch), writer.sequence, position)
        self._move(replace(position, writer=writer), runs)

    def stored(self) -> None:
        """The new writer is stored for the next copier: continue."""
        self._unstored = False
        self.resume()

    def expect_late_appends(self, position: Position) -> None:
        """Appends of this partition's writer from before `position` may still arrive."""
        self._appends.expect_late(position)

    def resolve_position(self) -> None:
        """Have the position found again from the remote log."""
        self._hooks.resolve(self)

    def check_overdue(self, now: float) -> None:
        """Fail when the first append has waited for its acknowledgement for `delivery.timeout.ms`.

        `now` is in monotonic seconds.
        """
        if not self.failed and not self.left and (error := self._appends.overdue(now)) is not None:
            self.fail_partition(error)

    def _move(self, position: Position, runs: Sequence[CopiedRun] = ()) -> None:
        self._appends.move_position(position, runs)
        self.read.seek(position)
        self.read_ahead.reset()
        self.trouble = None

    # Reading.

    def fetch_position(self, read_ahead: int) -> FetchPosition | None:
        if self.paused or self._appends.waits_for_unit:
            self.read_ahead.clear_hold()
            return None
        if self.read_ahead.is_full(self.queue.queued_bytes, read_ahead, self._now()):
            return None
        return self.read.next_fetch()

    def add_answer(self, asked: FetchPosition, fetched: PartitionResponse) -> None:
        """Take an answer of the source."""
        read = self.read
        if self.paused or self._appends.waits_for_unit:
            return
        if asked.offset != read.offset or asked.topic_id != read.topic_id:
            return
        if fetched.error or fetched.diverging_epoch >= 0:
            self._not_fetched(fetched)
            return
        if self.trouble is not None and not self.trouble.startswith("target"):
            self.trouble = None
        read.record_fetch(fetched, read_committed=self.limit.rules.read_committed, now=self._now())
        prepared = self._prepared(fetched) if fetched.records else None
        if prepared is None:
            return
        begin = read.offset
        read.skip_to(prepared.position, prepared.leader_epoch)
        self.copied.read(len(fetched.records), prepared.appends, prepared.roads)
        self._appends.append_fetch(begin, prepared)

    def count_fetch(self, prepared: PreparedFetch) -> None:
        """Count and report the final results of a fetch."""
        self.copied.left_out(prepared.aborted, prepared.control)
        for record in prepared.oversized:
            self.left_out("oversized", left_out(self.source, record.source_offset, f"{record.size} bytes"))
        self._left_out.count_fetch(prepared)

    def _prepared(self, fetched: PartitionResponse) -> PreparedFetch | None:
        """The appends of an answer; None if the answer is read again later, or the partition failed."""
        rules = self.limit.rules
        # Few batches may be in flight together, so each batch is built large when more records wait.
        behind = self.queue.pending or len(fetched.records) > rules.merge_batch_bytes
        if behind and self._hooks.far_target():
            rules = rules.merging_all()
        if (most := self.read_ahead.next_records()) is not None:
            rules = replace(rules, most_records=most)
        try:
            prepared = self._prepare(fetched.records, self.read.offset, rules, fetched.aborted)
        except EngineLostError as error:
            self.paused = True
            self.report_trouble(f"transform: {error}")
            self._hooks.unready(self)
            return None
        except TwinlogError as error:
            if not isinstance(error, RecordTooLargeError) or not self._must_ask_limit():
                self.fail_partition(naming(error, self.source, self.remote))
            return None
        return None if prepared.oversized and self._must_ask_limit() else prepared

    def left_out(self, kind: str, text: str) -> None:
        """A policy left a record out."""
        self._left_out.leave_out(kind, text)

    def leave_out(self, append: Append) -> None:
        """Continue after the record of a refused append, which is in the dead-letter topic."""
        self.trouble = None
        self._appends.leave_out(append)
        self._hooks.offer(self.queue)

    def append(self, own: list[Append]) -> None:
        """Append the appends that waited for routed records.

        With an empty list, the position moves over skipped records.
        """
        self._appends.append(own)

    def resume_reading(self) -> None:
        """Read again, because all routed records are acknowledged."""
        self._hooks.more(self.source)

    def read_again(self, offset: SourceOffset) -> None:
        """Read again from a source offset on; the appends made of its records are dropped."""
        self.read.seek_offset(offset)
        self._hooks.more(self.source)

    def count_routed(self, append: Append) -> None:
        """The target acknowledged an append of this partition that was routed to another partition."""
        self.trouble = None
        self.copied.routed(append)
        if self.read_ahead.acknowledged(self.queue.queued_bytes):
            self._hooks.more(self.source)

    def free_memory(self, now: float) -> None:
        """Free memory for other partitions.

        Unsent appends are dropped at `now` (monotonic seconds) and read again later.
        """
        again = None if self.left else self._appends.drop_unsent()
        if again is not None:
            self.read_ahead.back_off(now)
            # The reader may wait at the end of the log and must learn the new offset.
            self.read_again(again)

    def take_limit(self, topic_bytes: int | None) -> None:
        """Continue with the current limit of the remote topic, None if the limit is unknown."""
        self.limit.set_topic_bytes(topic_bytes, self._now())
        self.resume()

    def _must_ask_limit(self) -> bool:
        """Whether the remote topic must be asked for its limit first; the last answer is then read again."""
        if self.limit.sure(self._now()):
            return False
        self.paused = True
        self._hooks.limit(self)
        return True

    def _not_fetched(self, fetched: PartitionResponse) -> None:
        match fetch_errors.decide(fetched, self.source, self._hooks.source_lacks):
            case FailFetch(error):
                self.fail_partition(error)
            case CheckSource(end, reason):
                self.paused = True
                self.trouble = reason or self.trouble
                self._hooks.check(self, end)
            case PauseFetch(reason):
                self.paused = True
                self.trouble = reason
                self._hooks.pause(self, self.read.refused())

    # Transactions.

    def commit(self, position: Position) -> None:
        """The transaction with this position was committed."""
        self.copied.commit(position)

    def abort(self, identity: ProducerIdentity) -> None:
        """The transaction was aborted and all its appends are answered: copy on from the last committed position."""
        copied = self._appends.abort(identity)
        if self.misplaced is not None:
            self._move(self.committed)
            self._hooks.lost(self)
        elif copied:
            self.seek(self.committed)

    def truncated(self, end: TargetOffset | None) -> None:
        """The target lost committed records from its offset `end` on; None if it lost no record."""
        self._appends.truncated(end)

    def copy_again(self, position: Position) -> None:
        """The target lost records of committed transactions after `position`: copy from there."""
        self._appends.recommit_records(position)
        self.seek(position)
