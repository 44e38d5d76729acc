"""A source partition while a task copies it: fetched records become appends, until the partition leaves or fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from twinlog.batches.prepare import prepare as copy_as_it_is
from twinlog.copier.partition.appends import PartitionAppends, PartitionServices
from twinlog.copier.partition.batch_limit import BatchLimit
from twinlog.copier.partition.copied_records import CopiedRecords, MisplacedAppends
from twinlog.copier.partition.copy_state import CopyState
from twinlog.copier.partition.fetch_preparation import FetchPreparation
from twinlog.copier.partition.life import (
    AbortTransaction,
    CheckSource,
    CopyAgain,
    FailPartition,
    HoldPartition,
    PartitionLife,
    PartitionPhase,
    PartitionRequest,
    PauseFetch,
)
from twinlog.copier.partition.source_log import (
    ReadAhead,
    SourcePosition,
    decide_fetch_error,
)
from twinlog.copier.proof.partition_proof import PartitionProof
from twinlog.errors import (
    CorruptBatchError,
    DifferenceError,
    DivergedError,
    NotAcknowledgedError,
    TwinlogError,
)
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appends import Append, CopyRules, Prepare, PreparedFetch
from twinlog.kafka.protocol.fetch import FetchPosition, PartitionResponse
from twinlog.kafka.record.batch import read_last_batch, timestamp_at
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.lease.messages import Grant
from twinlog.lease.progress import PartitionCounters
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

MOST_AHEAD_BATCHES = 1024
"""After an answer of more batches the next fetch waits until the answer is taken, because its end is far to find."""


class PartitionCopy:
    """Reads, prepares and appends a partition: the copier's side of a `CopyState` and its `PartitionAppends`.

    Other classes read its fields; only its own methods change them. `request(partition, request)` has the copier do
    work that needs other partitions or the clusters.
    """

    def __init__(
        self,
        life: PartitionLife,
        position: Position,
        rules: CopyRules,
        identity: ProducerIdentity,
        services: PartitionServices,
        request: Callable[[PartitionCopy, PartitionRequest], None],
        *,
        sequence: int = 0,
        prepare: Prepare = copy_as_it_is,
        queue: AppendQueue | None = None,
        proof: PartitionProof | None = None,
    ) -> None:
        """`prepare` makes appends of fetches. `sequence` and `queue` are as in `PartitionAppends`.

        `proof` gets notes of the appends if the topic is proven.
        """
        self.life = life
        self.source: TopicPartition = life.grant.source
        self.remote: TopicPartition = life.grant.remote
        self.transactional = identity.transactional
        # A failed transaction leaves no visible records, and only a transform routes records. So both cases skip the
        # trial.
        careful = life.grant.on_trial and not self.transactional and prepare is not copy_as_it_is
        self.state = CopyState(
            life,
            position,
            rules,
            services.context,
            services.reader,
            self._do_request,
            transactional=self.transactional,
            careful=careful,
        )
        self.grant: Grant = life.grant
        self.limit: BatchLimit = self.state.limit
        self.read: SourcePosition = self.state.read
        self.read_ahead: ReadAhead = self.state.read_ahead
        self.copied: CopiedRecords = self.state.copied
        self.copied.set_proof(proof)
        self._source = services.context.source
        self._now = services.context.loop.clock.monotonic
        self._copies_as_it_is = prepare is copy_as_it_is
        self._request_copier = request
        self._appends = PartitionAppends(self.state, identity, services, sequence=sequence, queue=queue)
        self.queue = self._appends.queue
        self._preparation = FetchPreparation(self.state, self.queue, services.context, prepare)
        life.enter_phase(PartitionPhase.COPYING)

    # The position.

    @property
    def paused(self) -> bool:
        """Whether the copier fetches nothing of the partition now."""
        return self.state.paused

    @property
    def left(self) -> bool:
        """Whether the copier reads the partition no more."""
        return self.life.left

    @property
    def failed(self) -> bool:
        """Whether the partition has a final error."""
        return self.life.failed

    @property
    def trouble(self) -> str | None:
        """The reason why the partition makes no progress now, or None."""
        return self.state.trouble

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
    def waiting_ms(self) -> int:
        """The timestamp of the first record that was read and still waits to be copied for good (Unix ms), or -1."""
        uncommitted = self.copied.first_uncommitted_ms
        if uncommitted is not None:
            return uncommitted
        return self.read.unread_ms if self.queue.idle else self.queue.first.first_timestamp

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
    def awaits_marker(self) -> bool:
        """Whether the next record waits for the end of another transaction of the source."""
        return self._preparation.awaits_marker

    @property
    def at_rest(self) -> bool:
        """All appends, checks, and transactions with records of this partition are over."""
        return self.arrived and not self.copied.in_transaction and not self.state.unstored

    @property
    def arrived(self) -> bool:
        """Every sent append is acknowledged, at its expected offset."""
        return self._appends.arrived

    @property
    def misplaced(self) -> MisplacedAppends | None:
        """Set when the target took an append at too small an offset: the lost records are copied again first."""
        return self.state.misplaced

    def grant_again(self) -> Grant:
        """The grant to begin again after the acknowledged records; more appends may be in flight."""
        return replace(self.grant, position=self.acknowledged, drained=False)

    # Methods for its copier.

    def pause(self) -> None:
        """Stop reading until `resume` or `seek`."""
        self.state.pause()

    def resume(self) -> None:
        """Read again, unless this partition failed, was released, or its position on the target is in doubt."""
        self.state.resume()

    def seek(self, position: Position) -> None:
        """Read on from `position`, after a gap or a resolve; the caller clears the queue before."""
        self._move(position)
        self.resume()

    def report_trouble(self, trouble: str) -> None:
        """Report `trouble` until the next success."""
        self.state.report_trouble(trouble)

    def stop_reading(self) -> None:
        """Stop reading and drop the unsent records; appends in flight may still be acknowledged.

        Unsent records are still sent if a part of their fetch was routed, or a part of their record was sent, and may
        have arrived.
        """
        self.life.enter_phase(PartitionPhase.RELEASING)
        self.state.pause()
        self._appends.discard_unsent()

    def close(self) -> None:
        """Stop sending."""
        self.queue.end()

    def fail_partition(self, error: TwinlogError) -> None:
        """Stop this partition for good and report the error."""
        self.state.pause()
        self.life.fail(error)
        self.state.report_trouble(str(error))
        arrives = isinstance(error, NotAcknowledgedError | DivergedError | DifferenceError)
        # Within a transaction, an abort also ends the appends that may still arrive.
        if not self._appends.fail(refused=not arrives) and self.transactional:
            self._request_copier(self, AbortTransaction())
        self._request_copier(self, HoldPartition(error))

    def hold_difference(self, error: DifferenceError) -> None:
        """The target differs from the source: hold this partition until an operator accepts the difference."""
        self.copied.mark_difference(TargetOffset(error.target_offset))
        self.fail_partition(error)

    def take_difference(self, error: DifferenceError) -> bool:
        """Count a difference that was found beside the prover; returns whether the partition is copied on.

        A difference that the prover has counted is left out.
        """
        proof = self.copied.proof
        if proof is None or proof.proven.difference_target == error.target_offset:
            return True
        if self.state.report_difference(error, named=True):
            return True
        self.hold_difference(error)
        return False

    def take_runs(self) -> list[CopiedRun]:
        """Source and target offsets of the records acknowledged since the last call."""
        return self.copied.runs.take_runs()

    def take_counts(self) -> PartitionCounters:
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
        self.state.await_store()
        self._appends.set_producer(ProducerIdentity(writer.producer_id, writer.epoch), writer.sequence, position)
        self._move(replace(position, writer=writer), runs)

    def stored(self) -> None:
        """The new writer is stored for the next copier: continue."""
        self.state.confirm_store()

    def fill_offsets(self, fillers: list[Append]) -> None:
        """Append records that fill the next offsets of the remote log, before the first source offset to copy."""
        begin, past = self.read.offset, fillers[-1].next_source_offset
        self.read.skip_to(past, -1)
        self._appends.append_fetch(begin, PreparedFetch(past, fillers))

    def begin_later(self, first: SourceOffset) -> None:
        """Copy from source offset `first` on, because the source deleted its earlier records before any copy."""
        self._move(replace(self.acknowledged, kept_from=first))

    def end_filling(self) -> None:
        """The remote log begins at the first source offset to copy: read from there."""
        self.state.end_filling()
        self.seek(self.acknowledged)

    def expect_late_appends(self, position: Position) -> None:
        """Appends of this partition's writer from before `position` may still arrive."""
        self._appends.expect_late(position)

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
        self.state.clear_trouble()

    # Reading.

    def fetch_position(self, read_ahead: int) -> FetchPosition | None:
        if self.state.paused or self._appends.waits_for_unit:
            self.read_ahead.clear_hold()
            return None
        if self.read_ahead.is_full(self.queue.queued_bytes, read_ahead, self._now()):
            return None
        return self.read.next_fetch()

    def position_after(self, asked: FetchPosition, answer: PartitionResponse, read_ahead: int) -> FetchPosition | None:
        if not self._copies_as_it_is or answer.error or answer.diverging_epoch >= 0:
            return None
        read = self.read
        if self.read_ahead.on_trial or (asked.offset, asked.topic_id) != (read.offset, read.topic_id):
            return None
        if self.fetch_position(read_ahead) is None:
            return None
        try:
            last = read_last_batch(answer.records, MOST_AHEAD_BATCHES)
        except CorruptBatchError:
            return None
        return None if last is None else asked._replace(offset=last.last_offset + 1, last_epoch=last.leader_epoch)

    def add_answer(self, asked: FetchPosition, fetched: PartitionResponse) -> None:
        """Take an answer of the source."""
        read = self.read
        if self.state.paused or self._appends.waits_for_unit:
            return
        if asked.offset != read.offset or asked.topic_id != read.topic_id:
            return
        if fetched.error or fetched.diverging_epoch >= 0:
            self._not_fetched(fetched)
            return
        trouble = self.state.trouble
        if trouble is not None and not trouble.startswith("target"):
            self.state.clear_trouble()
        read.record_fetch(fetched, read_committed=self.limit.rules.read_committed, now=self._now())
        prepared = self._preparation.prepare_answer(fetched) if fetched.records else None
        if prepared is None:
            if fetched.records and asked.offset == read.offset:
                read.seek_offset(read.offset, timestamp_at(fetched.records, read.offset))
            return
        begin = read.offset
        read.skip_to(prepared.position, prepared.leader_epoch)
        self.copied.read(len(fetched.records), prepared.appends, prepared.roads)
        self._appends.append_fetch(begin, prepared)

    def free_memory(self, now: float) -> None:
        """Free memory for other partitions.

        Unsent appends are dropped at `now` (monotonic seconds) and read again later.
        """
        first_ms = {append.first_source_offset: append.first_timestamp for append in self.queue.unsent[:1]}
        again = None if self.left else self._appends.drop_unsent()
        if again is not None:
            self.read_ahead.back_off(now)
            # The reader may wait at the end of the log and must learn the new offset.
            self.state.read_again(again, first_ms.get(again, -1))

    def take_limit(self, topic_bytes: int | None) -> None:
        """Continue with the current limit of the remote topic, None if the limit is unknown."""
        self.limit.set_topic_bytes(topic_bytes, self._now())
        self.resume()

    def _not_fetched(self, fetched: PartitionResponse) -> None:
        decision = decide_fetch_error(fetched, self.source, self._source)
        match decision:
            case FailPartition(error):
                self.fail_partition(error)
                return
            case CheckSource(_, reason):
                if reason is not None:
                    self.report_trouble(reason)
            case PauseFetch(reason):
                self.report_trouble(reason)
                decision = replace(decision, refusals=self.read.refused())
        self.state.pause()
        self._request_copier(self, decision)

    def _do_request(self, request: PartitionRequest) -> None:
        """A part of this partition requests work."""
        if isinstance(request, FailPartition):
            self.fail_partition(request.error)
        else:
            self._request_copier(self, request)

    # Transactions.

    def commit(self, position: Position) -> None:
        """The transaction with this position was committed."""
        self.copied.commit(position)

    def abort(self, identity: ProducerIdentity) -> None:
        """The transaction was aborted and all its appends are answered: copy on from the last committed position."""
        copied = self._appends.abort(identity)
        if self.state.misplaced is not None:
            self._move(self.committed)
            self._request_copier(self, CopyAgain())
        elif copied:
            self.seek(self.committed)

    def truncated(self, end: TargetOffset | None) -> None:
        """The target lost committed records from its offset `end` on; None if it lost no record."""
        self._appends.truncated(end)

    def copy_again(self, position: Position) -> None:
        """The target lost records of committed transactions after `position`: copy from there."""
        self._appends.recommit_records(position)
        self.seek(position)
