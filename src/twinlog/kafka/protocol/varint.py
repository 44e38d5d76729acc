"""Unsigned varints of Kafka's flexible protocol versions (KIP-482)."""

from __future__ import annotations

from twinlog.kafka.record.varint import read_unsigned


def uvarint(value: int) -> bytes:
    """Encode a number of 0 or more."""
    out = bytearray()
    while value >= 128:
        out.append((value & 127) | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(data: memoryview, at: int) -> int:
    """Return where a section of tagged fields ends."""
    count, at = read_unsigned(data, at)
    for _ in range(count):
        _, at = read_unsigned(data, at)
        size, at = read_unsigned(data, at)
        at += size
    return at
