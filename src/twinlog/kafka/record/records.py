"""Opens a batch and reads its records, for the few batches that must change in a copy.

The record layout is the layout of Kafka's `DefaultRecord` (KIP-98). Brokers before 0.11 wrote messages of formats v0
and v1 (KIP-31, KIP-32; Kafka's `AbstractLegacyRecordBatch`), and later brokers may still store these messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from twinlog.errors import CorruptBatchError
from twinlog.kafka.record.batch import HEADER_SIZE, LOG_APPEND_TIME, LOG_OVERHEAD, Batch, check_crc, scan
from twinlog.kafka.record.compression import LZ4, NONE, decompress
from twinlog.kafka.record.varint import encode_varint, read_varint

_LENGTH = Struct(">i")
_KEY_AT = (18, 26)  # for v0 and v1; the timestamp makes the difference
_NO_HEADERS = b"\x00"
_NULL = b"\x01"  # -1 as a varint

_CONTROL_KEY = Struct(">hh")

_ABORT = 0


def legacy_records(buffer: memoryview | bytes, batch: Batch) -> Iterator[tuple[int, int, bytes]]:
    """Yield (offset, timestamp in ms, body) of each record, the body in format v2: key, value and empty headers.

    A compressed wrapper yields the messages inside it. The timestamp is the consumer's view: -1 in v0, the wrapper's
    timestamp if the broker set it. Raises `CorruptBatchError`.
    """
    if not batch.codec:
        yield batch.base_offset, batch.base_timestamp, _body(buffer, batch)
        return
    block = _unwrap(buffer, batch)
    inner = scan(block)
    if not inner or inner[-1].end != len(block):
        raise _corrupt(batch, "the messages inside it are cut off")
    first = 0
    if batch.magic == 1 and batch.base_offset:
        # Inside v1 wrappers offsets are relative. An outer offset of 0 comes from clients that never set it.
        first = batch.base_offset - inner[-1].base_offset
        if first < 0:
            raise _corrupt(batch, "its offset is lower than the last relative offset inside")
    for message in inner:
        if message.magic > 1 or message.codec:
            raise _corrupt(batch, "it contains something else than plain messages")
        check_crc(block, message)
        timestamp = message.base_timestamp
        if message.magic == 1 and batch.attributes & LOG_APPEND_TIME:
            timestamp = batch.base_timestamp
        yield first + message.base_offset, timestamp, _body(block, message)


def _unwrap(buffer: memoryview | bytes, wrapper: Batch) -> bytes:
    at = wrapper.start + _KEY_AT[wrapper.magic]
    _, value_at = _field(buffer, wrapper, at)
    value, _ = _field(buffer, wrapper, value_at)
    if value is None or wrapper.codec > LZ4:
        raise _corrupt(wrapper, "it is marked as compressed but holds no data that this format can compress")
    try:
        return decompress(wrapper.codec, value, magic=wrapper.magic)
    except CorruptBatchError as reason:
        raise _corrupt(wrapper, str(reason)) from reason


def _body(buffer: memoryview | bytes, message: Batch) -> bytes:
    key, value_at = _field(buffer, message, message.start + _KEY_AT[message.magic])
    value, _ = _field(buffer, message, value_at)
    pieces: list[bytes] = []
    for field in (key, value):
        pieces += (_NULL,) if field is None else (encode_varint(len(field)), field)
    pieces.append(_NO_HEADERS)
    return b"".join(pieces)


def _field(buffer: memoryview | bytes, message: Batch, at: int) -> tuple[bytes | None, int]:
    """Read a key or a value: its length in four bytes, -1 for null."""
    if at + _LENGTH.size > message.end:
        raise _corrupt(message, "its key or value runs past its end")
    (length,) = _LENGTH.unpack_from(buffer, at)
    at += _LENGTH.size
    if length < 0:
        return None, at
    if at + length > message.end:
        raise _corrupt(message, "its key or value runs past its end")
    return bytes(buffer[at : at + length]), at + length


def _corrupt(message: Batch, why: str) -> CorruptBatchError:
    return CorruptBatchError(
        f"message of format v{message.magic} at source offset {message.base_offset} "
        f"({message.length + LOG_OVERHEAD} bytes) is corrupt: {why}"
    )


class Record(NamedTuple):
    """A record as a consumer sees it; `timestamp` in ms, `headers` as (key, value) in their order."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def records_block(buffer: memoryview | bytes, batch: Batch) -> bytes:
    """Return the records of a v2 batch, decompressed. Raises `CorruptBatchError`."""
    block = buffer[batch.start + HEADER_SIZE : batch.end]
    if batch.codec == NONE:
        return bytes(block)
    try:
        return decompress(batch.codec, block)
    except CorruptBatchError as reason:
        raise corrupt(batch, str(reason)) from reason


def record_bodies(buffer: memoryview | bytes, batch: Batch) -> Iterator[tuple[int, int, bytes]]:
    """Yield (offset, timestamp in ms, body) of each record; the body is all bytes after the record's offset delta.

    The timestamp is the consumer's view, so the batch's maximum under LogAppendTime. Raises `CorruptBatchError`.
    """
    if batch.magic != 2:
        yield from legacy_records(buffer, batch)
        return
    block = records_block(buffer, batch)
    append_time = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None
    at = 0
    try:
        for _ in range(batch.record_count):
            size, at = read_varint(block, at)
            end = at + size
            delta, at = read_varint(block, at + 1)
            timestamp = batch.base_timestamp + delta if append_time is None else append_time
            delta, at = read_varint(block, at)
            if not at <= end <= len(block):
                raise corrupt(batch, f"a record claims {size} bytes")
            yield batch.base_offset + delta, timestamp, block[at:end]
            at = end
    except IndexError:
        raise corrupt(batch, "its records end too early") from None
    if at != len(block):
        raise corrupt(batch, f"{len(block) - at} bytes follow its last record")


def decode_records(buffer: memoryview | bytes, batch: Batch) -> Iterator[Record]:
    """Yield the records of a batch with key, value and headers apart. Raises `CorruptBatchError`."""
    for offset, timestamp, body in record_bodies(buffer, batch):
        try:
            record = decode_body(offset, timestamp, body)
        except IndexError:
            raise corrupt(batch, f"the record at source offset {offset} cannot be decoded") from None
        yield record


def decode_body(offset: int, timestamp: int, body: bytes) -> Record:
    """The record with a body of `record_bodies`. Raises IndexError if the body ends too early."""
    key, at = _read_bytes(body, 0)
    value, at = _read_bytes(body, at)
    count, at = read_varint(body, at)
    headers = []
    for _ in range(count):
        name, at = _read_bytes(body, at)
        if name is None:
            raise IndexError("a header has no name")
        content, at = _read_bytes(body, at)
        headers.append((name.decode(errors="replace"), content))
    return Record(offset, timestamp, key, value, tuple(headers))


def is_abort_marker(buffer: memoryview | bytes, batch: Batch) -> bool:
    """Whether a control batch aborts its producer's transaction (Kafka's `ControlRecordType`)."""
    if not batch.is_control or not batch.record_count:
        return False
    key = next(decode_records(buffer, batch)).key
    if key is None or len(key) < _CONTROL_KEY.size:
        raise corrupt(batch, "a control record has no type")
    _, kind = _CONTROL_KEY.unpack_from(key)
    return bool(kind == _ABORT)


def corrupt(batch: Batch, why: str) -> CorruptBatchError:
    """Make the error that names the batch by its source offsets and size."""
    return CorruptBatchError(
        f"batch at source offsets {batch.base_offset} to {batch.last_offset} ({batch.size} bytes) is corrupt: {why}"
    )


def _read_bytes(body: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(body, at)
    if size < 0:
        return None, at
    if at + size > len(body):
        raise IndexError
    return body[at : at + size], at + size
