"""Compares the batches that a copier built with the records of their source, before the target gets them.

The records are decoded by another decoder than the preparation uses. So a difference is a defect of the preparation, or
of the memory of this machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twinlog.batches.arrow.arrays import UnusualError
from twinlog.batches.arrow.bodies import Bodies, decode_bodies, first_difference, gathered, join, runs_from
from twinlog.batches.arrow.placed import PlacedRecords, place_batch, place_plain, places_of
from twinlog.batches.vectors import Longs
from twinlog.errors import CorruptBatchError, DifferenceError
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.record.batch import HEADER_SIZE, AbortedFilter, Batch, read_batch
from twinlog.kafka.record.compression import NONE
from twinlog.kafka.record.records import is_abort_marker, record_bodies, records_block
from twinlog.model.types import SourceOffset

FEW_RECORDS = 64
"""So many records are compared one by one: the first array of a comparison costs as much as these records."""


def visible_batches(records: memoryview, aborted: Iterable[tuple[int, int]] | None, past: int) -> list[Batch]:
    """The batches of an answer that have records below offset `past`, except for `aborted` transactions.

    Raises CorruptBatchError.
    """
    hidden = None if aborted is None else AbortedFilter(aborted)
    found = []
    at, last = 0, -1
    while last < past - 1 and (batch := read_batch(records, at)) is not None:
        at, last = batch.end, batch.last_offset
        if batch.magic == 2:
            gone = hidden is not None and hidden.hides(batch, abort_marker=is_abort_marker(records, batch))
            if gone or batch.is_control or not batch.record_count:
                continue
        found.append(batch)
    return found


def decode_all(
    records: memoryview, batches: Sequence[Batch], start: int, end: int, places: Longs | None = None
) -> Bodies:
    """The records of all batches with offsets from `start` to below `end`; `places` are as for `decode_bodies`."""
    parts = []
    while batches:
        found, count = decode_bodies(records, batches, start, end, places)
        parts.append(found)
        batches = batches[count:]
    return join(parts)


def within_spans(found: Bodies, spans: Iterable[tuple[SourceOffset, int]]) -> Bodies:
    """The records whose offsets are in some span."""
    return join([part for first, count in spans if len(part := found.from_offset(first, first + count))])


def require_equal(appends: Iterable[Append], records: memoryview, aborted: Sequence[tuple[int, int]] | None) -> None:
    """Raise DifferenceError unless each built append has the records of its source, in the answer `records`.

    Appends that pass a batch on as it is are left out. `aborted` has the hidden transactions, None if all records are
    copied.
    """
    built = [append for append in appends if type(append.data) is not memoryview]
    if not built:
        return
    ranges = [(append.spans[0][0], sum(append.spans[-1])) for append in built]
    if sum(append.count for append in built) > FEW_RECORDS:
        placed = place_plain(records, ranges, transactions=not aborted)
        if placed is not None:
            for append in built:
                originals = placed.within(append.spans)
                if not _has_placed(append, originals):
                    found = gathered(originals)
                    _require_same(found, bodies_of(append, found), append)
            return
    batches = visible_batches(records, aborted, ranges[-1][1])
    at = 0
    for append, (first, past) in zip(built, ranges, strict=True):
        while at < len(batches) and batches[at].last_offset < first:
            at += 1
        end = at
        while end < len(batches) and (end == at or batches[end - 1].last_offset < past - 1):
            end += 1
        few = sum(batch.record_count for batch in batches[at:end]) <= FEW_RECORDS
        if few and _has_same_records(append, records, batches[at:end]):
            continue
        chosen = within_spans(decode_all(records, batches[at:end], first, past), append.spans)
        _require_same(chosen, bodies_of(append, chosen), append)


def require_parts(append: Append, parts: Iterable[Append]) -> None:
    """Raise DifferenceError unless the appends that an append was cut into have its records, in their order."""
    _require_same(bodies_of(append), join([bodies_of(part) for part in parts]), append)


def bodies_of(append: Append, expected: Bodies | None = None) -> Bodies:
    """The records of an append, with the offsets in its batch; empty if these have a hole.

    The decoder looks for the `expected` records first: the places of the same records are known.
    """
    view = memoryview(append.data)
    batch = read_batch(view, 0)
    assert batch is not None
    places = None
    if expected is not None and len(expected):
        places = places_of(expected.timestamps, expected.lengths, batch.base_timestamp)
    found = decode_all(view, [batch], batch.base_offset, batch.base_offset + append.count, places)
    return found if runs_from(found, batch.base_offset) == len(found) else found.part(0, 0)


def _has_placed(append: Append, originals: PlacedRecords) -> bool:
    """Whether an append surely has these records, compared where they lie; copies of all bodies decide otherwise."""
    view = memoryview(append.data)
    batch = read_batch(view, 0)
    assert batch is not None
    if not len(originals) == batch.record_count == append.count:
        return False
    try:
        block, begin = (view, HEADER_SIZE) if batch.codec == NONE else (records_block(view, batch), 0)
        copies = place_batch(block, begin, batch, originals.places_in(batch.base_timestamp))
    except (CorruptBatchError, UnusualError):
        return False
    return copies.runs_from(batch.base_offset) and copies.are_copies_of(originals)


def _has_same_records(append: Append, records: memoryview, batches: Sequence[Batch]) -> bool:
    """Whether a small append surely has the records of its source; arrays decide otherwise."""
    sources = {offset for first, count in append.spans for offset in range(first, first + count)}
    view = memoryview(append.data)
    built = read_batch(view, 0)
    assert built is not None
    try:
        originals = [one for batch in batches for one in record_bodies(records, batch) if one[0] in sources]
        copies = list(record_bodies(view, built))
    except CorruptBatchError:
        return False
    if not len(originals) == len(sources) == len(copies) == append.count:
        return False
    return all(
        copy[0] == built.base_offset + number and original[1:] == copy[1:]
        for number, (original, copy) in enumerate(zip(originals, copies, strict=True))
    )


def _require_same(originals: Bodies, copies: Bodies, append: Append) -> None:
    same = first_difference(originals, copies) if len(originals) and len(copies) else 0
    if same == len(originals) == len(copies) == append.count:
        return
    offset = append.first_source_offset
    for first, count in append.spans:
        if same < count:
            offset = SourceOffset(first + same)
            break
        same -= count
    raise DifferenceError(
        f"the batch that was built for the target has another record than the source at source offset {offset}; it "
        "stays here",
        kind="built",
        source_offset=offset,
    )
