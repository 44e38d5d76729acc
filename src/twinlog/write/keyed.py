"""Encodes a record of our own making: the part of a v2 record from the key's length on (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable

from twinlog.write.encode import encode_batch
from twinlog.write.stamp import stamp


def _varint(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _sized(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def record_body(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> bytes:
    """Key, value and headers as `encode_batch` takes them."""
    pairs = list(headers)
    parts = [_sized(key), _sized(value), _varint(len(pairs))]
    for name, content in pairs:
        parts += (_sized(name.encode()), _sized(content))
    return b"".join(parts)


def own_batch(records: Iterable[tuple[int, bytes]]) -> bytearray:
    """One batch of (timestamp in ms, body) pieces, ready to append by no idempotent producer."""
    batch = encode_batch(records)
    stamp(batch, -1, -1, -1)
    return batch
