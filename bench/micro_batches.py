"""Times the record-batch code alone, in memory: microseconds per batch and per record. Run by hand.

    python bench/micro_batches.py [name of a case]
"""

from __future__ import annotations

import random
import struct
import sys
import time
from collections.abc import Callable

from google_crc32c import value

from twinlog.read.codecs import CODECS, compress
from twinlog.read.varint import encode_varint
from twinlog.write.encode import encode_batch
from twinlog.write.prepare import CopyRules, prepare
from twinlog.write.stamp import stamp

FETCH_BYTES = 8 << 20
_RANDOM = random.Random(7)
_WORDS = [bytes(_RANDOM.choices(b"abcdefghijklmnopqrstuvwxyz", k=_RANDOM.randrange(3, 10))) for _ in range(2_000)]


def body(size: int) -> bytes:
    """Key, value and no headers of one record, `size` bytes of half-compressible text."""
    text = b" ".join(_RANDOM.choices(_WORDS, k=size // 6 + 1))[: size - 4]
    return b"\x01" + encode_varint(len(text)) + text + b"\x00"


def as_stored(batch: bytearray, base_offset: int, *, attributes: int = 0, kept: Callable[[int], bool] | None = None) -> bytes:
    """The batch as it lies in the source's log; `kept` tells which records compaction left."""
    del kept
    struct.pack_into(">q", batch, 0, base_offset)
    struct.pack_into(">i", batch, 12, 4)
    batch[22] |= attributes
    struct.pack_into(">I", batch, 17, value(bytes(batch[21:])))
    return bytes(batch)


def log(records: int, size: int, codec: str, *, attributes: int = 0, holes: bool = False) -> tuple[bytes, int, int]:
    """A fetch full of batches with `records` records of `size` bytes; returns it with its batches and records."""
    pieces: list[bytes] = []
    offset = 1_000_000
    filled = count = 0
    now = 1_700_000_000_000
    pool = [body(size) for _ in range(500)]
    while filled < FETCH_BYTES and count < 50_000:
        rows = [(now + (count + index) // 3, _RANDOM.choice(pool)) for index in range(records)]
        if holes:
            batch = with_holes(rows)
        else:
            batch = encode_batch(rows, CODECS[codec])
        pieces.append(as_stored(batch, offset, attributes=attributes))
        offset += struct.unpack_from(">i", batch, 23)[0] + 1
        filled += len(batch)
        count += records
    return b"".join(pieces), len(pieces), count


def with_holes(rows: list[tuple[int, bytes]]) -> bytearray:
    """Encode a batch as compaction leaves it: every third offset is missing."""
    first = rows[0][0]
    block = bytearray()
    for index, (timestamp, content) in enumerate(rows):
        record = b"\x00" + encode_varint(timestamp - first) + encode_varint(index + index // 2) + content
        block += encode_varint(len(record)) + record
    batch = encode_batch(rows)[:61] + block
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 23, len(rows) + len(rows) // 2)
    return batch


def measure(name: str, data: bytes, batches: int, records: int, rules: CopyRules) -> None:
    best = float("inf")
    appends = 0
    size = 0
    started = time.perf_counter()
    while time.perf_counter() - started < 1.5:
        buffer = memoryview(bytearray(data))
        begin = time.perf_counter()
        prepared = prepare(buffer, 0, rules)
        for append in prepared.appends:
            stamp(append.data, 7, 0, 0)
        best = min(best, time.perf_counter() - begin)
        appends = len(prepared.appends)
        size = sum(append.bytes for append in prepared.appends)
    print(
        f"{name:44s} {batches:6d} -> {appends:5d} batches {best / batches * 1e6:9.2f} us/batch "
        f"{best / records * 1e6:7.3f} us/record {len(data) / best / 1e6:7.0f} MB/s in {size / best / 1e6:7.0f} MB/s out"
    )


def main(only: str) -> None:
    cases: list[tuple[str, tuple[bytes, int, int], CopyRules]] = []

    def case(name: str, *shape: int | str, rules: CopyRules | None = None, attributes: int = 0, holes: bool = False) -> None:
        if only in name:
            records, size, codec = shape
            made = log(int(records), int(size), str(codec), attributes=attributes, holes=holes)
            cases.append((name, made, rules or CopyRules()))

    case("raw 64 KB", 650, 100, "none")
    case("raw 64 KB, no CRC check", 650, 100, "none", rules=CopyRules(check_crcs=False))
    case("raw 64 KB lz4", 1100, 100, "lz4")
    case("raw 16 KB", 160, 100, "none")
    case("raw 1 record 100 B, not merged", 1, 100, "none", rules=CopyRules(merge_below=0))
    case("merge 1 record 100 B", 1, 100, "none")
    case("merge 1 record 100 B transactional", 1, 100, "none", attributes=0x10)
    case("merge 1 record 1 KB", 1, 1000, "none")
    case("merge 5 records 100 B", 5, 100, "none")
    case("merge 20 records 100 B", 20, 100, "none")
    case("merge 1 record 100 B lz4", 1, 100, "lz4")
    case("merge 5 records 100 B lz4", 5, 100, "lz4")
    case("merge 20 records 100 B lz4", 20, 100, "lz4")
    case("merge 20 records 100 B zstd", 20, 100, "zstd")
    case("merge 20 records 100 B snappy", 20, 100, "snappy")
    case("holes 500 records 100 B", 500, 100, "none", holes=True)
    case("append time 500 records 100 B", 500, 100, "none", attributes=0x08)
    case("append time 500 records 100 B lz4", 500, 100, "lz4", attributes=0x08)
    case("split 10000 records 1 KB", 10_000, 1000, "none")
    case("recompress none to lz4 64 KB", 650, 100, "none", rules=CopyRules(codec="lz4"))
    case("recompress lz4 to zstd 64 KB", 650, 100, "lz4", rules=CopyRules(codec="zstd"))
    for name, (data, batches, records), rules in cases:
        measure(name, data, batches, records, rules)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
