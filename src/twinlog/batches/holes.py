"""Finds the offsets of a fetch that a plain batch of a producer cannot have, for copies that keep their offsets.

A marker of a transaction takes an offset, compaction leaves offsets without a record, and consumers of committed
records leave aborted records out. Each of them becomes an `OffsetStep`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twinlog.errors import CopyError, CorruptBatchError, OffsetHoleError
from twinlog.kafka.producer.appends import (
    AbortedRecords,
    AbortMarker,
    Append,
    CopyRules,
    Markers,
    OffsetStep,
    PreparedFetch,
    SourceTransaction,
)
from twinlog.kafka.record.batch import AbortedFilter, Batch, check_crc, read_batch
from twinlog.kafka.record.records import corrupt, is_abort_marker
from twinlog.model.types import SourceOffset
from twinlog.settings.client import ConsumerSettings
from twinlog.settings.written import key_of

LARGEST_HOLE = 100_000
"""The most offsets in a row without a record: a marker for each of them has 78 bytes on each replica."""


@dataclass(slots=True)
class Stretch:
    """Batches of a fetch in a row, from byte `begin` up to byte `end`; `past` is the offset after them.

    `step` is None for records that every consumer may see.
    """

    begin: int
    end: int
    past: SourceOffset
    leader_epoch: int
    step: OffsetStep | None

    @property
    def has_records(self) -> bool:
        """Whether the batches have records to copy."""
        return self.step is None or isinstance(self.step, AbortedRecords)


def runs_on(prepared: PreparedFetch, position: SourceOffset) -> bool:
    """Whether the appends have every source offset from `position` on, in order."""
    at = position
    for append in prepared.appends:
        past = SourceOffset(at + append.count)
        if append.spans != ((at, append.count),) or append.next_source_offset != past:
            return False
        at = past
    return at == prepared.position


def find_stretches(
    records: memoryview, position: SourceOffset, rules: CopyRules, aborted: Iterable[tuple[int, int]] | None
) -> tuple[list[Stretch], CopyError | None]:
    """The stretches of a fetch that end after `position`, and the error of the batch that follows them, if any.

    A batch that overlaps the previous batch leaves no stretch, because the correct batch of the two is unknown.
    """
    found: list[Stretch] = []
    filtered = AbortedFilter(aborted or ()) if rules.read_committed else None
    at = before = 0
    try:
        while (batch := read_batch(records, at)) is not None:
            at = batch.end
            if batch.magic == 2:
                if batch.base_offset < before:
                    return [], corrupt(batch, f"the batch before it ends at source offset {before - 1}")
                before = batch.last_offset + 1
            step = _step_of(records, batch, rules, filtered)
            if batch.last_offset < position:
                continue
            if step is None and batch.is_transactional and filtered is None:
                return found, _unknown(batch, position)
            past = SourceOffset(batch.last_offset + 1)
            last = found[-1] if found else None
            if step is None and last is not None and last.step is None and last.past == batch.base_offset:
                last.end, last.past, last.leader_epoch = batch.end, past, batch.leader_epoch
            else:
                found.append(Stretch(batch.start, batch.end, past, batch.leader_epoch, step))
    except CorruptBatchError as error:
        return found, error
    return found, None


def _step_of(records: memoryview, batch: Batch, rules: CopyRules, filtered: AbortedFilter | None) -> OffsetStep | None:
    """The step of a batch; None for records of no transaction, or of a transaction that is not known to be aborted."""
    if batch.magic < 2:
        return None
    if batch.is_control and rules.check_crcs:
        check_crc(records, batch)
    abort = is_abort_marker(records, batch)
    transaction: SourceTransaction | None = None
    if filtered is not None:
        if (begin := filtered.begin_of(batch)) is not None:
            transaction = SourceTransaction(batch.producer_id, SourceOffset(begin))
        filtered.hides(batch, abort_marker=abort)
    if batch.is_control:
        return AbortMarker(transaction) if abort and transaction is not None else Markers()
    if not batch.record_count:
        return Markers()
    return None if transaction is None else AbortedRecords(transaction)


def _unknown(batch: Batch, position: SourceOffset) -> OffsetHoleError:
    key = key_of(ConsumerSettings, "isolation_level")
    return OffsetHoleError(
        f"the record at source offset {max(position, batch.base_offset)} is in a transaction, whose end is unknown to "
        f"a consumer with {key} = read_uncommitted: the copy cannot have the offset of its source",
        way_out=f"set {key} = read_committed for the consumer of the source, or twinlog.offsets = translated for the "
        "topic",
    )


def add_markers(prepared: PreparedFetch, past: SourceOffset) -> None:
    """Fill the offsets from the position up to `past` by markers. Raises OffsetHoleError if they are too many."""
    first, count = prepared.position, past - prepared.position
    if count <= 0:
        return
    if count > LARGEST_HOLE:
        raise OffsetHoleError(
            f"source offsets {first} to {past - 1} have no record, as after a compaction: the next copy cannot have "
            f"the offset of its source, because at most {LARGEST_HOLE} offsets in a row are filled"
        )
    last = prepared.appends[-1] if prepared.appends else None
    if last is not None and isinstance(last.step, Markers):
        last.count += count
        last.next_source_offset = past
        last.spans = ((last.first_source_offset, last.count),)
    else:
        prepared.appends.append(_markers(first, past, Markers()))
    prepared.position = past


def add_abort_marker(prepared: PreparedFetch, step: AbortMarker, past: SourceOffset) -> None:
    """Add the marker that ends an aborted transaction before offset `past`, and markers up to it as `add_markers`."""
    first = SourceOffset(past - 1)
    add_markers(prepared, first)
    prepared.appends.append(_markers(first, past, step))
    prepared.position = past


def _markers(first: SourceOffset, past: SourceOffset, step: Markers | AbortMarker) -> Append:
    count = past - first
    return Append(bytearray(), count, first, past, -1, ((first, count),), step=step)
