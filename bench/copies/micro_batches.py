"""Times the record-batch code alone, in memory, with records of 100 bytes: microseconds of CPU per batch and record.

Run by hand: `python bench/copies/micro_batches.py [part of a case's name]`; all cases take a minute.
"""

from __future__ import annotations

import random
import struct
import sys
import time
from typing import NamedTuple

from google_crc32c import value

from twinlog.batches.prepare import CopyRules, prepare
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.record.builder import encode_batch
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.stamp import stamp
from twinlog.kafka.record.varint import encode_varint
from twinlog.model.types import SourceOffset

FETCH_BYTES = 8 << 20
_RANDOM = random.Random(7)
_WORDS = [bytes(_RANDOM.choices(b"abcdefghijklmnopqrstuvwxyz", k=_RANDOM.randrange(3, 10))) for _ in range(2_000)]


def body(size: int) -> bytes:
    """Key, value and no headers of one record, `size` bytes of half-compressible text."""
    text = b" ".join(_RANDOM.choices(_WORDS, k=size // 6 + 1))[: size - 4]
    return b"\x01" + encode_varint(len(text)) + text + b"\x00"


def as_stored(batch: bytearray, base_offset: int, attributes: int) -> bytes:
    """The batch as it lies in the source's log."""
    struct.pack_into(">q", batch, 0, base_offset)
    struct.pack_into(">i", batch, 12, 4)
    batch[22] |= attributes
    struct.pack_into(">I", batch, 17, value(bytes(batch[21:])))
    return bytes(batch)


def log(records: int, size: int, codec: str, attributes: int = 0, *, holes: bool = False) -> tuple[bytes, int, int]:
    """A fetch full of batches with `records` records of `size` bytes; returns it with its batches and records."""
    pieces: list[bytes] = []
    offset = 1_000_000
    filled = count = 0
    now = 1_700_000_000_000
    pool = [body(size) for _ in range(500)]
    while filled < FETCH_BYTES and count < 50_000:
        rows = [(now + (count + index) // 3, _RANDOM.choice(pool)) for index in range(records)]
        batch = with_holes(rows) if holes else encode_batch(rows, CODECS[codec])
        pieces.append(as_stored(batch, offset, attributes))
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
    """Prepare and stamp one fetch again and again for a second and a half; print the best of it."""
    best = float("inf")
    made: list[Append] = []
    started = time.perf_counter()
    while time.perf_counter() - started < 1.5:
        buffer = memoryview(bytearray(data))
        begin = time.process_time()
        made = prepare(buffer, SourceOffset(0), rules).appends
        for append in made:
            stamp(append.data, 7, 0, 0)
        best = min(best, time.process_time() - begin)
    size = sum(append.bytes for append in made)
    print(
        f"{name:36s} {batches:6d} -> {len(made):5d} batches {best / batches * 1e6:9.2f} us/batch "
        f"{best / records * 1e6:7.3f} us/record {len(data) / best / 1e6:6.0f} MB/s in {size / best / 1e6:6.0f} MB/s out"
    )


class Case(NamedTuple):
    """Batches of so many records, each of so many bytes; `attributes` are set in the header."""

    name: str
    records: int
    size: int
    codec: str = "none"
    rules: CopyRules = CopyRules()
    attributes: int = 0
    holes: bool = False


APART = CopyRules(merge_below=0)
CASES = [
    Case("raw 64 KB", 650, 100),
    Case("raw 64 KB, CRC not checked", 650, 100, rules=CopyRules(check_crcs=False)),
    Case("raw 64 KB lz4", 1_100, 100, "lz4"),
    Case("raw 16 KB", 160, 100),
    Case("raw 1 record, not merged", 1, 100, rules=APART),
    Case("merge 1 record", 1, 100),
    Case("merge 1 record, transactional", 1, 100, attributes=0x10),
    Case("merge 1 record of 1 KB", 1, 1_000),
    Case("merge 5 records", 5, 100),
    Case("merge 20 records", 20, 100),
    Case("merge 1 record lz4", 1, 100, "lz4"),
    Case("merge 5 records lz4", 5, 100, "lz4"),
    Case("merge 20 records lz4", 20, 100, "lz4"),
    Case("merge 20 records zstd", 20, 100, "zstd"),
    Case("merge 20 records snappy", 20, 100, "snappy"),
    Case("merge 20 records gzip", 20, 100, "gzip"),
    Case("holes, 500 records", 500, 100, holes=True),
    Case("append time, 500 records", 500, 100, attributes=0x08),
    Case("append time, 500 records lz4", 500, 100, "lz4", attributes=0x08),
    Case("split 10,000 records of 1 KB", 10_000, 1_000),
    Case("recompress none to lz4, 64 KB", 650, 100, rules=CopyRules(codec="lz4")),
    Case("recompress none to zstd, 64 KB", 650, 100, rules=CopyRules(codec="zstd")),
    Case("recompress none to zstd, 1 KB each", 62, 1_000, rules=CopyRules(codec="zstd")),
    Case("recompress lz4 to zstd, 64 KB", 650, 100, "lz4", rules=CopyRules(codec="zstd")),
]


def main(only: str) -> None:
    for case in CASES:
        if only in case.name:
            data, batches, records = log(case.records, case.size, case.codec, case.attributes, holes=case.holes)
            measure(case.name, data, batches, records, case.rules)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
