"""Finds the records that arrived on the target after the last stored position, when a copier begins after a crash.

A position is stored after the append, so the end of the remote log may be after the position. twinlog reads the remote
records after the position and finds each of them in the source, so each record is copied once. twinlog compares the
contents of records: counts alone would be wrong after a compaction of the source. The comparison also shows records of
another program in the remote topic. Records that the target has deleted by now are only counted. If the source has
deleted the records after the position, counts show which of several equal remote records can be the copy of a remaining
source record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from twinlog.batches.prepare import prepare as unchanged
from twinlog.copier.start.copy_matching import CopyMatcher, ForeignRecord
from twinlog.copier.start.first_look import LogBounds
from twinlog.copier.start.log_reader import RemoteLogBatches
from twinlog.copier.start.producer_ids import fencing
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.appends import CopyRules, Prepare
from twinlog.kafka.record.batch import Batch
from twinlog.kafka.record.stamp import records_between, sequence_after
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.amounts import counted
from twinlog.model.types import SourceOffset, TargetOffset


class EarlierTransaction(NamedTuple):
    """A transaction of another program that began before a stored position and was committed after it: its `marker`."""

    producer_id: int
    marker: ForeignRecord


class Resumed(NamedTuple):
    """The position after the records of a remote log, and the runs of the copies between both positions.

    `foreign` is the first record that another program surely wrote there, by its producer. `opened` has the first
    offset of each transaction that is open there, by producer id. `earlier` is the first transaction whose marker alone
    is there; None if the copiers of the flow append in transactions, because the marker may be theirs.
    """

    position: Position
    runs: list[CopiedRun]
    foreign: ForeignRecord | None = None
    opened: Mapping[int, TargetOffset] = MappingProxyType({})
    earlier: EarlierTransaction | None = None

    def first_foreign(self, known: Mapping[int, TargetOffset]) -> ForeignRecord | None:
        """The first record or marker of another program; the prover finds the records of `known` transactions."""
        earlier, foreign = self.earlier, self.foreign
        if earlier is None or earlier.producer_id in known:
            return foreign
        return earlier.marker if foreign is None else min(foreign, earlier.marker, key=lambda one: one.target)


def writer_after(writer: Writer | None, batch: Batch) -> Writer | None:
    """The writer after a batch of the log: the batch moves the writer's sequence number if the writer appended it."""
    if writer is None or batch.producer_id != writer.producer_id or batch.producer_epoch < writer.epoch:
        return writer
    sequence = sequence_after(batch.base_sequence, batch.last_offset_delta + 1)
    return Writer(writer.producer_id, batch.producer_epoch, sequence)


def _deleted(first: Batch | None, position: Position, end: TargetOffset, *, routed: bool, drained: bool) -> int | None:
    """The number of the copier's records between the stored position and the first remaining batch.

    A `drained` partition has no appends after its position, so other programs have written the deleted records.
    With `routed`, a transform may have routed records of other partitions into these offsets; returns None when their
    number is unknown.
    """
    assert position.next_target is not None
    deleted = (end if first is None else first.base_offset) - position.next_target
    writer = position.writer
    if writer is None:
        # The position of a transaction counts the committed records; the other records were aborted.
        return 0
    if first is not None:
        ours = first.producer_id == writer.producer_id and first.producer_epoch == writer.epoch
        counted = records_between(writer.sequence, first.base_sequence)
        if ours and counted < deleted:
            return counted
    if routed:
        return None
    return 0 if drained else max(0, deleted)


async def resume_after_log_end(
    source: ClusterClient,
    target: ClusterClient,
    grant: Grant,
    position: Position,
    logs: LogBounds,
    rules: CopyRules,
    event: Callable[[str, str], None],
    prepare: Prepare = unchanged,
    *,
    in_transactions: bool = False,
) -> Resumed:
    """Return the position after the records of the remote log, and the runs of the found records.

    The position is at the end of the remote log, or later, and has the writer that the log shows. The runs are the
    records found between the given position and the returned position. The function reads the remote log from
    `position.next_target` on and the source from `position.next_source` on. A log that starts later is read from its
    start. With `in_transactions` the copiers of the flow append in transactions. Raises ClusterError.
    """
    expected, writer = position.next_target, position.writer
    assert expected is not None
    arrived = RemoteLogBatches(target, grant.remote, logs.target_begin(position), logs.end, logs.read)
    matcher = CopyMatcher(source, grant, position, logs, rules, prepare, in_transactions=in_transactions)
    if logs.start > expected:
        await arrived.read_first_batch()
        routed = prepare is not unchanged
        deleted = _deleted(arrived.first, position, logs.end, routed=routed, drained=grant.drained)
        # Copying a record twice is better than losing a record.
        await matcher.pass_over(deleted or 0)
        if deleted is None:
            # The target has seen sequence numbers of the uncounted records.
            writer = fencing(writer)
        elif writer is not None:
            writer = replace(writer, sequence=sequence_after(writer.sequence, deleted))
        matcher.runs.add_jump(matcher.next_source, logs.start)
    if logs.source_start > matcher.next_source:
        before = RemoteLogBatches(target, grant.remote, logs.target_begin(position), logs.end, logs.read)
        if prepare is not unchanged:
            await matcher.find_first_left(before)
        elif writer is not None:
            # A position without a writer lacks the producer id of the copier's records, so contents alone decide.
            await matcher.pass_deleted(before)
    matched = strange = 0
    while (found := await arrived.read_batch()) is not None:
        view, batch = found
        ours, others = await matcher.follow(view, batch)
        matched, strange = matched + ours, strange + others
        writer = writer_after(writer, batch)
    strange += sum(batch.record_count for batch in arrived.committed)
    # MirrorMaker 2 and other flows between the same clusters copy heartbeats, too.
    if strange and not grant.heartbeats:
        reason = "the source was compacted, or somebody else writes to this remote topic"
        if prepare is not unchanged:
            reason += ", or the transform is another one now, or makes other rows of the same records"
        if logs.source_start > position.next_source:
            reason = f"the source log now starts at {logs.source_start}, so that those before it cannot be compared"
        event(
            "foreign",
            f"{grant.remote}: of {counted(matched + strange, 'record')} after the stored position {strange} are not "
            f"copies of {grant.source} from offset {position.next_source} on: {reason}",
        )
    resumed = replace(
        position,
        next_source=matcher.next_source,
        next_target=max(logs.end, arrived.position),
        leader_epoch=matcher.leader_epoch,
        writer=writer,
    )
    runs, foreign = matcher.runs.take_runs(), matcher.foreign

    def place(batch: Batch) -> ForeignRecord:
        copies = [run.source + run.records for run in runs if run.target < batch.base_offset]
        return ForeignRecord(SourceOffset(max(copies, default=position.next_source)), TargetOffset(batch.base_offset))

    for batch in arrived.committed:
        if foreign is None or batch.base_offset < foreign.target:
            foreign = place(batch)
    if grant.heartbeats:
        return Resumed(resumed, runs, None, arrived.opened)
    earlier, marker = None, arrived.earlier
    # Of a log that begins later, the records of the transaction may be deleted.
    if marker is not None and not in_transactions and position.writer is not None and logs.start <= expected:
        earlier = EarlierTransaction(marker.producer_id, place(marker))
    return Resumed(resumed, runs, foreign, arrived.opened, earlier)
