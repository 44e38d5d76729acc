"""Reads thousands of small batches of a fetch at once: numpy takes the place of a loop over batches.

`array_merging` imports this module for a fetch with a thousand small batches, because numpy takes 18 MB of a task's
memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from google_crc32c import value

from twinlog.batches.join import TWO_BYTE_LENGTH, Block, DenseBatches, join_batches
from twinlog.batches.vectors import Bytes, Longs, windows
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
from twinlog.kafka.record.builder import BatchBuilder

MOST = 64
"""Records of the fullest batch taken: the number of each record is an offset delta of a single byte."""

_RARE = 8
"""If more than 1 in so many bytes looks like a magic, there is too much to examine."""

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


def find_small(
    records: memoryview, first: Batch, *, largest: int, most: int, least: int, transactional: bool
) -> DenseBatches | None:
    """The small batches from `first` on; None if they are fewer than `least`.

    The batches have less than `largest` bytes and at most `most` records each, and the leader epoch of `first`.
    Transactional batches are taken only if `transactional`. Any other unusual batch ends the row.
    """
    array = np.frombuffer(records, dtype=np.uint8)[first.start :]
    found = _chain(
        array, first, largest=min(largest, TWO_BYTE_LENGTH), most=min(most, MOST), transactional=transactional
    )
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
    words = windows(array, _WORD, "<i")
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
