"""Opens a batch and reads its records, for the few batches that must change in a copy.

The record layout is the layout of Kafka's `DefaultRecord` (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from twinlog.errors import CorruptBatchError
from twinlog.kafka.record.batch import HEADER_SIZE, LOG_APPEND_TIME, Batch
from twinlog.kafka.record.compression import NONE, decompress
from twinlog.kafka.record.legacy import legacy_records
from twinlog.kafka.record.varint import read_varint

_CONTROL_KEY = Struct(">hh")
_ABORT = 0


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
