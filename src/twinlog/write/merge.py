"""Takes records out of fetched batches into a batch in the making: the loops that run once per record.

They are written for speed: names bound to locals, numbers of one and two bytes decoded in place, one piece per record.
Each loop knows one shape of input and leaves the rest to the next, more careful one.
"""

from __future__ import annotations

from itertools import islice
from struct import Struct

from google_crc32c import value

from twinlog.read.batches import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    Batch,
    read_batch,
)
from twinlog.read.records import corrupt
from twinlog.read.varint import encode_varint, read_unsigned
from twinlog.write.encode import MAX_RECORDS, STAMPS, VARINTS, BatchBuilder, reserve_varints, stamp_of

_SINGLE = Struct(">qi4xbIhiqq14xiBI")
"""What matters of a v2 header, and the first five bytes of its records."""
_SMALLEST_SINGLE = 68
_WINDOW = 65_536
_UNUSUAL = CODEC_MASK | LOG_APPEND_TIME | CONTROL | DELETE_HORIZON


def take_single_batches(
    builder: BatchBuilder, records: memoryview, at: int, *, source_bytes: int, largest: int, transactional: bool
) -> Batch | None:
    """Take uncompressed batches of one record each, from `at` on, as long as they come; return the last one taken.

    It reads at most `source_bytes`, takes no batch above `largest` bytes, and none of a transaction unless
    `transactional`. Whatever is unusual stops it too, a wrong checksum among them. The builder is not empty.
    """
    window = bytes(records[at : at + min(_WINDOW, source_bytes)])
    parts = builder.parts
    before = index = len(parts)
    reserve_varints(index + _WINDOW // _SMALLEST_SINGLE)
    append = parts.append
    unpack = _SINGLE.unpack_from
    checksum = value
    varints, stamps = VARINTS, STAMPS
    known_stamps = len(stamps)
    lag = builder.lag
    base_timestamp, max_timestamp = builder.base_timestamp, builder.max_timestamp
    unusual = _UNUSUAL if transactional else _UNUSUAL | TRANSACTIONAL
    longest = min(largest, 8_000) - LOG_OVERHEAD
    size = len(window)
    last = size - _SMALLEST_SINGLE
    start = taken = 0
    while start <= last:
        offset, length, magic, crc, attributes, delta, timestamp, newest, count, first, head = unpack(window, start)
        if count != 1 or delta or attributes & unusual or magic != 2 or length > longest:
            break
        # The record's length takes one or two bytes; then come its attributes and both deltas, which must be 0.
        if length <= 113:
            if head >> 8 or first != (length - 50) << 1:
                break
            body = start + 65
        else:
            if head & 0x80FF_FFFF or first < 128:
                break
            body = start + 66
        end = start + length + LOG_OVERHEAD
        if end > size or checksum(window[start + CRC_START : end]) != crc:
            break
        if offset - index != lag:
            lag = offset - index
            builder.runs.append((offset, index))
        if newest > max_timestamp:  # noqa: PLR1730 - a call to max takes three times as long
            max_timestamp = newest
        elapsed = timestamp - base_timestamp
        stamp = stamps[elapsed] if 0 <= elapsed < known_stamps else stamp_of(elapsed)
        number = varints[index]
        append(b"%b%b%b%b" % (varints[len(stamp) + len(number) + end - body], stamp, number, window[body:end]))
        index += 1
        taken = start
        start = end
    if not start:
        return None
    builder.lag = lag
    builder.max_timestamp = max_timestamp
    builder.size += sum(map(len, islice(parts, before, None)))
    builder.source_bytes += start
    builder.next_offset = lag + index
    return read_batch(records, at + taken)


def take_batch(builder: BatchBuilder, block: bytes, batch: Batch) -> None:
    """Take all records of a dense v2 batch; `block` is its records, decompressed. Raises `CorruptBatchError`."""
    parts = builder.parts
    before = index = len(parts)
    count = batch.record_count
    reserve_varints(index + count)
    append = parts.append
    varints, stamps = VARINTS, STAMPS
    known_stamps = len(stamps)
    at = 0
    try:
        if not index:
            _, second = read_unsigned(block, 0)
            rest, _ = read_unsigned(block, second + 1)
            builder.base_timestamp = batch.base_timestamp + (rest >> 1 ^ -(rest & 1))
        builder.begin_run(batch.base_offset, index)
        later = batch.base_timestamp - builder.base_timestamp
        for number in varints[index : index + count]:
            size = block[at]
            if size < 128:
                at += 1
            elif (byte := block[at + 1]) < 128:
                size = size & 127 | byte << 7
                at += 2
            else:
                size, at = read_unsigned(block, at)
            end = at + (size >> 1)
            rest = block[at + 1]
            if rest < 128:
                at += 2
            elif (byte := block[at + 2]) < 128:
                rest = rest & 127 | byte << 7
                at += 3
            else:
                rest, at = read_unsigned(block, at + 1)
            elapsed = later + (rest >> 1 ^ -(rest & 1))
            # The offset delta is known: in a dense batch it is the record's number.
            while block[at] >= 128:
                at += 1
            at += 1
            stamp = stamps[elapsed] if 0 <= elapsed < known_stamps else stamp_of(elapsed)
            length = len(stamp) + len(number) + end - at
            if at > end:
                raise corrupt(batch, "a record is shorter than its own fields")
            try:
                size_of = varints[length]
            except IndexError:
                size_of = encode_varint(length)
            append(b"%b%b%b%b" % (size_of, stamp, number, block[at:end]))
            at = end
    except IndexError:
        raise corrupt(batch, "its records end too early") from None
    if at != len(block):
        raise corrupt(batch, f"its records take {at} bytes, not {len(block)}")
    builder.max_timestamp = max(builder.max_timestamp, batch.max_timestamp) if before else batch.max_timestamp
    builder.size += sum(map(len, islice(parts, before, None)))
    builder.next_offset = batch.last_offset + 1


def take_records(
    builder: BatchBuilder, block: bytes, batch: Batch, at: int, taken: int, *, position: int, room: int
) -> tuple[int, int]:
    """Take the records of any v2 batch from source offset `position` on, until `room` bytes are filled.

    `at` and `taken` are where to begin in `block` and how many records come before that; both are returned for the
    next call, so the batch is done once `taken` is its record count. A builder always takes its first record, even
    above `room`. A LogAppendTime batch gives its time to each record. Raises `CorruptBatchError`.
    """
    parts = builder.parts
    index = len(parts)
    count = batch.record_count
    reserve_varints(min(index + count, MAX_RECORDS))
    append = parts.append
    varints, stamps = VARINTS, STAMPS
    known_stamps = len(stamps)
    lag = builder.lag
    total = builder.size
    base_timestamp, max_timestamp = builder.base_timestamp, builder.max_timestamp
    append_time = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None
    batch_timestamp, base_offset = batch.base_timestamp, batch.base_offset
    try:
        while taken < count:
            start = at
            size = block[at]
            if size < 128:
                at += 1
            elif (byte := block[at + 1]) < 128:
                size = size & 127 | byte << 7
                at += 2
            else:
                size, at = read_unsigned(block, at)
            end = at + (size >> 1)
            rest = block[at + 1]
            if rest < 128:
                at += 2
            elif (byte := block[at + 2]) < 128:
                rest = rest & 127 | byte << 7
                at += 3
            else:
                rest, at = read_unsigned(block, at + 1)
            delta = block[at]
            if delta < 128:
                at += 1
            elif (byte := block[at + 1]) < 128:
                delta = delta & 127 | byte << 7
                at += 2
            else:
                delta, at = read_unsigned(block, at)
            if at > end:
                raise corrupt(batch, "a record is shorter than its own fields")
            offset = base_offset + (delta >> 1)
            if offset < position:
                taken += 1
                at = end
                continue
            timestamp = batch_timestamp + (rest >> 1 ^ -(rest & 1)) if append_time is None else append_time
            if not index:
                base_timestamp = max_timestamp = timestamp
            elif timestamp > max_timestamp:
                max_timestamp = timestamp
            elapsed = timestamp - base_timestamp
            stamp = stamps[elapsed] if 0 <= elapsed < known_stamps else stamp_of(elapsed)
            if index == MAX_RECORDS:
                at = start
                break
            number = varints[index]
            length = len(stamp) + len(number) + end - at
            try:
                size_of = varints[length]
            except IndexError:
                size_of = encode_varint(length)
            total += len(size_of) + length
            if total > room and index:
                total -= len(size_of) + length
                at = start
                break
            if offset - index != lag:
                lag = offset - index
                builder.runs.append((offset, index))
            append(b"%b%b%b%b" % (size_of, stamp, number, block[at:end]))
            index += 1
            taken += 1
            at = end
    except IndexError:
        raise corrupt(batch, "its records end too early") from None
    builder.lag = lag
    builder.size = total
    builder.base_timestamp, builder.max_timestamp = base_timestamp, max_timestamp
    if taken == count:
        if at != len(block):
            raise corrupt(batch, f"its records take {at} bytes, not {len(block)}")
        builder.next_offset = batch.last_offset + 1
    return at, taken
