"""Vectors of numbers and Arrow arrays of cells, out of the bytes of many records, whose first bytes are found.

The length of a record leads to the next record. pyarrow itself works independently of numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from twinlog.batches.vectors import Bytes, Flags, Longs, record_sizes, windows
from twinlog.kafka.record.batch import HEADER_SIZE, Batch
from twinlog.kafka.record.varint import read_varint

_POSITIVE = np.int64(2**63 - 1)
_LAST_SHIFT = 63

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
MOST_MILLISECONDS = (2**63 - 1) // 1000
TIMESTAMP = pa.timestamp("us", tz="UTC")

COLUMNS = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", TIMESTAMP),
    pa.field("timestampType", pa.int32()),
)

HEADERS_COLUMN = pa.field("headers", pa.list_(pa.field("element", HEADER_TYPE)))
_WITHOUT_HEADERS, _WITH_HEADERS = pa.schema(COLUMNS), pa.schema([*COLUMNS, HEADERS_COLUMN])

LOCK_STEP_FROM = 48
"""From so many batches in step on, a common step takes less time than single steps in a loop."""


class UnusualError(Exception):
    """The bytes differ from a broker's usual bytes, so the exact decoder must decide whether the bytes are damaged."""


def read_varints(data: Bytes, at: Longs) -> tuple[Longs, Longs]:
    """The zigzag varints that begin at the places `at`, and the places after the varints.

    Raises UnusualError if a varint is longer than 64 bits, or runs past the end of `data`.
    """
    try:
        byte = data[at].astype(np.int64)
        value = byte & 127
        at = at + 1
        longer = np.flatnonzero(byte >= 128)
        shift = 7
        while longer.size:
            byte = data[at[longer]].astype(np.int64)
            if shift == _LAST_SHIFT and (byte > 1).any():
                raise UnusualError("a number of more than 64 bits")
            value[longer] |= (byte & 127) << shift
            at[longer] += 1
            longer = longer[byte >= 128]
            shift += 7
    except IndexError:
        raise UnusualError("a number runs past the end") from None
    # The shift of a negative number would fill in 1 bits.
    return (value >> 1 & _POSITIVE) ^ -(value & 1), at


def per_record(values: list[int], counts: list[int]) -> Longs:
    """A value of each batch for each of its records."""
    return np.repeat(np.asarray(values, dtype=np.int64), counts)


@dataclass(slots=True)
class Cells:
    """The places of a column's bytes: first byte and length of each cell, -1 for a null cell."""

    first: Longs
    length: Longs


@dataclass(slots=True)
class Fields:
    """The fields of some records; deltas count from the base of the record's batch.

    `header_counts` are the numbers of headers, which begin at `headers_at`; `ends` are the places after the records.
    """

    timestamp_deltas: Longs
    offset_deltas: Longs
    keys: Cells
    values: Cells
    header_counts: Longs
    headers_at: Longs
    ends: Longs


@dataclass(slots=True)
class Headers:
    """All headers of some records, in order; record number n has the headers from `bounds[n]` to `bounds[n + 1]`."""

    bounds: Longs
    names: Cells
    contents: Cells


def read_fields(array: Bytes, starts: Longs) -> Fields:
    """The fields of the records at `starts`. Raises UnusualError if a field runs past the end of its record."""
    size, at = read_varints(array, starts)
    if len(size) and (size.min() < 0 or size.max() > len(array)):
        raise UnusualError("a length that cannot be")
    ends = at + size
    timestamps, at = read_varints(array, at + 1)
    offsets, at = read_varints(array, at)
    keys, at = _cells(array, at)
    values, at = _cells(array, at)
    header_counts, at = read_varints(array, at)
    if (at > ends).any():
        raise UnusualError("a record is shorter than its fields")
    return Fields(timestamps, offsets, keys, values, header_counts, at, ends)


def read_headers(array: Bytes, fields: Fields) -> Headers | None:
    """The headers of all records, None if all records lack headers. Raises UnusualError as `read_fields` does."""
    counts = np.maximum(fields.header_counts, 0)
    most = int(counts.max(initial=0))
    if not most:
        return None
    if (counts > fields.ends - fields.headers_at).any():
        raise UnusualError("more headers than bytes")
    bounds = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=bounds[1:])
    names, contents = (Cells(*(np.empty(int(bounds[-1]), dtype=np.int64) for _ in range(2))) for _ in range(2))
    having = np.flatnonzero(counts)
    at = fields.headers_at[having]
    for number in range(most):
        # The header with this number, of all records that have so many headers.
        goes_on = counts[having] > number
        having, at = having[goes_on], at[goes_on]
        indexes = bounds[having] + number
        found, at = _cells(array, at)
        if found.length.min() < 0:
            raise UnusualError("a header has no name")
        names.first[indexes], names.length[indexes] = found.first, found.length
        found, at = _cells(array, at)
        contents.first[indexes], contents.length[indexes] = found.first, found.length
        if (at > fields.ends[having]).any():
            raise UnusualError("a record is shorter than its headers")
    return Headers(bounds, names, contents)


def _cells(array: Bytes, at: Longs) -> tuple[Cells, Longs]:
    """The cells whose lengths begin at `at`, and the places after them."""
    length, first = read_varints(array, at)
    if len(length) and length.max() > len(array):
        raise UnusualError("a length that cannot be")
    past = first + np.maximum(length, 0)
    return Cells(first, np.maximum(length, -1)), past


def schema(*, headers: bool) -> Any:
    """The columns of a topic's rows, equal to the columns of Spark's own Kafka source."""
    return _WITH_HEADERS if headers else _WITHOUT_HEADERS


def gather(data: Any, cells: Cells) -> Any:
    """The cells as a binary array; `data` has the cells in this order, perhaps with other bytes between them.

    For Arrow `data` is an array of alternating cells and gaps; the result takes every second element.
    """
    count = len(cells.first)
    if not count or cells.length.max() < 0:
        return pa.nulls(count, pa.binary())
    bounds = np.empty(2 * count + 1, dtype=np.int32)
    bounds[0:-1:2] = cells.first
    np.add(cells.first, np.maximum(cells.length, 0), out=bounds[1::2], casting="unsafe")
    bounds[-1] = bounds[-2]
    whole = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    present = cells.length >= 0
    every_second = np.arange(0, 2 * count, 2, dtype=np.int64)
    return whole.take(pa.Array.from_buffers(pa.int64(), count, [_validity(present), pa.py_buffer(every_second)]))


def numbers(kind: Any, values: Any) -> Any:
    """A column of numbers in which each row has a value; `values` have the column's width."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def vector(column: Any) -> Longs:
    """A column of numbers or flags as 64-bit numbers; a null becomes an arbitrary number."""
    column = column.cast(pa.int64())
    return np.frombuffer(column.buffers()[1], dtype=np.int64)[column.offset : column.offset + len(column)]


def text(column: Any) -> Any:
    """A binary column as text; bytes outside of UTF-8 are replaced."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([cell.as_py().decode(errors="replace") for cell in column], pa.string())


def header_lists(data: Any, count: int, headers: Headers | None) -> Any:
    """The column of headers of `count` records: null for a record without headers."""
    if headers is None:
        return pa.nulls(count, HEADERS_COLUMN.type)
    entries = pa.StructArray.from_arrays(
        [text(gather(data, headers.names)), gather(data, headers.contents)], fields=list(HEADER_TYPE)
    )
    bounds = headers.bounds.astype(np.int32)
    some = _validity(headers.bounds[1:] > headers.bounds[:-1])
    return pa.Array.from_buffers(HEADERS_COLUMN.type, count, [some, pa.py_buffer(bounds)], children=[entries])


def microseconds(milliseconds: Longs) -> Longs:
    """Timestamps of records in Spark's unit. Raises OverflowError for a timestamp beyond the range of this unit."""
    most = MOST_MILLISECONDS
    if len(milliseconds) and not -most <= int(milliseconds.min()) <= int(milliseconds.max()) <= most:
        raise OverflowError
    return milliseconds * 1000


def _validity(present: Flags) -> Any:
    if present.all():
        return None
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def laid_out(
    records: memoryview, batches: Sequence[Batch], blocks: Sequence[bytes | memoryview] | None
) -> tuple[bytes | memoryview, list[int], list[int]]:
    """The bytes with the records of all batches of a fetch, and the begin and end of each batch in these bytes.

    `blocks` are the batches' records, some of them decompressed; with None the records are read in the fetch itself.
    """
    if blocks is None:
        return records, [batch.start + HEADER_SIZE for batch in batches], [batch.end for batch in batches]
    ends = np.cumsum([len(block) for block in blocks]).tolist()
    return b"".join(blocks), [0, *ends[:-1]], ends


def find_starts(
    data: bytes | memoryview, array: Bytes, begins: Sequence[int], ends: Sequence[int], counts: Sequence[int]
) -> Longs:
    """The places of all records in `data`, in order.

    Batch number n has `counts[n]` records from `begins[n]` to `ends[n]`. `array` has the same bytes as `data`. Raises
    UnusualError unless the records of each batch fill their block.
    """
    if sum(counts) >= LOCK_STEP_FROM * max(counts, default=1):
        return _in_lock_step(array, begins, ends, counts)
    return np.asarray(_one_by_one(data, begins, ends, counts), dtype=np.int64)


def _one_by_one(
    data: bytes | memoryview, begins: Sequence[int], ends: Sequence[int], counts: Sequence[int]
) -> list[int]:
    """A plain, minimal loop; signs of lengths are checked later."""
    starts: list[int] = []
    add = starts.append
    try:
        for begin, end, count in zip(begins, ends, counts, strict=True):
            at = begin
            for _ in range(count):
                add(at)
                first = data[at]
                if first < 128:
                    at += 1 + (first >> 1)
                    continue
                second = data[at + 1]
                if second < 128:
                    at += 2 + ((first & 127 | second << 7) >> 1)
                    continue
                size, at = read_varint(data, at)
                if size < 0:
                    raise UnusualError("a negative length")
                at += size
            if at != end:
                raise UnusualError("the records do not fill their block")
    except IndexError:
        raise UnusualError("the records run past the end") from None
    return starts


def _in_lock_step(array: Bytes, begins: Sequence[int], ends: Sequence[int], counts: Sequence[int]) -> Longs:
    """Find the records step by step; step number n finds the n-th record of every batch that has so many records."""
    many = np.asarray(counts, dtype=np.int64)
    order = np.argsort(-many, kind="stable")
    behind = np.cumsum(many)
    total = int(behind[-1])
    sorted_counts = many[order]
    at = np.asarray(begins, dtype=np.int64)[order]
    # For each n the number of batches with more than n records.
    steps = np.arange(int(sorted_counts[0]))
    active = len(many) - np.searchsorted(sorted_counts[::-1], steps, side="right")
    firsts = np.cumsum(active) - active
    # The records of each step in turn: to put them in order at each step would take as long as all else.
    found = np.empty(total, dtype=np.int64)
    words = windows(array, 2, "<u")
    bytes_of = record_sizes().take
    for first, left in zip(firsts.tolist(), active.tolist(), strict=True):
        here = at[:left]
        found[first : first + left] = here
        try:
            taken = bytes_of(words[here])
        except IndexError:
            raise UnusualError("the records run past the end") from None
        if np.count_nonzero(taken) != left:
            size, past = read_varints(array, here)
            if size.min() < 0 or size.max() > len(array):
                raise UnusualError("a length that cannot be")
            taken = past + size - here
        here += taken
    if (at != np.asarray(ends, dtype=np.int64)[order]).any():
        raise UnusualError("the records do not fill their block")
    starts = np.empty(total, dtype=np.int64)
    places = np.arange(total) - np.repeat(firsts, active)
    starts[(behind - many)[order][places] + np.repeat(steps, active)] = found
    return starts
