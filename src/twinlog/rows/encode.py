"""The way back: rows become record batches of format 2, all records at once (Kafka's `DefaultRecord`, KIP-98).

numpy writes the numbers between cells, and Arrow joins numbers and cells, record by record, into the records block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.errors import RecordTooLargeError
from twinlog.record.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD
from twinlog.record.compression import NONE, compress
from twinlog.rows.vectors import Longs

LARGEST_NUMBERS = 5 + 1 + 10 + 5 + 5 + 5 + 5
"""Bytes that length, attributes, timestamp, offset, two cell lengths and the count of headers take at most."""

AT_ONCE_BYTES = 2 << 20
"""Bytes of records that are encoded at once: many calls of numpy cost as much for ten records as for a thousand."""


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

    A batch is not stamped yet: base offset 0, leader epoch and producer fields -1, CRC 0. Timestamps become whole
    milliseconds, null ones the number -1. A record that is larger alone has a batch of its own up to `largest` bytes
    (None: `most_bytes`); beyond that RecordTooLargeError is raised. Rows with the same number in `together`, which does
    not decrease, are in one batch unless they are too large for that.
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
    """The cells of rows and their sizes, without headers where no record has any; `sizes` are sums over a row."""

    times: Longs
    keys: Any
    key_sizes: Longs
    values: Any
    value_sizes: Longs
    headers: Any | None
    sizes: Longs

    @classmethod
    def of(cls, rows: Any) -> _Cells:
        keys, values, headers = rows.column("key"), rows.column("value"), _headers(rows)
        key_sizes, value_sizes = _lengths(keys), _lengths(values)
        sizes = np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)
        if headers is not None:
            sizes += _lengths(headers)
        return cls(_milliseconds(rows.column("timestamp")), keys, key_sizes, values, value_sizes, headers, sizes)

    def part(self, start: int, end: int) -> _Cells:
        some = slice(start, end)
        return _Cells(
            self.times[some],
            *(self.keys.slice(start, end - start), self.key_sizes[some]),
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
    bounds = [0, *ends[begins[1:]].tolist(), len(block)]
    for number, count in enumerate(counts.tolist()):
        records = block[bounds[number] : bounds[number + 1]]
        yield _batch(records, count, int(firsts[number]), int(latest[number]), codec, level)


def _block(cells: _Cells, begins: Longs, firsts: Longs) -> tuple[memoryview, Longs]:
    """The records one behind the other, and where each begins.

    `begins` are the numbers of the records that their batches begin with, `firsts` the timestamps of those.
    """
    count = len(cells.times)
    offsets = np.arange(count, dtype=np.int64) - begins
    fields = [_varints(field) for field in (cells.times - firsts, offsets, cells.key_sizes)]
    between = _varints(cells.value_sizes)
    zero = pa.repeat(pa.scalar(b"\0", pa.binary()), count)
    inside = cells.sizes + (2 if cells.headers is None else 1)
    for _, sizes in (*fields, between):
        inside += sizes
    length, _ = _varints(inside)
    numbers = [column for column, _ in fields]
    tail = zero if cells.headers is None else cells.headers
    return _joined([length, zero, *numbers, cells.keys, between[0], cells.values, tail])


def _batch(block: memoryview, count: int, first: int, latest: int, codec: int, level: int | None) -> bytearray:
    records = block if codec == NONE else compress(codec, bytes(block), level)
    batch = bytearray(HEADER_SIZE + len(records))
    batch[HEADER_SIZE:] = records
    HEADER.pack_into(
        batch,
        0,
        *(0, len(batch) - LOG_OVERHEAD, -1, 2, 0, codec, count - 1),
        *(first, latest, -1, -1, -1, count),
    )
    return batch


def _headers(rows: Any) -> Any | None:
    """The encoded headers of each record, their count in front; None where no record has any."""
    if "headers" not in rows.schema.names:
        return None
    lists = rows.column("headers")
    counts = _longs(pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64()))
    if not counts.any():
        return None
    entries = lists.flatten()
    names = entries.field("key").cast(pa.binary())
    contents = entries.field("value")
    each = _join([_varints(_lengths(names))[0], names, _varints(_lengths(contents))[0], contents])
    bounds = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=bounds[1:])
    grouped = pa.Array.from_buffers(pa.list_(pa.binary()), len(counts), [None, pa.py_buffer(bounds)], children=[each])
    return _join([_varints(counts)[0], pc.binary_join(grouped, pa.scalar(b"", pa.binary()))])


def _milliseconds(column: Any) -> Longs:
    whole = pc.fill_null(column.cast(pa.int64()), -1000)
    return np.floor_divide(_longs(whole), 1000)


def _lengths(cells: Any) -> Longs:
    """The bytes of each cell, -1 for a null one."""
    return _longs(pc.fill_null(pc.binary_length(cells), -1).cast(pa.int64()))


def _longs(column: Any) -> Longs:
    """A column of 64-bit numbers without nulls as a vector; the same memory."""
    return np.frombuffer(column.buffers()[1], dtype=np.int64)[column.offset : column.offset + len(column)]


def _zigzag(numbers: Longs) -> Any:
    return (numbers << 1 ^ numbers >> 63).view(np.uint64)


def _varint_sizes(numbers: Longs) -> Longs:
    """How many bytes each number takes."""
    rest = _zigzag(numbers)
    sizes = np.ones(len(rest), dtype=np.int64)
    bound = np.uint64(1)
    for _ in range(9):
        bound = bound << np.uint64(7)
        larger = rest >= bound
        if not larger.any():
            break
        sizes += larger
    return sizes


def _varints(numbers: Longs) -> tuple[Any, Longs]:
    """Each number as a binary cell, and how many bytes that has."""
    sizes, rest = _varint_sizes(numbers), _zigzag(numbers)
    bounds = np.zeros(len(numbers) + 1, dtype=np.int32)
    np.cumsum(sizes, out=bounds[1:])
    longest = int(sizes.max(initial=0))
    if longest == 1:
        # As of nulls, and of numbers that are small and alike.
        data = rest.astype(np.uint8)
    else:
        data = np.empty(int(bounds[-1]), dtype=np.uint8)
        at = bounds[:-1].astype(np.int64)
        for byte in range(longest):
            has = np.flatnonzero(sizes > byte)
            more = (sizes[has] > byte + 1).astype(np.uint8) << 7
            data[at[has] + byte] = (rest[has] >> np.uint64(7 * byte) & np.uint64(127)).astype(np.uint8) | more
    column = pa.Array.from_buffers(pa.binary(), len(numbers), [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    return column, sizes


def _join(columns: list[Any]) -> Any:
    """The cells of several columns behind each other, row by row; null ones have no bytes."""
    return pc.binary_join_element_wise(
        *columns, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=b""
    )


def _joined(columns: list[Any]) -> tuple[memoryview, Longs]:
    """All cells, row by row, and where each row begins."""
    joined = _join(columns)
    _, bounds, data = joined.buffers()
    ends = np.frombuffer(bounds, dtype=np.int32)[joined.offset : joined.offset + len(joined) + 1]
    return memoryview(data)[int(ends[0]) : int(ends[-1])], (ends - ends[0])[:-1]
