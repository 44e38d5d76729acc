"""Compresses and decompresses the records of a batch, in the framing that Kafka's Java classes write and read."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct, error
from typing import Final

import cramjam

from twinlog.errors import CorruptBatchError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

CODECS: Final = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
"""The names in `compression.type` and their numbers in a batch's attributes.

The numbers are Kafka's: a broker refuses a batch with another number. `settings.client.Codec` and the row of
`compression.type` in `config.keys.client` have the same names.
"""

_INT = Struct(">i")
_LITTLE = Struct("<I")

_GZIP_WINDOW = 31  # in zlib: a window of 32 KB, with gzip header and trailer

# Snappy comes in the framing of xerial's snappy-java; some clients omit the framing and write a single bare block.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + _INT.pack(1) + _INT.pack(1)
_XERIAL_BLOCK = 32_768

# Kafka's Lz4BlockInputStream refuses blocks that depend on each other, the default of LZ4 libraries. So the frame is
# written here: version 1, independent blocks of 64 KB, checksums off; then the header's checksum byte.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK = 65_536
_LZ4_STORED = 0x8000_0000
_LZ4_END = bytes(4)
_LZ4_FAST_LEVEL = 9  # Kafka's default level, which means the fast compressor (KIP-390)
_LZ4_CONTENT_SIZE = 0x08


def compress(codec: int, data: bytes | memoryview, level: int | None = None) -> bytes:
    """Compress a records block; `level` as in the producer's `compression.<codec>.level`, None for Kafka's default."""
    if codec == NONE:
        return bytes(data)
    return _COMPRESS[codec](data, level)


def decompress(codec: int, data: bytes | memoryview, *, magic: int = 2) -> bytes:
    """Return the decompressed records block. Raises `CorruptBatchError`, whose text lacks the offsets."""
    if codec == NONE:
        return bytes(data)
    if codec not in _DECOMPRESS:
        raise CorruptBatchError(f"codec number {codec} is unknown; this version has {', '.join(CODECS)}")
    if codec == LZ4 and magic == 0:
        data = _fix_lz4_header(bytes(data))
    try:
        return _DECOMPRESS[codec](data)
    except (cramjam.DecompressionError, zlib.error, error, EOFError) as reason:
        raise CorruptBatchError(f"{_NAMES[codec]} data cannot be decompressed: {reason}") from reason


def _compress_gzip(data: bytes | memoryview, level: int | None) -> bytes:
    return zlib.compress(data, -1 if level is None else level, _GZIP_WINDOW)


def _decompress_gzip(data: bytes | memoryview) -> bytes:
    return bytes(cramjam.gzip.decompress(data))


def _compress_snappy(data: bytes | memoryview, level: int | None) -> bytes:
    del level  # Snappy lacks levels
    pieces = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        pieces += (_INT.pack(len(block)), block)
    return b"".join(pieces)


def _decompress_snappy(data: bytes | memoryview) -> bytes:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        return bytes(cramjam.snappy.decompress_raw(view))
    pieces = []
    at = 0
    while at < len(view):
        if view[at : at + 8] == _XERIAL_MAGIC:
            at += len(_XERIAL_HEADER)
            continue
        (size,) = _INT.unpack_from(view, at)
        at += 4
        if not 0 <= size <= len(view) - at:
            raise EOFError("the last block is cut off")
        pieces.append(bytes(cramjam.snappy.decompress_raw(view[at : at + size])))
        at += size
    return b"".join(pieces)


def _compress_lz4(data: bytes | memoryview, level: int | None) -> bytes:
    if level is not None and level != _LZ4_FAST_LEVEL:
        return _compress_lz4_high(data, level)
    pieces = [_LZ4_HEADER]
    view = memoryview(data)
    for start in range(0, len(data), _LZ4_BLOCK):
        plain = view[start : start + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            pieces += (_LITTLE.pack(len(block)), block)
        else:
            pieces += (_LITTLE.pack(len(plain) | _LZ4_STORED), bytes(plain))
    pieces.append(_LZ4_END)
    return b"".join(pieces)


def _compress_lz4_high(data: bytes | memoryview, level: int) -> bytes:
    """Take the blocks out of the library's frames; unlike Kafka's classes the library adds a checksum to each block."""
    pieces = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK):
        compressor = cramjam.lz4.Compressor(level=max(level, 3), content_checksum=False, block_linked=False)
        compressor.compress(bytes(data[start : start + _LZ4_BLOCK]))
        frame = bytes(compressor.finish())
        at = len(_LZ4_HEADER)
        (size,) = _LITTLE.unpack_from(frame, at)
        pieces.append(frame[at : at + 4 + (size & ~_LZ4_STORED)])
    pieces.append(_LZ4_END)
    return b"".join(pieces)


def _decompress_lz4(data: bytes | memoryview) -> bytes:
    return bytes(cramjam.lz4.decompress(data))


def _compress_zstd(data: bytes | memoryview, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, 3 if level is None else level))


def _decompress_zstd(data: bytes | memoryview) -> bytes:
    return bytes(cramjam.zstd.decompress(data))


def _fix_lz4_header(data: bytes) -> bytes:
    """Correct the header checksum of an LZ4 frame in a v0 message.

    Old clients computed this checksum over too many bytes (KAFKA-3160).
    """
    end = 14 if len(data) > 4 and data[4] & _LZ4_CONTENT_SIZE else 6
    if len(data) <= end:
        return data
    return data[:end] + bytes((_xxh32_short(data[4:end]) >> 8 & 255,)) + data[end + 1 :]


def _xxh32_short(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes."""
    mask = 0xFFFF_FFFF
    value = 374_761_393 + len(data)
    at = 0
    while at + 4 <= len(data):
        value = value + _LITTLE.unpack_from(data, at)[0] * 3_266_489_917 & mask
        value = (value << 17 | value >> 15) * 668_265_263 & mask
        at += 4
    for byte in data[at:]:
        value = value + byte * 374_761_393 & mask
        value = (value << 11 | value >> 21) * 2_654_435_761 & mask
    value = (value ^ value >> 15) * 2_246_822_519 & mask
    value = (value ^ value >> 13) * 3_266_489_917 & mask
    return value ^ value >> 16


_COMPRESS: Final[dict[int, Callable[[bytes | memoryview, int | None], bytes]]] = {
    GZIP: _compress_gzip,
    SNAPPY: _compress_snappy,
    LZ4: _compress_lz4,
    ZSTD: _compress_zstd,
}

_DECOMPRESS: Final[dict[int, Callable[[bytes | memoryview], bytes]]] = {
    GZIP: _decompress_gzip,
    SNAPPY: _decompress_snappy,
    LZ4: _decompress_lz4,
    ZSTD: _decompress_zstd,
}

_NAMES: Final = {number: name for name, number in CODECS.items()}
