"""Joins the records of dense batches: neighbours that were read become blocks, whose records have their final bytes.

A step of numpy writes a field of all records at a time. `small_batches` and `large_batches` read the batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from twinlog.batches.vectors import Bytes, Longs, windows
from twinlog.kafka.record.batch import HEADER_SIZE
from twinlog.kafka.record.builder import MAX_RECORDS, BatchBuilder

TWO_BYTE_LENGTH = 8_000
"""The length of a record of fewer bytes has two bytes at most, in its old batch and in its new batch."""

_LONG = 1_024
"""Bytes of a piece that is copied by itself."""

_FARTHEST = 1 << 34
"""A timestamp delta below this, after zigzag, is written with five bytes at most."""

_FARTHEST_OF_LONG = 1 << 28
"""The same with four bytes, beside a length of three bytes."""

_LONGEST_BODY = (1 << 20) - 16
"""A longer record may have a length of four bytes in its new batch."""

_SLACK = 8


@dataclass(slots=True)
class DenseBatches:
    """Dense batches that follow each other in a fetch, uncompressed, whole and with right checksums.

    Of each batch: its begin and end in `array`, its first offset, its number of records. Of each record: its timestamp
    in ms, and place and length of its body, which is all from the key's length on.
    """

    array: Bytes
    starts: Longs
    ends: Longs
    offsets: Longs
    counts: Longs
    newest: Longs
    timestamps: Longs
    bodies: Longs
    lengths: Longs

    def __len__(self) -> int:
        return len(self.starts)

    def before(self, number: int) -> DenseBatches:
        """The batches before batch `number`."""
        if number == len(self):
            return self
        records = int(self.counts[:number].sum())
        return DenseBatches(
            self.array,
            self.starts[:number],
            self.ends[:number],
            self.offsets[:number],
            self.counts[:number],
            self.newest[:number],
            self.timestamps[:records],
            self.bodies[:records],
            self.lengths[:records],
        )


@dataclass(frozen=True, slots=True)
class _Group:
    """Batches number `first` to `end` that become a single batch.

    The batch has `index` records already, the first record at `base` ms. A batch that begins here has `base` None.
    """

    first: int
    end: int
    index: int = 0
    base: int | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """The records of a group, ready to follow the earlier records of their batch.

    `batch` has them after the free bytes of a header, so that a batch without earlier records needs no copy. The group
    had `batches` batches of `source_bytes`, with `count` records. The first record of the whole batch is from `base`
    ms, the newest record of the group from `newest`. `runs` and `next_offset` are as in a builder.
    """

    batch: bytearray
    batches: int
    count: int
    base: int
    newest: int
    source_bytes: int
    runs: list[tuple[int, int]]
    next_offset: int

    @property
    def size(self) -> int:
        """The bytes of the records."""
        return len(self.batch) - HEADER_SIZE


def join_batches(
    found: DenseBatches, builder: BatchBuilder | None, *, limit: int, room: int, neighbours: bool = False
) -> list[Block]:
    """The records of batches in blocks; each block has as many batches as fit into `limit` bytes of the source.

    The first block is for `builder`. With `neighbours` each block has two batches at least, or follows the records of
    `builder`: the last batches are left out otherwise. The result is empty if the timestamps are too far apart, or if a
    block may be larger than `room`.
    """
    groups = _groups(found, builder, limit)
    if not groups[0].end:
        return []
    if neighbours:
        groups = list(takewhile(lambda group: group.base is not None or group.end - group.first > 1, groups))
        if not groups:
            return []
        found = found.before(groups[-1].end)
    blocks = _blocks(found, groups)
    before = 0 if builder is None else builder.size
    fits = all(block.size <= room - before * (not number) for number, block in enumerate(blocks))
    return blocks if fits else []


def _groups(small: DenseBatches, builder: BatchBuilder | None, limit: int) -> list[_Group]:
    found, first = [], 0
    if builder is not None:
        first = _fit(small, 0, limit - builder.source_bytes, MAX_RECORDS - builder.count)
        found.append(_Group(0, first, builder.count, builder.base_timestamp))
    while first < len(small):
        end = max(first + 1, _fit(small, first, limit, MAX_RECORDS))
        found.append(_Group(first, end))
        first = end
    return found


def _fit(small: DenseBatches, first: int, most_bytes: int, most_records: int) -> int:
    """The number of the first batch that exceeds a limit, from number `first` on."""
    end = int(np.searchsorted(small.ends, int(small.starts[first]) + most_bytes, side="right"))
    records = np.cumsum(small.counts[first:end])
    return first + int(np.searchsorted(records, most_records, side="right"))


def _blocks(small: DenseBatches, groups: Sequence[_Group]) -> list[Block]:
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
    farthest = _FARTHEST if int(small.lengths.max()) < TWO_BYTE_LENGTH else _FARTHEST_OF_LONG
    if int(raw.max()) >= farthest or int(raw.min()) < 0 or int(small.lengths.max()) > _LONGEST_BODY:
        return []
    index = np.arange(len(raw)) - np.repeat(firsts - np.array([group.index for group in groups]), sizes)
    batches = _write(small.array, raw, index << 1, small.bodies, small.lengths, ends)
    offsets = small.offsets
    if len(raw) != len(counts):
        offsets = np.repeat(offsets - behind + counts, counts) + np.arange(len(raw))
    breaks = np.flatnonzero(offsets[1:] - offsets[:-1] != 1) + 1
    blocks = []
    for number, group in enumerate(groups):
        start, end = int(firsts[number]), int(ends[number])
        inside = breaks[np.searchsorted(breaks, start, side="right") : np.searchsorted(breaks, end)].tolist()
        last = group.end - 1
        blocks.append(
            Block(
                batch=batches[number],
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


def _write(
    source: Bytes, timestamps: Longs, numbers: Longs, bodies: Longs, lengths: Longs, ends: Longs
) -> list[bytearray]:
    """Batches without headers, each from the record after its predecessor up to its end in `ends`.

    The records have deltas, after zigzag, and bodies. A record written into its final place needs no second copy.
    """
    stamps, stamp_sizes = _varints(timestamps)
    deltas, delta_sizes = _varints(numbers)
    inside = 1 + stamp_sizes + delta_sizes + lengths
    heads, head_sizes = _varints(inside << 1)
    places = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(inside + head_sizes, out=places[1:])
    begins = (heads | stamps << 8 * (head_sizes + 1)).view("V8")
    numbered = deltas.astype("<i4").view("V4")
    behind_stamps = places[:-1] + head_sizes + 1 + stamp_sizes
    behind_deltas = behind_stamps + delta_sizes
    batches = []
    first = 0
    for end in ends.tolist():
        records = slice(first, end)
        skip = HEADER_SIZE - int(places[first])
        past = skip + int(places[end])
        batch = bytearray(past + _SLACK)
        data = np.frombuffer(batch, dtype=np.uint8)
        # Each piece is written with some bytes too many, which the next piece overwrites.
        windows(data, 8)[places[records] + skip] = begins[records]
        windows(data, 4)[behind_stamps[records] + skip] = numbered[records]
        _copy(source, bodies[records], data, behind_deltas[records] + skip, lengths[records])
        # Without its array the batch can lose the bytes too many.
        del data
        del batch[past:]
        batches.append(batch)
        first = end
    return batches


def _varints(raw: Longs) -> tuple[Longs, Longs]:
    """Each number as the bytes of its varint in a word, the first byte lowest, and the number of these bytes."""
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
    """Copy pieces of two bytes or more: each by two copies of a power of two, from both ends, which may overlap.

    A loop copies each long piece, as its bytes cost more than the loop.
    """
    least, longest = int(lengths.min()), int(lengths.max())
    most = longest
    if most >= _LONG:
        chosen = np.flatnonzero(lengths >= _LONG)
        from_, to = memoryview(source.data), memoryview(target.data)
        pieces = zip(*(one[chosen].tolist() for one in (sources, targets, lengths)), strict=True)
        for begin, place, length in pieces:
            to[place : place + length] = from_[begin : begin + length]
        if least >= _LONG:
            return
        most = _LONG - 1
    size = 1 << least.bit_length() - 1
    while size <= most:
        begins, ends, length = sources, targets, lengths
        if least < size or most >= 2 * size or longest >= _LONG:
            chosen = np.flatnonzero((lengths >= size) & (lengths < 2 * size))
            begins, ends, length = sources[chosen], targets[chosen], lengths[chosen]
        heads, places = windows(source, size), windows(target, size)
        places[ends] = heads[begins]
        rest = length - size
        places[ends + rest] = heads[begins + rest]
        size *= 2
