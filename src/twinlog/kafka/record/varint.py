"""Zigzag variable-length integers, as records of format v2 use them (KIP-98; Protocol Buffers' sint64)."""

from __future__ import annotations

_MASK_64 = (1 << 64) - 1


def encode_varint(value: int) -> bytes:
    """Encode a signed 64-bit number; one outside that range wraps around as a Java long does."""
    value &= _MASK_64
    rest = (value << 1 & _MASK_64) ^ (_MASK_64 if value >> 63 else 0)
    if rest < 128:
        return bytes((rest,))
    if rest < 16_384:
        return bytes((rest & 127 | 128, rest >> 7))
    encoded = bytearray()
    while rest >= 128:
        encoded.append(rest & 127 | 128)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def read_varint(buffer: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number at `at` and the place after it. Raises IndexError where the buffer ends too early."""
    rest, at = read_unsigned(buffer, at)
    return rest >> 1 ^ -(rest & 1), at


def read_unsigned(buffer: bytes | memoryview, at: int) -> tuple[int, int]:
    """Like `read_varint`, before the zigzag is undone."""
    byte = buffer[at]
    at += 1
    rest = byte & 127
    shift = 7
    while byte >= 128:
        byte = buffer[at]
        at += 1
        rest |= (byte & 127) << shift
        shift += 7
    return rest, at
