"""Takes the fields of records apart, each field of all records at once (Kafka's `DefaultRecord`, KIP-98)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinlog.arrow.vectors import Bytes, Longs, UnusualError, read_varints


@dataclass(slots=True)
class Cells:
    """Where the bytes of one column stand: first byte and length of each cell, -1 for a null one."""

    first: Longs
    length: Longs


@dataclass(slots=True)
class Fields:
    """The fields of some records; deltas count from their batch's base.

    `header_counts` are the numbers of their headers, which begin at `headers_at`; `ends` are the places after records.
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
    """All headers of some records, in order; record number n has those from `bounds[n]` to `bounds[n + 1]`."""

    bounds: Longs
    names: Cells
    contents: Cells


def read_fields(array: Bytes, starts: Longs) -> Fields:
    """The fields of the records at `starts`. Raises UnusualError where one runs past the end of its record."""
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
    """The headers of all records, None where no record has one. Raises UnusualError as `read_fields` does."""
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
        # The header with this number, of all records that have so many.
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
