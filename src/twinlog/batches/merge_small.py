"""Builds the records of merged batches out of many small ones at once, as `merge` does one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlog.batches.small_batches import Bytes, Longs, SmallBatches, find_small, windows
from twinlog.kafka.record.batch import Batch
from twinlog.kafka.record.builder import MAX_RECORDS, BatchBuilder

_FARTHEST = 1 << 34
"""A timestamp delta below this, after zigzag, is written with five bytes at most."""

_SLACK = 8


@dataclass(frozen=True, slots=True)
class _Group:
    """Batches number `first` to `end` that become one; `index` records are there already, the first one at `base` ms.

    A batch that begins here has `base` None.
    """

    first: int
    end: int
    index: int = 0
    base: int | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """The records of a group, ready to follow those that are there already.

    `batches` it was, of `source_bytes`, with `count` records; the first of all is from `base` ms, the newest of these
    from `newest`. `runs` and `next_offset` are as in a builder.
    """

    data: memoryview
    batches: int
    count: int
    base: int
    newest: int
    source_bytes: int
    runs: list[tuple[int, int]]
    next_offset: int


def merge(
    records: memoryview,
    first: Batch,
    builder: BatchBuilder | None,
    *,
    limit: int,
    room: int,
    largest: int,
    most: int,
    least: int,
    transactional: bool,
) -> list[Block]:
    """The records of small batches from `first` on, up to the end of `records`; the first block is for `builder`.

    Each block is of as many batches as `limit` bytes of the source hold. Empty where the batches are fewer than `least`
    (see `find_small`), their timestamps are too far apart, or a block may be larger than `room`.
    """
    small = find_small(records, first, largest=largest, most=most, least=least, transactional=transactional)
    if small is None:
        return []
    blocks = _blocks(small, _groups(small, builder, limit))
    before = 0 if builder is None else builder.size
    # While there is room for one more batch, the loops take it as well.
    one_more = int((small.ends - small.starts).max())
    fits = all(len(block.data) + one_more <= room - before * (not number) for number, block in enumerate(blocks))
    return blocks if fits else []


def _groups(small: SmallBatches, builder: BatchBuilder | None, limit: int) -> list[_Group]:
    found, first = [], 0
    if builder is not None:
        first = _fit(small, 0, limit - builder.source_bytes, MAX_RECORDS - builder.count)
        found.append(_Group(0, first, builder.count, builder.base_timestamp))
    while first < len(small):
        end = max(first + 1, _fit(small, first, limit, MAX_RECORDS))
        found.append(_Group(first, end))
        first = end
    return found


def _fit(small: SmallBatches, first: int, most_bytes: int, most_records: int) -> int:
    """The number of the batch after those that fit, from number `first` on."""
    end = int(np.searchsorted(small.ends, int(small.starts[first]) + most_bytes, side="right"))
    records = np.cumsum(small.counts[first:end])
    return first + int(np.searchsorted(records, most_records, side="right"))


def _blocks(small: SmallBatches, groups: Sequence[_Group]) -> list[Block]:
    counts = small.counts
    behind = np.cumsum(counts)
    ends = behind[[group.end - 1 for group in groups]]
    firsts = np.concatenate(([0], ends[:-1]))
    sizes = ends - firsts
    bases = small.timestamps[firsts]
    for number, group in enumerate(groups):
        if group.base is not None:
            bases[number] = group.base
    elapsed = small.timestamps - np.repeat(bases, sizes)
    raw = elapsed << 1 ^ elapsed >> 63
    if int(raw.max()) >= _FARTHEST or int(raw.min()) < 0:
        return []
    index = np.arange(len(raw)) - np.repeat(firsts - np.array([group.index for group in groups]), sizes)
    data, places = _write(small.array, raw, index << 1, small.bodies, small.lengths)
    offsets = small.offsets
    if len(raw) != len(counts):
        offsets = np.repeat(offsets - behind + counts, counts) + np.arange(len(raw))
    breaks = np.flatnonzero(offsets[1:] - offsets[:-1] != 1) + 1
    view = memoryview(data)
    blocks = []
    for number, group in enumerate(groups):
        start, end = int(firsts[number]), int(ends[number])
        inside = breaks[np.searchsorted(breaks, start, side="right") : np.searchsorted(breaks, end)].tolist()
        last = group.end - 1
        blocks.append(
            Block(
                data=view[int(places[start]) : int(places[end])],
                batches=group.end - group.first,
                count=end - start,
                base=int(bases[number]),
                newest=int(small.newest[group.first : group.end].max()),
                source_bytes=int(small.ends[last] - small.starts[group.first]),
                runs=[(int(offsets[at]), at - start + group.index) for at in (start, *inside)],
                next_offset=int(small.offsets[last] + counts[last]),
            )
        )
    return blocks


def _write(source: Bytes, timestamps: Longs, numbers: Longs, bodies: Longs, lengths: Longs) -> tuple[Any, Longs]:
    """Records from their deltas, after zigzag, and bodies; returns the bytes and where each begins, and the end."""
    stamps, stamp_sizes = _varints(timestamps)
    deltas, delta_sizes = _varints(numbers)
    inside = 1 + stamp_sizes + delta_sizes + lengths
    heads, head_sizes = _varints(inside << 1)
    places = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(inside + head_sizes, out=places[1:])
    data = np.empty(int(places[-1]) + _SLACK, dtype=np.uint8)
    # Each piece is written with some bytes too many, which the next one overwrites.
    at = places[:-1]
    windows(data, 8)[at] = (heads | stamps << 8 * (head_sizes + 1)).view("V8")
    at = at + head_sizes + 1 + stamp_sizes
    windows(data, 4)[at] = deltas.astype("<i4").view("V4")
    _copy(source, bodies, data, at + delta_sizes, lengths)
    return data, places


def _varints(raw: Longs) -> tuple[Longs, Longs]:
    """Each number as the bytes of its varint in one word, the first one lowest, and how many they are."""
    words, sizes = raw & 0x7F, np.ones(len(raw), dtype=np.int64)
    most = int(raw.max(initial=0))
    shift = 7
    while most >> shift:
        more = (raw >> shift != 0).astype(np.int64)
        words |= more << 8 * (shift // 7) - 1
        words |= (raw >> shift & 0x7F) << 8 * (shift // 7)
        sizes += more
        shift += 7
    return words, sizes


def _copy(source: Bytes, sources: Longs, target: Bytes, targets: Longs, lengths: Longs) -> None:
    """Copy pieces of 2 to 8,191 bytes: each by two of a power of two, which may overlap, one from either end."""
    least, most = int(lengths.min()), int(lengths.max())
    size = 1 << least.bit_length() - 1
    while size <= most:
        from_, to, length = sources, targets, lengths
        if least < size or most >= 2 * size:
            chosen = np.flatnonzero((lengths >= size) & (lengths < 2 * size))
            from_, to, length = sources[chosen], targets[chosen], lengths[chosen]
        pieces, places = windows(source, size), windows(target, size)
        places[to] = pieces[from_]
        rest = length - size
        places[to + rest] = pieces[from_ + rest]
        size *= 2
