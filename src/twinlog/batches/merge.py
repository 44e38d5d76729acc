"""Takes records out of fetched batches into a batch in the making: the loops that run once per record.

The loops are written for speed: names are bound to locals, numbers of up to two bytes are decoded in place, a record is
a single piece. Each loop knows a single shape of input and leaves other input to the next, more careful loop.
"""

from __future__ import annotations

from collections.abc import Callable

from google_crc32c import value

from twinlog.kafka.record.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER_AND_FIRST_RECORD,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    Batch,
    read_batch,
)
from twinlog.kafka.record.builder import MAX_RECORDS, STAMPS, VARINTS, BatchBuilder, reserve_varints, stamp_of
from twinlog.kafka.record.compression import decompress
from twinlog.kafka.record.records import corrupt
from twinlog.kafka.record.varint import encode_varint, read_unsigned

_SMALLEST = HEADER_SIZE + 7
_WINDOW = 32_768
_LONGEST = 8_000
"""In a longer batch, the length of a record could take three bytes or be unknown to `VARINTS`."""


def take_row(
    builder: BatchBuilder, records: memoryview, first: Batch, *, room: int, largest: int, most: int, transactional: bool
) -> Batch | None:
    """Take a row of small dense batches, from `first` on, as long as they look alike; return the last taken batch.

    The batches have the codec of `first`, less than `largest` bytes and at most `most` records each, and together at
    most `room` bytes, before as after decompression. Transactional batches are taken only if `transactional`. Any other
    unusual batch ends the row, too, as does a wrong checksum. The builder must have a record.
    """
    window = bytes(records[first.start : first.start + min(max(_WINDOW, first.size), room)])
    parts = builder.parts
    before, index = len(parts), builder.count
    append = parts.append
    unpack, checksum = HEADER_AND_FIRST_RECORD.unpack_from, value
    size = len(window)
    last = size - _SMALLEST
    reserve_varints(min(index + (size // _SMALLEST + 1) * most, MAX_RECORDS))
    varints, stamps = VARINTS, STAMPS
    known, known_stamps = len(varints), len(stamps)
    lag = builder.lag
    base_timestamp, max_timestamp = builder.base_timestamp, builder.max_timestamp
    codec = first.codec
    alike = CODEC_MASK | LOG_APPEND_TIME | CONTROL | (0 if transactional else TRANSACTIONAL)
    longest = min(largest - 1, _LONGEST) - LOG_OVERHEAD
    start = taken = 0
    while start <= last:
        offset, length, magic, crc, attributes, delta, timestamp, newest, count, byte, head = unpack(window, start)
        end = start + length + LOG_OVERHEAD
        if delta != count - 1 or attributes & alike != codec or magic != 2 or length > longest or end > size:
            break
        if checksum(window[start + CRC_START : end]) != crc:
            break
        elapsed = timestamp - base_timestamp
        # For a single record: its length takes up to two bytes; its attributes and deltas follow, all 0 if plain.
        if (
            count == 1
            and not codec
            and (head < 256 and byte == (length - 50) << 1 if length <= 113 else byte >= 128 and not head & 0x80FF_FFFF)
        ):
            at = start + 65 if length <= 113 else start + 66
            stamp = stamps[elapsed] if 0 <= elapsed < known_stamps else stamp_of(elapsed)
            number = varints[index]
            append(varints[len(stamp) + len(number) + end - at] + stamp + number + window[at:end])
        else:
            if not 0 < count <= most or index + count > known:
                break
            block, at = window, start + HEADER_SIZE
            if codec:
                block, at = decompress(codec, block[at:end]), 0
                room -= len(block)
                if room < 0:
                    break
            if not _take_dense(
                append, block, at, end if block is window else len(block), varints[index : index + count], elapsed
            ):
                del parts[before + index - builder.count :]
                break
        if offset - index != lag:
            if offset - index < lag:
                # The batch overlaps the previous batch.
                del parts[before + index - builder.count :]
                break
            lag = offset - index
            builder.runs.append((offset, index))
        if newest > max_timestamp:  # noqa: PLR1730 - a call to max takes three times as long
            max_timestamp = newest
        index += count
        taken = start
        start = end
    if not start:
        return None
    builder.lag = lag
    builder.count = index
    builder.max_timestamp = max_timestamp
    builder.size += sum(map(len, parts[before:]))
    builder.source_bytes += start
    builder.next_offset = lag + index
    return read_batch(records, first.start + taken)


def _take_dense(
    append: Callable[[bytes], None], block: bytes, at: int, stop: int, numbers: list[bytes], later: int
) -> bool:
    """Append the records between `at` and `stop`, with offset deltas `numbers` and `later` by so many ms.

    Return False for records that are unusual for a dense batch, or very long; some records are appended then.
    """
    varints, stamps = VARINTS, STAMPS
    known_stamps = len(stamps)
    try:
        for number in numbers:
            size = block[at]
            if size < 128:
                at += 1
            elif (byte := block[at + 1]) < 128:
                size = size & 127 | byte << 7
                at += 2
            else:
                return False
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
            # The offset delta is the record's number in its batch, which is known.
            while block[at] >= 128:
                at += 1
            at += 1
            if at > end:
                return False
            stamp = stamps[elapsed] if 0 <= elapsed < known_stamps else stamp_of(elapsed)
            append(varints[len(stamp) + len(number) + end - at] + stamp + number + block[at:end])
            at = end
    except IndexError:
        return False
    return at == stop


def take_records(
    builder: BatchBuilder, block: bytes, batch: Batch, at: int, taken: int, *, position: int, room: int
) -> tuple[int, int]:
    """Take the records of any v2 batch from source offset `position` on, until `room` bytes are filled.

    `at` is the place in `block` to begin at, `taken` the number of records before it. Both are returned for the next
    call, so the batch is done once `taken` is its record count. A builder always takes its first record, even above
    `room`. A LogAppendTime batch gives its time to each record. Raises `CorruptBatchError`.
    """
    parts = builder.parts
    index = builder.count
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
            if timestamp > max_timestamp:  # noqa: PLR1730 - a call to max takes three times as long
                max_timestamp = timestamp
            if offset - index != lag:
                lag = offset - index
                builder.runs.append((offset, index))
            append(size_of + stamp + number + block[at:end])
            index += 1
            taken += 1
            at = end
    except IndexError:
        raise corrupt(batch, "its records end too early") from None
    builder.lag = lag
    builder.count = index
    builder.size = total
    builder.base_timestamp, builder.max_timestamp = base_timestamp, max_timestamp
    if taken == count:
        if at != len(block):
            raise corrupt(batch, f"its records take {at} bytes, not {len(block)}")
        builder.next_offset = batch.last_offset + 1
    return at, taken
