"""Encodes twinlog's records: the part of a v2 record from the key's length on (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from twinlog.kafka.record.builder import encode_batch
from twinlog.kafka.record.compression import NONE
from twinlog.kafka.record.stamp import stamp
from twinlog.kafka.record.varint import encode_varint

BATCH_BYTES = 512 << 10
"""Half of a broker's default `message.max.bytes`."""


def _sized(value: bytes | None) -> bytes:
    return encode_varint(-1) if value is None else encode_varint(len(value)) + value


def record_body(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> bytes:
    """Key, value and headers as `encode_batch` takes them."""
    fields = list(headers)
    parts = [_sized(key), _sized(value), encode_varint(len(fields))]
    for name, content in fields:
        parts += (_sized(name.encode()), _sized(content))
    return b"".join(parts)


def portions(bodies: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Bodies of records, in order, in portions for batches that every broker takes."""
    start = size = 0
    for at, body in enumerate(bodies):
        if at > start and size + len(body) > BATCH_BYTES:
            yield bodies[start:at]
            start, size = at, 0
        size += len(body)
    if start < len(bodies):
        yield bodies[start:]


def own_batch(records: Iterable[tuple[int, bytes]], codec: int = NONE) -> bytearray:
    """A batch of (timestamp in ms, body) pieces, ready to append by a producer that is not idempotent."""
    batch = encode_batch(records, codec)
    stamp(batch, -1, -1, -1)
    return batch
