from __future__ import annotations

import gzip
import random
import struct

import cramjam
import pytest

from twinlog.errors import CorruptBatchError
from twinlog.kafka.record.compression import CODECS, GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress

_random = random.Random(3)
BLOCKS = {
    "nothing": b"",
    "one byte": b"x",
    "text": b"the quick brown fox jumps over the lazy dog " * 40,
    "noise": _random.randbytes(70_000),
    "a block and a half": b"abcdefgh" * 12_288,
    "text then noise": b"ab" * 40_000 + _random.randbytes(66_000),
}


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("level", [None, 1, 9])
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_reads_what_it_writes(codec: int, level: int | None, block: bytes) -> None:
    assert decompress(codec, memoryview(compress(codec, block, level))) == block


def test_the_numbers_are_those_of_kafka() -> None:
    assert CODECS == {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_compresses(codec: int) -> None:
    block = BLOCKS["text"]
    assert len(compress(codec, block)) < len(block) / 3


@pytest.mark.parametrize(("codec", "low", "high"), [(GZIP, 1, 9), (ZSTD, 1, 19), (LZ4, 9, 12), (LZ4, None, 3)])
def test_a_higher_level_takes_less_room(codec: int, low: int | None, high: int) -> None:
    """Level 9 of lz4 is Kafka's name for its fast compressor; the other levels all press harder (KIP-390)."""
    rows = [
        f'{{"user": {_random.randrange(10**6)}, "name": "{_random.choice(["anna", "bob"])}"}}' for _ in range(3_000)
    ]
    block = "".join(rows).encode()
    assert len(compress(codec, block, high)) < len(compress(codec, block, low))


def test_gzip_is_readable_by_others() -> None:
    assert gzip.decompress(compress(GZIP, b"text" * 100)) == b"text" * 100


def test_gzip_reads_members_one_after_the_other() -> None:
    assert decompress(GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"


def test_snappy_has_the_framing_of_snappy_java() -> None:
    framed = compress(SNAPPY, b"x" * 40_000)
    assert framed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (size,) = struct.unpack_from(">i", framed, 16)
    assert cramjam.snappy.decompress_raw(framed[20 : 20 + size]).read() == b"x" * 32_768


def test_snappy_reads_a_bare_block() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(b"some text"))) == b"some text"


def test_snappy_reads_streams_one_after_the_other() -> None:
    assert decompress(SNAPPY, compress(SNAPPY, b"one") + compress(SNAPPY, b"two")) == b"onetwo"


@pytest.mark.parametrize("level", [None, 12])
def test_lz4_writes_independent_blocks_without_checksums(level: int | None) -> None:
    """Kafka's reader refuses dependent blocks; its writer sets no other flag and uses blocks of 64 KB."""
    frame = compress(LZ4, BLOCKS["text then noise"], level)
    assert frame[:7].hex() == "04224d18604082"
    at, sizes = 7, []
    while (size := struct.unpack_from("<I", frame, at)[0]) != 0:
        sizes.append(size >> 31)
        at += 4 + (size & 0x7FFF_FFFF)
    assert at + 4 == len(frame)
    assert sizes == [0, 0, 1]


def test_lz4_of_format_v0_may_have_a_wrong_header_checksum() -> None:
    frame = bytearray(compress(LZ4, b"old text" * 50))
    frame[6] ^= 0xFF
    assert decompress(LZ4, bytes(frame), magic=0) == b"old text" * 50
    with pytest.raises(CorruptBatchError):
        decompress(LZ4, bytes(frame), magic=1)


def test_lz4_of_format_v0_with_a_content_size() -> None:
    sized = bytearray(compress(LZ4, b"old text"))
    sized[4] |= 0x08
    sized[6:6] = struct.pack("<Q", 8)
    assert decompress(LZ4, bytes(sized), magic=0) == b"old text"


def test_none_is_the_block_itself() -> None:
    block = b"block"
    assert compress(NONE, block) is block
    assert decompress(NONE, memoryview(block)) == block


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("damage", ["cut", "garbage"])
def test_refuses_damaged_data(codec: int, damage: str) -> None:
    compressed = compress(codec, BLOCKS["text"])
    damaged = compressed[:-6] if damage == "cut" else b"\x07" * 40
    with pytest.raises(CorruptBatchError, match="cannot be decompressed"):
        decompress(codec, damaged)


def test_refuses_a_codec_it_does_not_know() -> None:
    with pytest.raises(CorruptBatchError, match="codec number 5 is unknown"):
        decompress(5, b"data")
