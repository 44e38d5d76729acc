"""Reads uncompressed batches of a backlog, so that neighbours become a larger batch.

A broker takes a single batch per partition and request, and each batch costs the broker, its replicas and this copier
some 60 us. Joined records of 1 KB cost 0.45 us each: the loop here reads only their lengths, and numpy does the rest.
`array_merging` imports this module at the first backlog, because numpy takes 18 MB of a task's memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlog.batches.join import Block, DenseBatches, join_batches
from twinlog.batches.vectors import Bytes, Longs, record_sizes, windows
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

STEP_RECORDS = 25
"""A step that finds a record in each of many batches takes as long as a loop over this number of records."""

MOST_GAPS = 4
"""The steps have room for at most this number of places for each record of their batches."""

_WORD = 8


@dataclass(frozen=True, slots=True)
class JoinedNeighbours:
    """The records of neighbours in `blocks`. If `follows`, the first block follows the records of the given builder;
    otherwise it begins a batch."""

    blocks: list[Block]
    follows: bool = False


def join_large(
    records: memoryview,
    first: Batch,
    builder: BatchBuilder | None,
    *,
    limit: int,
    room: int,
    most: int,
    transactional: bool,
) -> JoinedNeighbours:
    """The records of neighbouring uncompressed batches from `first` on, in blocks of at most `limit` bytes each.

    The batches have at most `most` records and half of `limit` bytes each. The first block follows the records of
    `builder` if it has room for a batch. There are no blocks if fewer than two batches can be joined, or if a block may
    exceed `room` bytes. Transactional batches are taken only if `transactional`. Any unusual batch ends the row: with
    holes, LogAppendTime, another leader epoch, a wrong checksum, or records in an unusual encoding.
    """
    batches = _neighbours(records, first, largest=limit // 2, most=most, transactional=transactional)
    if len(batches) < 2:
        return JoinedNeighbours([])
    found = _read_records(records, first.start, batches)
    if found is None or len(found) < 2:
        return JoinedNeighbours([])
    mean = (int(found.ends[-1]) - int(found.starts[0])) / len(found.bodies)
    within = int(min(limit, room) * mean / (mean + GROWTH))
    if builder is not None:
        blocks = join_batches(found, builder, limit=within, room=room, neighbours=True)
        if blocks:
            return JoinedNeighbours(blocks, follows=True)
    return JoinedNeighbours(join_batches(found, None, limit=within, room=room, neighbours=True))


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
    window: bytes | memoryview = records[start:end]
    counts = np.array([batch.record_count for batch in batches])
    begins = np.array([batch.start - start for batch in batches])
    ends = np.array([batch.end - start for batch in batches])
    at, usual = _find_places(window, begins + HEADER_SIZE, ends, counts)
    if not usual:
        return None
    del batches[usual:]
    counts, begins, ends = counts[:usual], begins[:usual], ends[:usual]
    if end - start - int(at[-1]) < 2 * _WORD:
        # The words of the last record would reach beyond the batches.
        window = bytes(window) + bytes(_WORD)
    array = np.frombuffer(window, dtype=np.uint8)
    oldest = np.array([batch.base_timestamp for batch in batches])
    newest = np.array([batch.max_timestamp for batch in batches])
    behind = np.cumsum(counts)
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
        begins[:taken],
        ends[:taken],
        np.array([batch.base_offset for batch in batches[:taken]]),
        counts[:taken],
        newest[:taken],
        (deltas + np.repeat(oldest, counts))[:total],
        bodies[:total],
        (past - bodies)[:total],
    )


def _find_places(window: bytes | memoryview, begins: Longs, ends: Longs, counts: Longs) -> tuple[Longs, int]:
    """The places of the records of each batch before the first unusual batch, and the number of these batches."""
    most, total = int(counts.max()), int(counts.sum())
    if most * STEP_RECORDS < total and most * len(counts) <= MOST_GAPS * total:
        found = _find_at_once(window, begins, ends, counts)
        if found is not None:
            return found
    if ends[-1] <= LARGE_RECORD * total:
        # A byte of a memoryview takes longer to read than a byte of a copy.
        window = bytes(window)
    places: list[int] = []
    for number, (begin, end, count) in enumerate(zip(begins.tolist(), ends.tolist(), counts.tolist(), strict=True)):
        if not _find_in_turn(window, begin, end, count, places):
            return np.array(places[: int(counts[:number].sum())], dtype=np.int64), number
    return np.array(places), len(counts)


def _find_at_once(window: bytes | memoryview, begins: Longs, ends: Longs, counts: Longs) -> tuple[Longs, int] | None:
    """The same, by a step for each record number, which finds the next record of each batch at once.

    None if a step meets bytes that are no length of a record.
    """
    array = np.frombuffer(window, dtype=np.uint8)
    words = windows(array, 2, "<u")
    sizes = record_sizes()
    # Batches with many records come first, so that a step takes the batches that have another record.
    order = np.argsort(-counts, kind="stable")
    having = np.searchsorted(-counts[order], -np.arange(int(counts.max()))).tolist()
    reached = begins[order]
    places = np.zeros((len(having), len(counts)), dtype=np.int64)
    try:
        for number, many in enumerate(having):
            at = reached[:many]
            places[number, :many] = at
            steps = sizes[words[at]]
            if not steps.all():
                three = np.flatnonzero(steps == 0)
                word, third = words[at[three]].astype(np.int64), array[at[three] + 2].astype(np.int64)
                if (third > 127).any() or (word & 1).any():
                    return None
                steps[three] = 3 + ((word & 0x7F | word >> 1 & 0x3F80 | third << 14) >> 1)
            at += steps
    except IndexError:
        return None
    whole = np.empty(len(counts), dtype=bool)
    whole[order] = reached == ends[order]
    usual = len(counts) if whole.all() else int(np.argmin(whole))
    found = places.T[np.argsort(order)[:usual]]
    return found[np.arange(len(having)) < counts[:usual, None]], usual


def _find_in_turn(window: bytes | memoryview, at: int, end: int, count: int, places: list[int]) -> bool:
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


def _read_heads(array: Bytes, at: Longs, past: Longs, numbers: Longs) -> tuple[Longs, Longs, Any]:
    """Timestamp delta and begin of the body of each record, and whether the record is usual."""
    words = windows(array, _WORD, "<i")
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
