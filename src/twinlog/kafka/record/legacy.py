"""Reads the messages of formats v0 and v1 (KIP-31, KIP-32; Kafka's `AbstractLegacyRecordBatch`).

Brokers before 0.11 wrote these messages, and later brokers may still store them.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from twinlog.errors import CorruptBatchError
from twinlog.kafka.record.batch import LOG_APPEND_TIME, LOG_OVERHEAD, Batch, check_crc, scan
from twinlog.kafka.record.compression import LZ4, decompress
from twinlog.kafka.record.varint import encode_varint

_LENGTH = Struct(">i")
_KEY_AT = (18, 26)  # for v0 and v1; the timestamp makes the difference
_NO_HEADERS = b"\x00"
_NULL = b"\x01"  # -1 as a varint


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
