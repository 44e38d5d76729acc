"""Variable-length integers: zigzag numbers of records (KIP-98), and unsigned numbers of flexible requests (KIP-482)."""

from __future__ import annotations


def uvarint(value: int) -> bytes:
    """Encode a number of 0 or more."""
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value >= 128:
        out.append((value & 127) | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(data: memoryview, at: int) -> int:
    """Return the place after a section of tagged fields."""
    if not data[at]:
        return at + 1
    count, at = read_unsigned(data, at)
    for _ in range(count):
        _, at = read_unsigned(data, at)
        size, at = read_unsigned(data, at)
        at += size
    return at


_MASK_64 = (1 << 64) - 1


def encode_varint(value: int) -> bytes:
    """Encode a signed 64-bit number; a number outside that range wraps around as a Java long does."""
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
    """Return the number at `at` and the place after it. Raises IndexError if the buffer ends too early."""
    rest, at = read_unsigned(buffer, at)
    return rest >> 1 ^ -(rest & 1), at


def read_unsigned(buffer: bytes | memoryview, at: int) -> tuple[int, int]:
    """As `read_varint`, before the zigzag is reverted."""
    byte = buffer[at]
    at += 1
    if byte < 128:
        return byte, at
    rest = byte & 127
    shift = 7
    while byte >= 128:
        byte = buffer[at]
        at += 1
        rest |= (byte & 127) << shift
        shift += 7
    return rest, at
