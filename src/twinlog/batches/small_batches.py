"""Reads and merges thousands of small batches of a fetch at once: numpy takes the place of a loop over batches.

`array_merging` imports this module for a fetch with a thousand small batches, because numpy takes 18 MB of a task's
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt
from google_crc32c import value

from twinlog.kafka.record.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CODEC_MASK,
    CONTROL,
    CRC,
    CRC_START,
    HEADER_SIZE,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAX_TIMESTAMP,
    RECORD_COUNT,
    TRANSACTIONAL,
    Batch,
)
from twinlog.kafka.record.builder import MAX_RECORDS, BatchBuilder

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

LONGEST = 8_000
"""Bytes of the largest batch taken: the length of each record, old and new, has two bytes at most."""

MOST = 64
"""Records of the fullest batch taken: the number of each record is an offset delta of a single byte."""

_RARE = 8
"""If more than 1 in so many bytes looks like a magic, there is too much to examine."""

LONG = 1_024
"""Bytes of a piece that is copied by itself."""

_WORD = 8
_SMALLEST = HEADER_SIZE + 7
_FIELDS = {
    "offset": (">i8", BASE_OFFSET),
    "length": (">i4", LENGTH),
    "epoch": (">i4", LEADER_EPOCH),
    "crc": (">u4", CRC),
    "attributes": (">i2", ATTRIBUTES),
    "delta": (">i4", LAST_OFFSET_DELTA),
    "oldest": (">i8", BASE_TIMESTAMP),
    "newest": (">i8", MAX_TIMESTAMP),
    "count": (">i4", RECORD_COUNT),
}
_HEADER = np.dtype(
    {
        "names": list(_FIELDS),
        "formats": [form for form, _ in _FIELDS.values()],
        "offsets": [place.start for _, place in _FIELDS.values()],
        "itemsize": HEADER_SIZE,
    }
)
_PATCH = CRC_START + 4
_LITTLE, _UNSET = np.dtype("<u4"), np.uint32(0xFFFF_FFFF)
_ALL_RIGHT = 0xFFFF_FFFF


def windows(array: Bytes, size: int) -> Any:
    """`size` bytes from each place of an array on, as a view.

    To take or set the bytes at many places costs a copy for each place.
    """
    return np.ndarray((max(0, len(array) - size + 1),), dtype=f"V{size}", buffer=array, strides=(1,))


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


def find_small(
    records: memoryview, first: Batch, *, largest: int, most: int, least: int, transactional: bool
) -> DenseBatches | None:
    """The small batches from `first` on; None if they are fewer than `least`.

    The batches have less than `largest` bytes and at most `most` records each, and the leader epoch of `first`.
    Transactional batches are taken only if `transactional`. Any other unusual batch ends the row.
    """
    array = np.frombuffer(records, dtype=np.uint8)[first.start :]
    found = _chain(array, first, largest=min(largest, LONGEST), most=min(most, MOST), transactional=transactional)
    if found is None or len(found[0]) < least or not _right_checksums(array, *found):
        return None
    at, heads = found
    counts = heads["count"].astype(np.int64)
    ends = at + heads["length"] + LOG_OVERHEAD
    oldest, newest = heads["oldest"].astype(np.int64), heads["newest"].astype(np.int64)
    deltas, bodies, lengths, usual = _records(array, at + HEADER_SIZE, ends, counts, newest - oldest)
    if usual < least:
        return None
    taken = slice(0, usual)
    total = len(deltas) if usual == len(at) else int(counts[taken].sum())
    batches = (at[taken], ends[taken], heads["offset"].astype(np.int64)[taken], counts[taken], newest[taken])
    timestamps = deltas + (oldest if len(deltas) == len(at) else np.repeat(oldest, counts))
    return DenseBatches(array, *batches, timestamps[:total], bodies[:total], lengths[:total])


def _chain(array: Bytes, first: Batch, *, largest: int, most: int, transactional: bool) -> tuple[Longs, Any] | None:
    """Places and headers of the batches that follow each other directly.

    A header may be at each place with the magic and the leader epoch of `first`. The chain is proved if each batch ends
    at the begin of the next batch.
    """
    # A word after each place is read together with the place.
    limit = len(array) - HEADER_SIZE - _WORD
    if limit <= 0:
        return None
    at = np.flatnonzero(array[MAGIC.start : MAGIC.start + limit] == first.magic)
    if len(at) > limit // _RARE:
        return None
    at = at[array[at + (MAGIC.start - 1)] == first.leader_epoch & 0xFF]
    heads = windows(array, HEADER_SIZE)[at].view(_HEADER)
    offset, size = heads["offset"].astype(np.int64), heads["length"].astype(np.int64) + LOG_OVERHEAD
    count = heads["count"].astype(np.int64)
    alike = CODEC_MASK | LOG_APPEND_TIME | CONTROL | (0 if transactional else TRANSACTIONAL)
    usual = heads["attributes"] & alike == 0
    usual &= heads["epoch"] == first.leader_epoch
    usual &= heads["delta"] == count - 1
    usual &= (count > 0) & (count <= most)
    usual &= (size >= _SMALLEST) & (size < largest)
    ends = at + size
    usual &= ends <= len(array) - _WORD
    if not usual.all():
        at, heads, offset, ends, count = at[usual], heads[usual], offset[usual], ends[usual], count[usual]
    if not len(at) or at[0]:
        return None
    follows = (ends[:-1] == at[1:]) & (offset[:-1] + count[:-1] <= offset[1:])
    length = len(at) if follows.all() else int(np.argmin(follows)) + 1
    return at[:length], heads[:length]


def _right_checksums(array: Bytes, at: Longs, heads: Any) -> bool:
    """Whether all checksums are right, by a single checksum over all batches.

    The register of a CRC is 0 after a message and its own checksum. So the batches are copied, each followed by its
    checksum in the place of the bytes that the checksum excludes, which are set to zeros. A register that is 0 before a
    batch is then 0 after it. The trace of a single damaged batch stays in the register. The traces of several damaged
    batches cancel out once in four thousand million times.
    """
    end = int(at[-1]) + int(heads["length"][-1]) + LOG_OVERHEAD
    copy = array[: end + 4].copy()
    patches = np.zeros((len(at) + 1, _PATCH), dtype=np.uint8)
    # CRC32C begins with 1 bits, which change its first four bytes, and its result is inverted.
    whole = windows(array, HEADER_SIZE)[at].view(np.uint8).reshape(-1, HEADER_SIZE)
    patches[:-1, CRC_START:] = whole[:, CRC_START:_PATCH] ^ np.uint8(255)
    patches[1:, :4] = (heads["crc"] ^ _UNSET).astype(_LITTLE).view(np.uint8).reshape(-1, 4)
    patches[0, :4] = 255
    windows(copy, _PATCH)[at] = patches[:-1].reshape(-1).view(f"V{_PATCH}")
    copy[end : end + 4] = patches[-1, :4]
    return bool(value(copy.tobytes()) == _ALL_RIGHT)


def _records(array: Bytes, places: Longs, ends: Longs, counts: Longs, spans: Longs) -> tuple[Longs, Longs, Longs, int]:
    """Timestamp delta, place and length of the body of each record, and the number of usual batches.

    The number counts the batches before the first unusual batch. Step number n takes the n-th record of every batch
    that has so many records.
    """
    most = int(counts.max())
    words = np.ndarray((len(array) - _WORD + 1,), dtype="<i8", buffer=array, strides=(1,))
    if most == 1:
        deltas, bodies, past, usual = _step(words, places, 0)
        usual &= (past == ends) & (deltas == spans)
        return deltas, bodies, past - bodies, _before_first_unusual(usual)
    first = np.cumsum(counts) - counts
    total = int(counts.sum())
    all_deltas, all_bodies, all_lengths = (np.zeros(total, dtype=np.int64) for _ in range(3))
    fine = np.ones(len(counts), dtype=bool)
    newest = np.full(len(counts), np.iinfo(np.int64).min)
    at, active = places.copy(), np.arange(len(counts))
    for number in range(most):
        if number:
            active = active[(counts[active] > number) & fine[active]]
            if not len(active):
                break
        deltas, bodies, past, usual = _step(words, at[active], number)
        usual &= past <= ends[active]
        indexes = first[active] + number
        all_deltas[indexes], all_bodies[indexes], all_lengths[indexes] = deltas, bodies, past - bodies
        newest[active] = np.maximum(newest[active], deltas)
        fine[active] = usual
        at[active] = np.where(usual, past, 0)
    fine &= (at == ends) & (newest == spans)
    return all_deltas, all_bodies, all_lengths, _before_first_unusual(fine)


def _step(words: Any, at: Longs, number: int) -> tuple[Longs, Longs, Longs, Any]:
    """Of a record at each place: timestamp delta, begin and end of its body, and whether the record is usual.

    Length, attributes and the two deltas are read from a single word. The length has up to two bytes, the timestamp
    delta up to three. The offset delta is the record's number.
    """
    word = words[at]
    longer = word >> 7 & 1
    size = word & 0x7F | (word >> 1 & 0x3F80) * longer
    usual = (size & 1 == 0) & (word & 0x8080 != 0x8080)
    at = at + 1 + longer
    past = at + (size >> 1)
    rest = word >> 8 + 8 * longer
    if not (rest & 0xFFFFFF).any():
        deltas = np.zeros(len(at), dtype=np.int64)
        body = at + 3
        if number:
            usual[:] = False
    else:
        rest = rest >> 8
        second = rest >> 7 & 1
        third = rest >> 15 & second
        raw = rest & 0x7F | (rest >> 1 & 0x3F80) * second | (rest >> 2 & 0x1F_C000) * third
        usual &= (rest >> 23 & third) == 0
        deltas = raw >> 1 ^ -(raw & 1)
        usual &= (rest >> 8 * (1 + second + third) & 0xFF) == 2 * number
        body = at + 3 + second + third
    usual &= past >= body + 3
    return deltas, body, past, usual


def _before_first_unusual(usual: Any) -> int:
    return len(usual) if usual.all() else int(np.argmin(usual))


_FARTHEST = 1 << 34
"""A timestamp delta below this, after zigzag, is written with five bytes at most."""

_FARTHEST_OF_LONG = 1 << 28
"""The same with four bytes, beside a length of three bytes."""

_LONGEST_BODY = (1 << 20) - 16
"""A longer record may have a length of four bytes in its new batch."""

_SLACK = 8


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


def merge_small(
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

    Each block has as many batches as fit into `limit` bytes of the source. The result is empty if the batches are fewer
    than `least` (see `find_small`), their timestamps are too far apart, or a block may be larger than `room`.
    """
    small = find_small(records, first, largest=largest, most=most, least=least, transactional=transactional)
    if small is None:
        return []
    # While there is room for a further batch, the loops take this batch as well.
    one_more = int((small.ends - small.starts).max())
    return join_batches(small, builder, limit=limit, room=room - one_more)


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
    farthest = _FARTHEST if int(small.lengths.max()) < LONGEST else _FARTHEST_OF_LONG
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
    if most >= LONG:
        chosen = np.flatnonzero(lengths >= LONG)
        from_, to = memoryview(source.data), memoryview(target.data)
        pieces = zip(*(one[chosen].tolist() for one in (sources, targets, lengths)), strict=True)
        for begin, place, length in pieces:
            to[place : place + length] = from_[begin : begin + length]
        if least >= LONG:
            return
        most = LONG - 1
    size = 1 << least.bit_length() - 1
    while size <= most:
        begins, ends, length = sources, targets, lengths
        if least < size or most >= 2 * size or longest >= LONG:
            chosen = np.flatnonzero((lengths >= size) & (lengths < 2 * size))
            begins, ends, length = sources[chosen], targets[chosen], lengths[chosen]
        heads, places = windows(source, size), windows(target, size)
        places[ends] = heads[begins]
        rest = length - size
        places[ends + rest] = heads[begins + rest]
        size *= 2
