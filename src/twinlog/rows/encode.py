"""The way back: rows become record batches of format 2, all records at once (Kafka's `DefaultRecord`, KIP-98).

numpy writes the numbers between cells, and Arrow joins numbers and cells, record by record, into the records block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.errors import RecordTooLargeError
from twinlog.record.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD
from twinlog.record.compression import NONE, compress
from twinlog.rows.vectors import Longs

LARGEST_NUMBERS = 5 + 1 + 10 + 5 + 5 + 5 + 5
"""Bytes that length, attributes, timestamp, offset, two cell lengths and the count of headers take at most."""


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
    keys, values = rows.column("key"), rows.column("value")
    headers = _headers(rows)
    times = _milliseconds(rows.column("timestamp"))
    key_sizes, value_sizes = _lengths(keys), _lengths(values)
    header_sizes = None if headers is None else _lengths(headers)
    bounds = key_sizes + value_sizes + (LARGEST_NUMBERS if header_sizes is None else header_sizes + LARGEST_NUMBERS)
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
                raise RecordTooLargeError(
                    f"a record of up to {size} bytes is larger than the {largest} bytes that a batch may have",
                    size=size,
                    limit=largest,
                )
            end = start + 1
        count = end - start
        part = slice(start, end)
        cells = _Cells(
            *(keys.slice(start, count), key_sizes[part]),
            *(values.slice(start, count), value_sizes[part]),
            None if headers is None else headers.slice(start, count),
            None if header_sizes is None else header_sizes[part],
        )
        yield _batch(_block(cells, times[part]), times[part], codec, level)
        start = end


class _Cells(NamedTuple):
    """The cells of one batch and their sizes; no headers where no record has any."""

    keys: Any
    key_sizes: Longs
    values: Any
    value_sizes: Longs
    headers: Any | None
    header_sizes: Longs | None


def _block(cells: _Cells, times: Longs) -> memoryview:
    """The records of one batch."""
    count = len(times)
    fields = [_varints(field) for field in (times - times[0], np.arange(count, dtype=np.int64), cells.key_sizes)]
    between = _varints(cells.value_sizes)
    tail = pa.repeat(pa.scalar(b"\0", pa.binary()), count) if cells.headers is None else cells.headers
    inside = np.maximum(cells.key_sizes, 0) + np.maximum(cells.value_sizes, 0) + 1
    for _, sizes in (*fields, between):
        inside += sizes
    inside += 1 if cells.header_sizes is None else cells.header_sizes
    length, _ = _varints(inside)
    attributes = pa.repeat(pa.scalar(b"\0", pa.binary()), count)
    numbers = [column for column, _ in fields]
    return _joined([length, attributes, *numbers, cells.keys, between[0], cells.values, tail])


def _batch(block: memoryview, times: Longs, codec: int, level: int | None) -> bytearray:
    records = block if codec == NONE else compress(codec, bytes(block), level)
    batch = bytearray(HEADER_SIZE + len(records))
    batch[HEADER_SIZE:] = records
    HEADER.pack_into(
        batch,
        0,
        *(0, len(batch) - LOG_OVERHEAD, -1, 2, 0, codec, len(times) - 1),
        *(int(times[0]), int(times.max()), -1, -1, -1, len(times)),
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


def _joined(columns: list[Any]) -> memoryview:
    """All cells, row by row."""
    joined = _join(columns)
    _, bounds, data = joined.buffers()
    ends = np.frombuffer(bounds, dtype=np.int32)
    return memoryview(data)[int(ends[joined.offset]) : int(ends[joined.offset + len(joined)])]
