"""Unsigned varints of Kafka's flexible protocol versions (KIP-482)."""

from __future__ import annotations


def uvarint(value: int) -> bytes:
    """Encode a number of 0 or more."""
    out = bytearray()
    while value >= 128:
        out.append((value & 127) | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(data: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """Return the number at byte `at`, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def skip_tags(data: bytes | bytearray | memoryview, at: int) -> int:
    """Return where a section of tagged fields ends."""
    count, at = read_uvarint(data, at)
    for _ in range(count):
        _, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        at += size
    return at
