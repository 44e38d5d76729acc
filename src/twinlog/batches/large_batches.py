"""Reads uncompressed batches of a backlog, so that neighbours become a larger batch.

A broker takes a single batch per partition and request, and each batch costs the broker, its replicas and this copier
some 40 us. Joined records of 1 KB cost 0.45 us each: the loop here reads only their lengths, and numpy does the rest.
`prepare` imports this module at the first backlog, because numpy takes 18 MB of a task's memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twinlog.batches.small_batches import Block, DenseBatches, Longs, join_batches
from twinlog.kafka.record.batch import (
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Batch,
    checksum_of,
    read_batch,
)
from twinlog.kafka.record.builder import BatchBuilder

SECTION = 4 << 20
"""Bytes of a fetch that are read together."""

GROWTH = 7
"""Bytes by which a record may grow in a larger batch: two of its offset delta, four of its timestamp delta, and a
byte of its length."""

LARGE_RECORD = 400
"""Bytes of a record from which on a copy of its bytes costs more than it saves."""

_WORD = 8


def join_large(
    records: memoryview,
    first: Batch,
    builder: BatchBuilder | None,
    *,
    limit: int,
    room: int,
    most: int,
    transactional: bool,
) -> list[Block]:
    """The records of neighbouring uncompressed batches from `first` on, in blocks of at most `limit` bytes each.

    The batches have at most `most` records and half of `limit` bytes each. The first block is for `builder`. The result
    is empty if fewer than two batches can be joined, or if a block may exceed `room` bytes. Transactional batches are
    taken only if `transactional`. Any unusual batch ends the row: with holes, LogAppendTime, another leader epoch, a
    wrong checksum, or records in an unusual encoding.
    """
    batches = _neighbours(records, first, largest=limit // 2, most=most, transactional=transactional)
    if len(batches) < 2:
        return []
    found = _read_records(records, first.start, batches)
    if found is None or len(found) < 2:
        return []
    mean = (int(found.ends[-1]) - int(found.starts[0])) / len(found.bodies)
    within = int(min(limit, room) * mean / (mean + GROWTH))
    return join_batches(found, builder, limit=within, room=room, neighbours=True)


def _neighbours(records: memoryview, first: Batch, *, largest: int, most: int, transactional: bool) -> list[Batch]:
    """The usual batches from `first` on, each directly after its predecessor, with right checksums."""
    unusual = LOG_APPEND_TIME | CONTROL | (0 if transactional else TRANSACTIONAL)
    batches: list[Batch] = []
    batch: Batch | None = first
    past = first.base_offset
    while batch is not None and batch.end - first.start <= SECTION:
        if (
            batch.magic != 2
            or batch.codec
            or batch.attributes & unusual
            or batch.leader_epoch != first.leader_epoch
            or batch.record_count != batch.last_offset_delta + 1
            or not 0 < batch.record_count <= most
            or batch.size > largest
            or batch.base_offset < past
            or checksum_of(records[batch.start + CRC_START : batch.end]) != batch.crc
        ):
            break
        batches.append(batch)
        past = batch.last_offset + 1
        batch = read_batch(records, batch.end)
    return batches


def _read_records(records: memoryview, start: int, batches: list[Batch]) -> DenseBatches | None:
    """The records of the batches before the first unusual batch; None without a usual batch."""
    end = batches[-1].end
    large = end - start > LARGE_RECORD * sum(batch.record_count for batch in batches)
    # A byte of a memoryview takes longer to read than a byte of a copy.
    window: bytes | memoryview = records[start:end] if large else bytes(records[start:end])
    places: list[int] = []
    usual = len(batches)
    for number, batch in enumerate(batches):
        if not _find_places(window, batch.start - start + HEADER_SIZE, batch.end - start, batch.record_count, places):
            usual = number
            break
    if not usual:
        return None
    del batches[usual:]
    if end - start - places[-1] < 2 * _WORD:
        # The words of the last record would reach beyond the batches.
        window = bytes(window) + bytes(_WORD)
    array = np.frombuffer(window, dtype=np.uint8)
    counts = np.array([batch.record_count for batch in batches])
    ends = np.array([batch.end - start for batch in batches])
    oldest = np.array([batch.base_timestamp for batch in batches])
    newest = np.array([batch.max_timestamp for batch in batches])
    behind = np.cumsum(counts)
    at = np.array(places[: int(behind[-1])])
    past = np.append(at[1:], ends[-1])
    past[behind - 1] = ends
    deltas, bodies, fine = _read_heads(array, at, past, np.arange(len(at)) - np.repeat(behind - counts, counts))
    latest = np.maximum.reduceat(deltas, behind - counts)
    whole = np.logical_and.reduceat(fine, behind - counts) & (latest == newest - oldest)
    taken = len(batches) if whole.all() else int(np.argmin(whole))
    if not taken:
        return None
    total = int(behind[taken - 1])
    return DenseBatches(
        array,
        np.array([batch.start - start for batch in batches[:taken]]),
        ends[:taken],
        np.array([batch.base_offset for batch in batches[:taken]]),
        counts[:taken],
        newest[:taken],
        (deltas + np.repeat(oldest, counts))[:total],
        bodies[:total],
        (past - bodies)[:total],
    )


def _find_places(window: bytes | memoryview, at: int, end: int, count: int, places: list[int]) -> bool:
    """Add the places of a batch's records; False unless the records end with the batch."""
    add = places.append
    try:
        for _ in range(count):
            add(at)
            size = window[at]
            if size < 128:
                at += 1 + (size >> 1)
            elif (second := window[at + 1]) < 128:
                at += 2 + ((size & 127 | second << 7) >> 1)
            else:
                third = window[at + 2]
                if third > 127:
                    return False
                at += 3 + ((size & 127 | (second & 127) << 7 | third << 14) >> 1)
    except IndexError:
        return False
    return at == end


def _read_heads(array: Any, at: Longs, past: Longs, numbers: Longs) -> tuple[Longs, Longs, Any]:
    """Timestamp delta and begin of the body of each record, and whether the record is usual."""
    words = np.ndarray((len(array) - _WORD + 1,), dtype="<i8", buffer=array, strides=(1,))
    word = words[at]
    fine = word & 1 == 0
    at = at + 1 + (word >> 7 & 1) + (word >> 15 & word >> 7 & 1)
    # Without attributes the first byte is 0, and the timestamp delta follows.
    word = words[np.minimum(at, len(words) - 1)]
    fine &= word & 0xFF == 0
    deltas, sizes, short = _read_varints(word >> 8)
    fine &= short
    at = at + 1 + sizes
    read, sizes, short = _read_varints(words[np.minimum(at, len(words) - 1)])
    bodies = at + sizes
    # Key length, value length and header count have a byte each at least.
    fine &= short & (read == numbers) & (bodies + 3 <= past)
    return deltas, bodies, fine


def _read_varints(word: Longs) -> tuple[Longs, Longs, Any]:
    """The number at the begin of each word (zigzag), its bytes, and whether it has four bytes at most."""
    second = word >> 7 & 1
    third = word >> 15 & second
    fourth = word >> 23 & third
    raw = word & 0x7F | (word >> 1 & 0x3F80) * second | (word >> 2 & 0x1F_C000) * third
    raw |= (word >> 3 & 0xFE0_0000) * fourth
    return raw >> 1 ^ -(raw & 1), 1 + second + third + fourth, (word >> 31 & fourth) == 0
