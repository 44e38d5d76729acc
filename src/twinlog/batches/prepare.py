"""Turns fetched batches into batches that a broker accepts from a producer; most batches stay unchanged.

`prepare` is called for each fetch of a partition: by a copier, by a replay, and after a crash for the records to
expect. The call after a crash may cut other batches out of the same records. `prepare` is a pure function: it reads no
clock, and leaves its input unchanged. With a transform, `transforms.fetch_transformer` takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from twinlog.batches.holes import add_abort_marker, add_markers, find_stretches, runs_on
from twinlog.batches.rebatching import Rebatching, append_whole
from twinlog.batches.split import split_at_holes
from twinlog.errors import CopyError
from twinlog.kafka.producer.appends import AbortMarker, Append, CopyRules, OversizedRecord, PreparedFetch
from twinlog.kafka.record.batch import CODEC_MASK, AbortedFilter, check_crc, read_batch
from twinlog.kafka.record.compression import CODECS
from twinlog.model.types import SourceOffset

__all__ = ["Append", "CopyRules", "OversizedRecord", "PreparedFetch", "prepare"]


def prepare(
    records: memoryview,
    position: SourceOffset,
    rules: CopyRules,
    aborted: Iterable[tuple[int, int]] | None = None,
) -> PreparedFetch:
    """Prepare the batches of a partition's fetch for the remote topic, from source offset `position` on.

    `records` is a writable view that belongs to the caller until the appends are acknowledged: appends share its bytes.
    `aborted` is the fetch's list of aborted transactions as (producer id, first offset), used under
    `rules.read_committed`. An opened batch is checked against its CRC first. An unchanged batch is checked only under
    `rules.check_crcs`, because it keeps its checksum.

    With `rules.keep_offsets` the appends have every offset of the source, in order; a step fills each hole.

    Raises `CorruptBatchError` and `RecordTooLargeError`, and with `rules.keep_offsets` `OffsetHoleError`, but only for
    the first batch or record. The batches before a later bad batch are returned with the position of the remaining
    batches, and the next call raises. A batch that overlaps the previous batch raises `CorruptBatchError` at once:
    checksums exclude the offsets, so the correct batch of the two is unknown.
    """
    prepared = _prepare(records, position, rules, aborted)
    if not rules.keep_offsets or runs_on(prepared, position):
        return prepared
    # Only a fetch with a hole is prepared a second time.
    return _prepare_with_holes(records, position, rules, aborted)


def _prepare(
    records: memoryview, position: SourceOffset, rules: CopyRules, aborted: Iterable[tuple[int, int]] | None
) -> PreparedFetch:
    alone = _prepare_alone(records, position, rules)
    if alone is not None:
        return alone
    work = Rebatching(records, position, rules)
    try:
        work.run(AbortedFilter(aborted or ()) if rules.read_committed else None)
    except CopyError:
        if not work.prepared.appends:
            raise
        work.prepared.position = work.prepared.appends[-1].next_source_offset
    return work.prepared


def _prepare_alone(records: memoryview, position: SourceOffset, rules: CopyRules) -> PreparedFetch | None:
    """Prepare a fetch of a single batch that is appended as it is; None for any other fetch.

    At a low rate almost every fetch has a single batch, and the general way takes three times as long.
    """
    batch = read_batch(records, 0)
    if (
        batch is None
        or batch.magic != 2
        or batch.end != len(records)
        # Neither a marker nor a part of a transaction, and not stamped by the source's broker.
        or batch.attributes & ~CODEC_MASK
        or (rules.codec is not None and CODECS[rules.codec] != batch.attributes)
        or batch.base_offset < position
        or not 0 < batch.record_count == batch.last_offset_delta + 1
        or batch.size > rules.max_batch_bytes
    ):
        return None
    if rules.check_crcs:
        check_crc(records, batch)
    append = append_whole(batch, records)
    prepared = PreparedFetch(append.next_source_offset, [append], leader_epoch=batch.leader_epoch)
    prepared.count("as it is")
    return prepared


def _prepare_with_holes(
    records: memoryview, position: SourceOffset, rules: CopyRules, aborted: Iterable[tuple[int, int]] | None
) -> PreparedFetch:
    """Prepare a fetch whose offsets have holes: the batches between two holes together, and a step for each hole."""
    prepared = PreparedFetch(position)
    # The outcome of each transaction is known, so committed records are records like any other.
    plain = replace(rules, keep_offsets=False, read_committed=False)
    stretches, error = find_stretches(records, position, rules, aborted)
    try:
        for stretch in stretches:
            prepared.leader_epoch = stretch.leader_epoch
            if stretch.has_records:
                part = _prepare(records[stretch.begin : stretch.end], prepared.position, plain, None)
                for append in part.appends:
                    for piece in split_at_holes(append, plain):
                        add_markers(prepared, piece.first_source_offset)
                        piece.step = stretch.step
                        prepared.appends.append(piece)
                        prepared.position = piece.next_source_offset
                for road, appends in part.roads.items():
                    prepared.count(road, appends)
                if part.position < stretch.past:
                    # The next call raises the error of the next batch.
                    return prepared
            elif isinstance(stretch.step, AbortMarker):
                add_abort_marker(prepared, stretch.step, stretch.past)
            add_markers(prepared, stretch.past)
        if error is not None:
            raise error
    except CopyError:
        if not prepared.appends:
            raise
    return prepared
