"""Records as consumers see them, to be compared: offsets, timestamps, and bodies of many records at once.

A body is the part of a record that is independent of its offset and its batch: key, value and headers in format 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from twinlog.batches.arrow.arrays import UnusualError, gather, laid_out
from twinlog.batches.arrow.placed import FIELDS, NO_TIMESTAMP, PlacedRecords, place_records
from twinlog.batches.vectors import Bytes, Flags, Longs
from twinlog.kafka.record.batch import Batch
from twinlog.kafka.record.compression import NONE
from twinlog.kafka.record.records import record_bodies, records_block


@dataclass(slots=True)
class Bodies:
    """Records in the order of their offsets. `timed` is false for a timestamp that a broker set.

    `cells` is an Arrow array of binary. No consumer sees the `attributes` of a record: brokers and clients write 0.
    """

    offsets: Longs
    timestamps: Longs
    timed: Flags
    cells: Any
    attributes: Bytes

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, start: int, end: int) -> Bodies:
        """The records from number `start` to below number `end`, as views."""
        end = max(start, end)
        return Bodies(
            self.offsets[start:end],
            self.timestamps[start:end],
            self.timed[start:end],
            self.cells.slice(start, end - start),
            self.attributes[start:end],
        )

    def from_offset(self, start: int, end: int) -> Bodies:
        """The records with offsets from `start` to below `end`."""
        first, past = np.searchsorted(self.offsets, [start, end])
        return self.part(int(first), int(past))

    def chosen(self, places: Any) -> Bodies:
        """The records at these places, in their order."""
        taken = self.cells.take(pa.array(places, pa.int64()))
        offsets, timestamps, timed = self.offsets[places], self.timestamps[places], self.timed[places]
        return Bodies(offsets, timestamps, timed, taken, self.attributes[places])

    def body(self, place: int) -> bytes:
        return bytes(self.cells[place].as_py())

    @property
    def size(self) -> int:
        """Bytes of all bodies."""
        lengths = self._bounds()
        return int(lengths[-1] - lengths[0]) if len(self) else 0

    def content(self, dated: Flags | None = None) -> tuple[bytes, bytes, memoryview]:
        """Timestamps, lengths of bodies and bodies, each as a block of all records in order.

        With `dated` the timestamps of all other records are left out.
        """
        bounds = self._bounds()
        data = self.cells.buffers()[2]
        block = memoryview(b"") if data is None else memoryview(data)[int(bounds[0]) : int(bounds[-1])]
        timestamps = self.timestamps if dated is None else self.timestamps[dated]
        return timestamps.astype(">i8").tobytes(), np.diff(bounds).astype(">i4").tobytes(), block

    @property
    def lengths(self) -> Longs:
        """Bytes of each body."""
        found: Longs = np.diff(self._bounds())
        return found

    def _bounds(self) -> Any:
        cells = self.cells
        bounds = cells.buffers()[1]
        if bounds is None:
            return np.zeros(1, dtype=np.int32)
        return np.frombuffer(bounds, dtype=np.int32)[cells.offset : cells.offset + len(cells) + 1]


MOST_BYTES = 32 << 20
"""Bytes of records, decompressed, after which the remaining batches wait for another call."""


def decode_bodies(
    records: memoryview, batches: Sequence[Batch], start: int, end: int, places: Longs | None = None
) -> tuple[Bodies, int]:
    """The records with offsets from `start` to below `end` out of some batches of a fetch; checksums are ignored.

    Also returns the number of decoded batches, at least 1: compressed batches may have any number of bytes. `places`
    are the expected places of the records of a single batch, as `places_of`: right places save the search for the
    records. Raises CorruptBatchError.
    """
    blocks: list[bytes] | None = None
    if any(batch.codec != NONE for batch in batches) and all(batch.magic == 2 for batch in batches):
        blocks, size = [], 0
        for batch in batches:
            blocks.append(records_block(records, batch))
            size += len(blocks[-1])
            if size >= MOST_BYTES:
                break
        batches = batches[: len(blocks)]
    try:
        found = _fast(records, batches, blocks, places)
    except UnusualError:
        found = _exactly(records, batches)
    return found.from_offset(start, end), len(batches)


def _fast(records: memoryview, batches: Sequence[Batch], blocks: list[bytes] | None, places: Longs | None) -> Bodies:
    """Decode with numpy; `blocks` are the decompressed batches, None to read the batches in the fetch itself."""
    if any(batch.magic != 2 for batch in batches):
        raise UnusualError("an old format")
    data, begins, ends = laid_out(records, batches, blocks)
    headers = np.asarray(
        [(one.base_offset, one.attributes, one.base_timestamp, one.max_timestamp, one.record_count) for one in batches],
        dtype=FIELDS,
    )
    return gathered(place_records(data, np.asarray(begins), np.asarray(ends), headers, places))


def gathered(found: PlacedRecords) -> Bodies:
    """Records with copies of their bodies."""
    array: Bytes = np.frombuffer(found.data, dtype=np.uint8)
    cells = gather(found.data, found.cells)
    return Bodies(found.offsets, found.timestamps, found.timed, cells, array[found.attributes_at])


def _exactly(records: memoryview, batches: Sequence[Batch]) -> Bodies:
    """Decode record by record, for old formats and for bytes that the fast way rejects; attributes are left out."""
    offsets: list[int] = []
    timestamps: list[int] = []
    bodies: list[bytes] = []
    timed: list[bool] = []
    for batch in batches:
        for offset, timestamp, body in record_bodies(records, batch):
            offsets.append(offset)
            timestamps.append(timestamp)
            bodies.append(body)
            timed.append(not batch.is_log_append_time)
    return Bodies(
        np.asarray(offsets, dtype=np.int64),
        np.asarray(timestamps, dtype=np.int64),
        np.asarray(timed, dtype=np.bool_),
        pa.array(bodies, pa.binary()),
        np.zeros(len(offsets), dtype=np.uint8),
    )


def join(parts: Sequence[Bodies]) -> Bodies:
    """The records of all parts, in order."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return Bodies(nothing, nothing, nothing.astype(np.bool_), pa.array([], pa.binary()), nothing.astype(np.uint8))
    return Bodies(
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.timestamps for part in parts]),
        np.concatenate([part.timed for part in parts]),
        pa.concat_arrays([part.cells for part in parts]),
        np.concatenate([part.attributes for part in parts]),
    )


def runs_from(found: Bodies, first: int) -> int:
    """The number of records whose offsets run from `first` on without a hole."""
    holes = np.flatnonzero(found.offsets != np.arange(first, first + len(found)))
    return int(holes[0]) if len(holes) else len(found)


def fill_batches(found: Bodies, batches: Iterable[Batch]) -> bool:
    """Whether the offsets are all offsets of the batches: a broker gives each record the offset of its place (Kafka
    class LogValidator)."""
    places = [np.arange(batch.base_offset, batch.last_offset + 1) for batch in batches]
    return np.array_equal(found.offsets, np.concatenate(places))


def equal_records(source: Bodies, target: Bodies) -> Flags:
    """Whether the records at each place are equal; both sides must have the same number of records.

    Timestamps compare as in `same_timestamps`.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - a copier with a proof rarely needs it

    equal = pc.equal(source.cells, target.cells)
    bits = np.frombuffer(equal.buffers()[1], dtype=np.uint8)
    first = equal.offset
    found = np.unpackbits(bits, count=first + len(equal), bitorder="little")[first:].astype(np.bool_)
    return found & same_timestamps(source, target)


def same_timestamps(source: Bodies, target: Bodies) -> Flags:
    """Whether the timestamps at each place are equal or may differ.

    Timestamps may differ if the target's brokers stamp records themselves, or if the source record lacks a timestamp.
    In the latter case each copy gets its own timestamp.
    """
    equal: Flags = source.timestamps == target.timestamps
    return equal | ~comparable_timestamps(source, target)


def comparable_timestamps(source: Bodies, target: Bodies) -> Flags:
    """Whether the timestamps at each place must be equal, see `same_timestamps`."""
    dated: Flags = target.timed & (source.timestamps != NO_TIMESTAMP)
    return dated


def first_difference(source: Bodies, target: Bodies) -> int:
    """The number of equal records before the first difference, or before a side ends."""
    count = min(len(source), len(target))
    equal = equal_records(source.part(0, count), target.part(0, count))
    different = np.flatnonzero(~equal)
    return int(different[0]) if len(different) else count


def first_changed(source: Bodies, target: Bodies) -> int:
    """As `first_difference`; a copy whose attributes were changed is different, too.

    A broker that writes a record again sets its attributes to 0 (Kafka class DefaultRecord).
    """
    same = first_difference(source, target)
    ours, theirs = source.attributes[:same], target.attributes[:same]
    odd = np.flatnonzero((theirs != 0) & (theirs != ours))
    return int(odd[0]) if len(odd) else same


@dataclass(slots=True)
class OffsetMatch:
    """Two sides matched by offset: places of common records, and of records that only the source or the target has."""

    source: Any
    target: Any
    source_only: Any
    target_only: Any


def match_offsets(source: Bodies, target: Bodies, shift: int) -> OffsetMatch:
    """Match records whose target offset is `shift` more than the source offset."""
    ours, theirs = source.offsets + shift, target.offsets
    if len(ours) == len(theirs) and (ours == theirs).all():
        every = np.arange(len(ours))
        return OffsetMatch(every, every, every[:0], every[:0])
    in_target, in_source = np.isin(ours, theirs), np.isin(theirs, ours)
    return OffsetMatch(*(np.flatnonzero(which) for which in (in_target, in_source, ~in_target, ~in_source)))


def aligned_runs(source: Bodies, target: Bodies, shift: int) -> list[tuple[Bodies, Bodies]]:
    """Two sides in pieces, in the order of their offsets.

    In a piece each record has a record of the other side, whose offset is `shift` more on the target; or a single side
    has all records of the piece.
    """
    ours, theirs = source.offsets + shift, target.offsets
    offsets = np.union1d(ours, theirs)
    sides = np.isin(offsets, ours) + 2 * np.isin(offsets, theirs)
    found = []
    for start, end in runs(sides):
        first, past = int(offsets[start]), int(offsets[end - 1]) + 1
        found.append((source.from_offset(first - shift, past - shift), target.from_offset(first, past)))
    return found


def runs(values: Any) -> list[tuple[int, int]]:
    """The places of an array with the same value in a row, as ranges from the first place to the place after the
    last."""
    if not len(values):
        return []
    breaks = (np.flatnonzero(np.diff(values)) + 1).tolist()
    return list(zip([0, *breaks], [*breaks, len(values)], strict=True))


def same_bytes(one: memoryview, other: memoryview) -> bool:
    """Whether two blocks are equal; a memoryview would compare each element by itself."""
    return bool(pa.py_buffer(one).equals(pa.py_buffer(other)))


def spans(offsets: Longs) -> list[tuple[int, int]]:
    """Offsets, which grow, as ranges from the first offset to the offset after the last."""
    if not len(offsets):
        return []
    breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
    firsts, lasts = offsets[np.concatenate(([0], breaks))], offsets[np.concatenate((breaks - 1, [len(offsets) - 1]))]
    return [(int(first), int(last) + 1) for first, last in zip(firsts, lasts, strict=True)]
