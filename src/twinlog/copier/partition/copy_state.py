"""The state of a partition while a copier copies it: its offsets on both sides, its limit, its trouble."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.copier.partition.batch_limit import BatchLimit, left_out
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.copied_records import CopiedRecords, MisplacedAppends
from twinlog.copier.partition.life import FailPartition, PartitionLife, PartitionRequest
from twinlog.copier.partition.source_log import ReadAhead, SourcePosition
from twinlog.errors import DifferenceError, TwinlogError
from twinlog.kafka.consumer.partition_reader import SourceReader
from twinlog.kafka.producer.appends import CopyRules, FailedRecord, PreparedFetch
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.settings.transform import FailedRecordSettings
from twinlog.settings.written import key_of

LOG_KEY = key_of(FailedRecordSettings, "log_errors")

NAMED = 3
"""How many records an event about failures of a transform names."""

NAMED_ALONE = 10
"""How many left-out records have an event each; later records are only counted."""


class LeftOutRecords:
    """Counts the dropped, failed, routed and left-out records of partition `source`, and reports them.

    The first records are reported as events; with `errors.log.enable` = true all records are.
    """

    __slots__ = ("_by_policy", "_context", "_log_all", "_reported", "_source")

    def __init__(self, source: TopicPartition, context: CopierContext) -> None:
        self._source = source
        self._context = context
        self._log_all = context.settings.failed_records.log_errors
        self._reported = False
        self._by_policy = 0

    def leave_out(self, kind: str, text: str) -> None:
        """A policy leaves a record out; `kind` is the kind of the event, `text` names the record and the reason."""
        self._context.tally.left_out += 1
        self._by_policy += 1
        if self._log_all or self._by_policy <= NAMED_ALONE:
            self._context.report_event(kind, text)
        elif self._by_policy == NAMED_ALONE + 1:
            self._context.report_event(
                kind, f"{text}; further records of this partition are counted, and logged if {LOG_KEY} is true"
            )

    def count_fetch(self, prepared: PreparedFetch) -> None:
        """Count and report the results of a transform for a fetch."""
        if prepared.failed and (prepared.log_failed or not self._reported):
            self._report(prepared.failed, all_of_them=prepared.log_failed)
        if prepared.dropped or prepared.failed or prepared.routed:
            routed = sum(routed.rows.num_rows for routed in prepared.routed)
            self._context.tally.add_transformed(prepared.dropped, len(prepared.failed), routed)

    def _report(self, failed: list[FailedRecord], *, all_of_them: bool) -> None:
        self._reported = True
        named = [
            f"the record at offset {one.source_offset}: {one.reason}{f' ({one.shown})' if one.shown else ''}"
            for one in (failed if all_of_them else failed[:NAMED])
        ]
        if not all_of_them:
            more = f"; and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
            named = [
                f"{'; '.join(named)}{more}; further ones are skipped and not logged, unless errors.log.enable is true"
            ]
        for text in named:
            self._context.report_event("transform", f"{self._source}: the transform failed on {text}")


class CopyState:
    """The offsets, the limit and the trouble of a partition that is copied.

    `paused`: the copier fetches nothing. `filling`: the remote log still gets the offsets before the first source
    offset to copy. `unstored`: the next copier would still append as another writer.
    `misplaced`: the target took an append at too small an offset, so the lost records are copied again first.
    `trouble` is the reason why the partition makes no progress now, or None.

    `request(request)` has the copier do a request of the partition; the other methods do their work at once.
    """

    __slots__ = (
        "_context",
        "_reader",
        "copied",
        "filling",
        "left_out_records",
        "life",
        "limit",
        "misplaced",
        "paused",
        "read",
        "read_ahead",
        "remote",
        "request",
        "source",
        "transactional",
        "trouble",
        "unstored",
    )

    def __init__(
        self,
        life: PartitionLife,
        position: Position,
        rules: CopyRules,
        context: CopierContext,
        reader: SourceReader,
        request: Callable[[PartitionRequest], None],
        *,
        transactional: bool,
        careful: bool,
    ) -> None:
        """With `careful`, the partition reads a record, then twice as many, until the target has taken them all."""
        grant = life.grant
        self.life = life
        self.source: TopicPartition = grant.source
        self.remote: TopicPartition = grant.remote
        self.transactional = transactional
        self.limit = BatchLimit(rules, grant.max_batch_bytes)
        self.read = SourcePosition(position, grant.topic_id)
        self.read_ahead = ReadAhead(on_trial=careful)
        self.copied = CopiedRecords(position, context.loop.clock, context.tally, transactional=transactional)
        self.left_out_records = LeftOutRecords(self.source, context)
        self.misplaced: MisplacedAppends | None = None
        self.filling = self.paused = position.fills
        self.unstored = False
        self.trouble: str | None = None
        self.request = request
        self._context = context
        self._reader = reader

    @property
    def rules(self) -> CopyRules:
        """The rules for building batches of this partition."""
        return self.limit.rules

    @property
    def left(self) -> bool:
        """Whether the copier reads the partition no more."""
        return self.life.left

    @property
    def failed(self) -> bool:
        """Whether the partition has a final error."""
        return self.life.failed

    # Reading.

    def pause(self) -> None:
        """Stop reading until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """Read again, unless this partition failed, was released, or its place on the target is still to be found."""
        if not self.left and not self.failed and not self.unstored and not self.filling and self.misplaced is None:
            self.paused = False
            self.wake_reader()

    def wake_reader(self) -> None:
        """Have the reader ask for the next fetch position."""
        self._reader.resume(self.source)

    def read_again(self, offset: SourceOffset, first_ms: int = -1) -> None:
        """Read again from a source offset on, with `first_ms` as in `seek_offset`; the appends of it are dropped."""
        self.read.seek_offset(offset, first_ms)
        self.wake_reader()

    def take_acknowledgement(self, queued_bytes: int) -> None:
        """The target took an append, and `queued_bytes` wait: read again if too many bytes waited before."""
        if self.read_ahead.acknowledged(queued_bytes):
            self.wake_reader()

    def count_fetch(self, prepared: PreparedFetch) -> None:
        """Count and report the final results of a fetch."""
        for record in prepared.oversized:
            self.leave_out("oversized", left_out(self.source, record.source_offset, f"{record.size} bytes"))
        self.left_out_records.count_fetch(prepared)

    def leave_out(self, kind: str, text: str) -> None:
        """A policy left a record out."""
        self.left_out_records.leave_out(kind, text)

    # The position on the target.

    def await_store(self) -> None:
        """Read nothing until `confirm_store`: the new writer is unknown to the next copier."""
        self.paused = self.unstored = True

    def confirm_store(self) -> None:
        """The new writer is stored for the next copier: read again."""
        self.unstored = False
        self.resume()

    def end_filling(self) -> None:
        """The remote log begins at the first source offset to copy."""
        self.filling = False

    def set_misplaced(self, misplaced: MisplacedAppends) -> None:
        """The target took appends at too small an offset, or lost committed records: read nothing until a move."""
        self.pause()
        self.misplaced = misplaced

    def clear_misplaced(self) -> None:
        """The position is before the lost records now, or the target lost no records."""
        self.misplaced = None

    # Trouble.

    def report_trouble(self, trouble: str) -> None:
        """Report `trouble` until the next success."""
        self.trouble = trouble

    def clear_trouble(self) -> None:
        """The target took an append, so the trouble is over."""
        self.trouble = None

    def report_difference(self, error: DifferenceError, *, named: bool = False) -> bool:
        """Count a difference that was found beside the prover; under the policy `report` an event reports it.

        A `named` error begins with the name of the partition. Returns whether the policy is `report`; otherwise the
        caller fails the partition.
        """
        self._context.tally.add_difference(error.kind)
        proof = self.copied.proof
        if proof is None or not proof.reports:
            return False
        self._context.report_event("difference", error.message if named else f"{self.source}: {error.message}")
        return True

    def fail_partition(self, error: TwinlogError) -> None:
        """Stop copying the partition for good."""
        self.request(FailPartition(error))
