"""Turns what was fetched into batches that a broker accepts from a client: most go on as they are."""

from __future__ import annotations

from collections.abc import Iterable

from twinlog.read.aborted import AbortedFilter, AbortedTransaction
from twinlog.read.batches import CONTROL, LOG_APPEND_TIME, Batch, check_crc, scan
from twinlog.types import SourceOffset
from twinlog.write.appends import Append, CopyRules, OversizedRecord, Prepared

__all__ = ["AbortedTransaction", "Append", "CopyRules", "OversizedRecord", "Prepared", "prepare"]

_NOT_AS_IT_IS = CONTROL | LOG_APPEND_TIME


def prepare(
    records: memoryview,
    position: int,
    rules: CopyRules,
    aborted: Iterable[AbortedTransaction] | None = None,
) -> Prepared:
    """Prepare the batches of one partition's fetch for the remote topic, from source offset `position` on.

    `records` is a writable view that belongs to the caller until the appends are acknowledged: appends share its bytes.
    `aborted` is the fetch's list of aborted transactions, used under `rules.read_committed`. Raises
    `CorruptBatchError` and `RecordTooLargeError`.
    """
    prepared = Prepared(SourceOffset(position))
    hidden = AbortedFilter(aborted or ()) if rules.read_committed else None
    for batch in scan(records):
        if rules.check_crcs:
            check_crc(records, batch)
        last_offset = batch.last_offset
        if last_offset < position:
            continue
        if (
            batch.magic == 2
            and batch.base_offset >= position
            and batch.record_count == batch.last_offset_delta + 1
            and not batch.attributes & _NOT_AS_IT_IS
            and batch.size <= rules.max_batch_bytes
            and hidden is None
        ):
            prepared.appends.append(
                Append(
                    records[batch.start : batch.end],
                    batch.record_count,
                    SourceOffset(batch.base_offset),
                    SourceOffset(last_offset + 1),
                    batch.max_timestamp,
                    ((batch.base_offset, batch.record_count),),
                )
            )
        else:
            raise NotImplementedError
        position = last_offset + 1
    prepared.position = SourceOffset(position)
    return prepared


_ = Batch
