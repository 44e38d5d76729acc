"""The places of records in the bytes of a fetch, so that a comparison reads the bodies in the fetch itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa

from twinlog.batches.arrow.arrays import Cells, UnusualError, find_starts, read_varints
from twinlog.batches.arrow.varints import Varints
from twinlog.batches.vectors import Bytes, Flags, Longs, windows
from twinlog.kafka.record.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LAST_OFFSET_DELTA,
    LENGTH,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAX_TIMESTAMP,
    RECORD_COUNT,
    TRANSACTIONAL,
    Batch,
)

NO_TIMESTAMP = -1
"""The timestamp of a record of format 0, and of a record whose producer left the timestamp unset."""

INLINE = 12
"""A view of Arrow has up to so many bytes inside of itself."""

HEADERS = np.dtype(
    {
        "names": ["offset", "length", "magic", "attributes", "delta", "oldest", "newest", "count"],
        "formats": [">i8", ">i4", "i1", ">i2", ">i4", ">i8", ">i8", ">i4"],
        "offsets": [
            place.start
            for place in (
                *(BASE_OFFSET, LENGTH, MAGIC, ATTRIBUTES, LAST_OFFSET_DELTA, BASE_TIMESTAMP, MAX_TIMESTAMP),
                RECORD_COUNT,
            )
        ],
        "itemsize": HEADER_SIZE,
    }
)
FIELDS = np.dtype([(name, np.int64) for name in ("offset", "attributes", "oldest", "newest", "count")])
"""The fields of a header that its records need."""
_LENGTH = Struct(">i")


@dataclass(slots=True)
class PlacedRecords:
    """Records in the order of their offsets; `cells` are the places of their bodies in `data`.

    `timed` is false for a timestamp that a broker set. `attributes_at` are the places of the records' attributes.
    """

    data: bytes | memoryview
    offsets: Longs
    timestamps: Longs
    timed: Flags
    cells: Cells
    attributes_at: Longs

    def __len__(self) -> int:
        return len(self.offsets)

    def within(self, spans: Sequence[tuple[int, int]]) -> PlacedRecords:
        """The records whose offsets are in some run of (first offset, count)."""
        bounds = np.searchsorted(self.offsets, [(first, first + count) for first, count in spans]).tolist()
        if len(bounds) == 1:
            return self._chosen(slice(*bounds[0]))
        return self._chosen(np.concatenate([np.arange(first, past) for first, past in bounds]))

    def _chosen(self, places: Any) -> PlacedRecords:
        cells = Cells(self.cells.first[places], self.cells.length[places])
        timestamps, timed = self.timestamps[places], self.timed[places]
        return PlacedRecords(self.data, self.offsets[places], timestamps, timed, cells, self.attributes_at[places])

    def places_in(self, base_timestamp: int) -> Longs:
        """The places of these records in the block of a batch that has them alone, and the place after the last."""
        return places_of(self.timestamps, self.cells.length, base_timestamp)

    def are_copies_of(self, originals: PlacedRecords) -> bool:
        """Whether the records have the timestamps and bodies of other records, in order; their offsets may differ.

        The copy of a record with `NO_TIMESTAMP` has any timestamp. False also for some very short bodies, which this
        comparison leaves to copies of all bodies.
        """
        lengths = self.cells.length
        if not len(self) or not np.array_equal(lengths, originals.cells.length) or int(lengths.min()) <= INLINE:
            return False
        same = self.timestamps == originals.timestamps
        if not same.all() and not (same | (originals.timestamps == NO_TIMESTAMP)).all():
            return False
        return bool(self._views().equals(originals._views()))

    def runs_from(self, first: int) -> bool:
        """Whether the offsets are `first` and all its successors."""
        return int(self.offsets[0]) == first and int(self.offsets[-1]) == first + len(self) - 1

    def _views(self) -> Any:
        """The bodies, longer than `INLINE`, as an Arrow array of views: length, first bytes, buffer, place."""
        array: Bytes = np.frombuffer(self.data, dtype=np.uint8)
        views = np.zeros((len(self), 4), dtype="<i4")
        views[:, 0] = self.cells.length
        # Arrow compares these bytes instead of the bytes in the buffer.
        views[:, 1] = windows(array, 4, "<i")[self.cells.first]
        views[:, 3] = self.cells.first
        return pa.Array.from_buffers(pa.binary_view(), len(self), [None, pa.py_buffer(views), pa.py_buffer(self.data)])


def places_of(timestamps: Longs, lengths: Longs, base_timestamp: int) -> Longs:
    """The places of records with bodies of these lengths in a batch, and the place after the last."""
    deltas = Varints.of(np.stack((timestamps - base_timestamp, np.arange(len(timestamps)))))
    sizes = lengths + deltas.sizes.sum(axis=0, dtype=np.int64) + 1
    places = np.zeros(len(timestamps) + 1, dtype=np.int64)
    np.cumsum(sizes + Varints.of(sizes).sizes, out=places[1:])
    return places


def place_plain(records: memoryview, ranges: Iterable[tuple[int, int]], *, transactions: bool) -> PlacedRecords | None:
    """The records of all batches of a fetch that have offsets in some range, from a first offset to below another.

    None if such a batch is compressed, of an older format, or unusual, and without `transactions` if it is in a
    transaction: `decode_bodies` decodes them batch by batch. Markers are left out, and checksums are ignored.
    """
    starts: list[int] = []
    add, read_length, at, last = starts.append, _LENGTH.unpack_from, 0, len(records) - HEADER_SIZE
    while at <= last:
        add(at)
        (length,) = read_length(records, at + LENGTH.start)
        if length < HEADER_SIZE - LOG_OVERHEAD:
            return None
        at += length + LOG_OVERHEAD
    if at > len(records):
        # The fetch has cut off its last batch.
        starts.pop()
    elif at + MAGIC.start < len(records) and records[at + MAGIC.start] < 2:
        # A message of an older format may be shorter than a header.
        return None
    if not starts:
        return None
    array: Bytes = np.frombuffer(records, dtype=np.uint8)
    begins = np.asarray(starts, dtype=np.int64)
    headers = windows(array, HEADER_SIZE)[begins].view(HEADERS)
    if (headers["magic"] != 2).any():
        return None
    firsts, pasts = headers["offset"], headers["offset"] + headers["delta"] + 1
    wanted = np.zeros(len(begins), dtype=np.bool_)
    for first, past in ranges:
        wanted[np.searchsorted(pasts, first, side="right") : np.searchsorted(firsts, past)] = True
    wanted &= (headers["attributes"] & CONTROL == 0) & (headers["count"] != 0)
    begins, headers = begins[wanted], headers[wanted]
    unlike = CODEC_MASK | (0 if transactions else TRANSACTIONAL)
    if not len(begins) or (headers["attributes"] & unlike).any():
        return None
    try:
        return place_records(
            records,
            begins + HEADER_SIZE,
            begins + headers["length"] + LOG_OVERHEAD,
            headers[list(FIELDS.names or ())].astype(FIELDS),
            None,
        )
    except UnusualError:
        return None


def place_batch(data: bytes | memoryview, begin: int, batch: Batch, places: Longs) -> PlacedRecords:
    """The records of a batch from place `begin` to the end of the data; `places` are as for `place_records`."""
    header = (batch.base_offset, batch.attributes, batch.base_timestamp, batch.max_timestamp, batch.record_count)
    begins, ends = np.array([begin]), np.array([len(data)])
    return place_records(data, begins, ends, np.array([header], dtype=FIELDS), places)


def place_records(
    data: bytes | memoryview, begins: Longs, ends: Longs, headers: Any, places: Longs | None
) -> PlacedRecords:
    """The records of batches from `begins` to below `ends` of the data; `headers` have `FIELDS`.

    `places` are the expected places of the records of a single batch, as `places_of`: right places save the search for
    the records. Raises UnusualError.
    """
    array: Bytes = np.frombuffer(data, dtype=np.uint8)
    counts = headers["count"]
    expected = None
    if places is not None and len(places) == counts[0] + 1 and begins[0] + places[-1] == ends[0]:
        expected = places + begins[0]
    if expected is not None:
        starts, pasts = expected[:-1], expected[1:]
    elif (counts == 1).all():
        starts, pasts = begins, ends
    else:
        starts, pasts = find_starts(data, array, begins.tolist(), ends.tolist(), counts.tolist()), None
    size, at = read_varints(array, starts)
    past = at + size
    if pasts is not None and (past != pasts).any():
        if expected is not None:
            return place_records(data, begins, ends, headers, None)
        raise UnusualError("the records do not fill their block")
    attributes_at = at
    stamps, at = read_varints(array, at + 1)
    deltas, at = read_varints(array, at)
    if len(size) and (size.min() < 0 or (at > past).any()):
        raise UnusualError("a record is shorter than its fields")
    offsets = np.repeat(headers["offset"], counts) + deltas
    if (np.diff(offsets) <= 0).any():
        raise UnusualError("offsets that do not grow")
    timestamps = np.repeat(headers["oldest"], counts) + stamps
    stamped = np.repeat(headers["attributes"] & LOG_APPEND_TIME != 0, counts)
    if stamped.any():
        timestamps[stamped] = np.repeat(headers["newest"], counts)[stamped]
    return PlacedRecords(data, offsets, timestamps, ~stamped, Cells(at, past - at), attributes_at)
