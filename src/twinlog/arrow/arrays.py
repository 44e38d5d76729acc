"""Arrow arrays out of vectors and out of cells in a buffer; pyarrow need not know numpy for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from twinlog.arrow.fields import Cells, Headers
from twinlog.arrow.vectors import Flags, Longs

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


def schema(*, headers: bool) -> Any:
    """The columns of a topic's rows, those of Spark's own Kafka source."""
    return _WITH_HEADERS if headers else _WITHOUT_HEADERS


def gather(data: Any, cells: Cells) -> Any:
    """The cells as a binary array; they stand in `data` in this order, with or without other bytes between.

    `data` is seen as one array of cells and of what is between them, of which Arrow takes every second element.
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
    """A column of numbers without nulls; `values` are of its width."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def vector(column: Any) -> Longs:
    """A column of numbers or flags as 64-bit numbers; where it is null they are any."""
    column = column.cast(pa.int64())
    return np.frombuffer(column.buffers()[1], dtype=np.int64)[column.offset : column.offset + len(column)]


def text(column: Any) -> Any:
    """A binary column as text; what is not UTF-8 is replaced."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([cell.as_py().decode(errors="replace") for cell in column], pa.string())


def header_lists(data: Any, count: int, headers: Headers | None) -> Any:
    """The column of headers of `count` records: null for one that has none."""
    if headers is None:
        return pa.nulls(count, HEADERS_COLUMN.type)
    entries = pa.StructArray.from_arrays(
        [text(gather(data, headers.names)), gather(data, headers.contents)], fields=list(HEADER_TYPE)
    )
    bounds = headers.bounds.astype(np.int32)
    some = _validity(headers.bounds[1:] > headers.bounds[:-1])
    return pa.Array.from_buffers(HEADERS_COLUMN.type, count, [some, pa.py_buffer(bounds)], children=[entries])


def microseconds(milliseconds: Longs) -> Longs:
    """Timestamps of records in Spark's unit. Raises OverflowError for one that has no place there."""
    most = MOST_MILLISECONDS
    if len(milliseconds) and not -most <= int(milliseconds.min()) <= int(milliseconds.max()) <= most:
        raise OverflowError
    return milliseconds * 1000


def _validity(present: Flags) -> Any:
    if present.all():
        return None
    return pa.py_buffer(np.packbits(present, bitorder="little"))
