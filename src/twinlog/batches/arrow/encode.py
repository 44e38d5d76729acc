"""Rows become record batches of format 2, all records at once (Kafka's `DefaultRecord`, KIP-98).

numpy writes the varints between cells, and Arrow joins numbers and cells, record by record, into the records block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.batches.arrow.varints import Varints
from twinlog.batches.vectors import Longs
from twinlog.errors import RecordTooLargeError
from twinlog.kafka.record.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD
from twinlog.kafka.record.compression import NONE, compress

LARGEST_NUMBERS = 5 + 1 + 10 + 5 + 5 + 5 + 5
"""Bytes that length, attributes, timestamp, offset, two cell lengths and the count of headers take at most."""

AT_ONCE_BYTES = 2 << 20
"""Bytes of records that are encoded at once: many calls of numpy cost as much for ten records as for a thousand."""

_NOTHING = pa.scalar(b"", pa.binary())
_NO_HEADERS = pa.scalar(b"\0", pa.binary())


def encode(
    rows: Any,
    *,
    most_bytes: int,
    codec: int = NONE,
    level: int | None = None,
    largest: int | None = None,
    together: Longs | None = None,
) -> Iterator[bytearray]:
    """Encode rows, with or without headers, as batches of `most_bytes` at most before compression.

    The batches are still to be stamped: base offset 0, leader epoch and producer fields -1, CRC 0. Timestamps become
    whole milliseconds, a null timestamp the number -1. A record above `most_bytes` has a batch of its own up to
    `largest` bytes (None: `most_bytes`); beyond that RecordTooLargeError is raised. `together` has a number for each
    row, in ascending order. Rows with the same number are in the same batch unless the rows are too large for that.
    """
    largest = most_bytes if largest is None else largest
    cells = _Cells.of(rows)
    bounds = cells.sizes + LARGEST_NUMBERS
    waiting: list[slice] = []
    start = 0
    ends = np.cumsum(np.maximum(bounds, 0))
    while start < rows.num_rows:
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + most_bytes - HEADER_SIZE, side="right"))
        if together is not None and start < end < rows.num_rows and together[end] == together[end - 1]:
            end = int(np.searchsorted(together, together[end])) if together[start] < together[end] else end
        if end == start:
            size = int(ends[start]) - before + HEADER_SIZE
            if size > largest:
                yield from _batches(cells, waiting, codec, level)
                raise RecordTooLargeError(
                    f"a record of up to {size} bytes is larger than the {largest} bytes that a batch may have",
                    size=size,
                    limit=largest,
                )
            end = start + 1
        waiting.append(slice(start, end))
        if ends[end - 1] - (ends[waiting[0].start - 1] if waiting[0].start else 0) >= AT_ONCE_BYTES:
            yield from _batches(cells, waiting, codec, level)
            waiting = []
        start = end
    yield from _batches(cells, waiting, codec, level)


@dataclass(slots=True)
class _Cells:
    """The cells of rows and their sizes; `sizes` are sums over a row.

    `keys` and `headers` are None if all rows lack them.
    """

    times: Longs
    keys: Any | None
    key_sizes: Longs
    values: Any
    value_sizes: Longs
    headers: Any | None
    sizes: Longs

    @classmethod
    def of(cls, rows: Any) -> _Cells:
        keys, values, headers = rows.column("key"), rows.column("value"), _headers(rows)
        key_sizes, value_sizes = _lengths(keys), _lengths(values)
        sizes = np.maximum(value_sizes, 0)
        if keys.null_count == len(keys):
            keys = None
        else:
            sizes += np.maximum(key_sizes, 0)
        if headers is not None:
            sizes += _lengths(headers)
        return cls(_milliseconds(rows.column("timestamp")), keys, key_sizes, values, value_sizes, headers, sizes)

    def part(self, start: int, end: int) -> _Cells:
        some = slice(start, end)
        return _Cells(
            self.times[some],
            *(None if self.keys is None else self.keys.slice(start, end - start), self.key_sizes[some]),
            *(self.values.slice(start, end - start), self.value_sizes[some]),
            None if self.headers is None else self.headers.slice(start, end - start),
            self.sizes[some],
        )


def _batches(cells: _Cells, parts: list[slice], codec: int, level: int | None) -> Iterator[bytearray]:
    """The batches of neighbouring parts of the rows, whose records are encoded together."""
    if not parts:
        return
    cells = cells.part(parts[0].start, parts[-1].stop)
    counts = np.array([part.stop - part.start for part in parts])
    begins = np.cumsum(counts) - counts
    firsts = cells.times[begins]
    latest = np.maximum.reduceat(cells.times, begins)
    block, ends = _block(cells, np.repeat(begins, counts), np.repeat(firsts, counts))
    bounds = [*ends[begins].tolist(), len(block)]
    for number, count in enumerate(counts.tolist()):
        begin, end = bounds[number], bounds[number + 1]
        if codec == NONE:
            # The header will overwrite the last bytes before the records, so each byte is copied once.
            batch = bytearray(block[begin - HEADER_SIZE : end])
        else:
            batch = bytearray(HEADER_SIZE)
            batch += compress(codec, block[begin:end], level)
        HEADER.pack_into(
            batch,
            0,
            *(0, len(batch) - LOG_OVERHEAD, -1, 2, 0, codec, count - 1),
            *(int(firsts[number]), int(latest[number]), -1, -1, -1, count),
        )
        yield batch


def _block(cells: _Cells, begins: Longs, firsts: Longs) -> tuple[memoryview, Longs]:
    """The block of all records, after room for a header, and the first byte of each record.

    `begins` has for each record the number of the first record of its batch, `firsts` the timestamp of that record.
    """
    count = len(cells.times)
    fields = np.zeros((5, count), dtype=np.int64)
    # The first field is the attributes, which are 0 for each record.
    np.subtract(cells.times, firsts, out=fields[1])
    np.subtract(np.arange(count, dtype=np.int64), begins, out=fields[2])
    fields[3:] = cells.key_sizes, cells.value_sizes
    numbers = Varints.of(fields)
    inside = cells.sizes + numbers.sizes.sum(axis=0, dtype=np.int64)
    if cells.headers is None:
        inside += 1
    length = Varints.of(inside[np.newaxis])
    tail = _NO_HEADERS if cells.headers is None else cells.headers
    if cells.keys is None:
        return _joined([length.cells_with(numbers, HEADER_SIZE), cells.values, tail])
    head = length.cells_with(numbers.some(slice(4)), HEADER_SIZE)
    return _joined([head, cells.keys, numbers.some(slice(4, 5)).cells(), cells.values, tail])


def _headers(rows: Any) -> Any | None:
    """The encoded headers of each record, after their count; None if all records lack headers."""
    if "headers" not in rows.schema.names:
        return None
    lists = rows.column("headers")
    if lists.null_count == len(lists):
        return None
    counts = _longs(pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64()))
    if not counts.any():
        return None
    entries = lists.flatten()
    names = entries.field("key").cast(pa.binary())
    contents = entries.field("value")
    each = _join([_varints(_lengths(names)), names, _varints(_lengths(contents)), contents])
    bounds = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=bounds[1:])
    grouped = pa.Array.from_buffers(pa.list_(pa.binary()), len(counts), [None, pa.py_buffer(bounds)], children=[each])
    return _join([_varints(counts), pc.binary_join(grouped, _NOTHING)])


def _varints(numbers: Longs) -> Any:
    return Varints.of(numbers[np.newaxis]).cells()


def _milliseconds(column: Any) -> Longs:
    whole = column.cast(pa.int64())
    if whole.null_count:
        whole = pc.fill_null(whole, -1000)
    return np.floor_divide(_longs(whole), 1000)


def _lengths(cells: Any) -> Longs:
    """The bytes of each cell, -1 for a null cell."""
    count = len(cells)
    if cells.null_count == count:
        return np.full(count, -1, dtype=np.int64)
    if cells.null_count:
        return _longs(pc.fill_null(pc.binary_length(cells), -1).cast(pa.int64()))
    bounds = np.frombuffer(cells.buffers()[1], dtype=np.int32)[cells.offset : cells.offset + count + 1]
    return np.subtract(bounds[1:], bounds[:-1], dtype=np.int64)


def _longs(column: Any) -> Longs:
    """A column of 64-bit numbers as a vector in the same memory; each row must have a value."""
    return np.frombuffer(column.buffers()[1], dtype=np.int64)[column.offset : column.offset + len(column)]


def _join(columns: list[Any]) -> Any:
    """The cells of several columns in sequence, row by row; null cells become empty."""
    return pc.binary_join_element_wise(*columns, _NOTHING, null_handling="replace", null_replacement=b"")


def _joined(columns: list[Any]) -> tuple[memoryview, Longs]:
    """All cells, row by row, and the first byte of each row; the first row begins after the room for a header."""
    joined = _join(columns)
    _, bounds, data = joined.buffers()
    ends = np.frombuffer(bounds, dtype=np.int32)[joined.offset : joined.offset + len(joined) + 1]
    begins = ends[:-1] - ends[0]
    begins[0] = HEADER_SIZE
    return memoryview(data)[int(ends[0]) : int(ends[-1])], begins
