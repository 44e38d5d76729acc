"""Finds the first byte of each record of many batches: the length of a record leads to the next record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinlog.arrow.arrays import Bytes, Longs, UnusualError, read_varints
from twinlog.kafka.record.batch import HEADER_SIZE, Batch
from twinlog.kafka.record.varint import read_varint

LOCK_STEP_FROM = 48
"""From so many batches in step on, a common step takes less time than single steps in a loop."""


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
    indexes = (behind - many)[order]
    sorted_counts = many[order]
    at = np.asarray(begins, dtype=np.int64)[order]
    starts = np.empty(total, dtype=np.int64)
    # For each n the number of batches with more than n records.
    steps = np.arange(int(sorted_counts[0]))
    active = len(many) - np.searchsorted(sorted_counts[::-1], steps, side="right")
    for step, left in enumerate(active.tolist()):
        here = at[:left]
        starts[indexes[:left] + step] = here
        size, past = read_varints(array, here)
        if size.min() < 0 or size.max() > len(array):
            raise UnusualError("a length that cannot be")
        at[:left] = past + size
    if (at != np.asarray(ends, dtype=np.int64)[order]).any():
        raise UnusualError("the records do not fill their block")
    return starts
