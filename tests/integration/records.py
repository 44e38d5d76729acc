"""Records with all that can go wrong in a copy, and how copies are compared."""

from __future__ import annotations

import random

from harness.consume import Record
from harness.produce import NewRecord


def seen(records: list[Record]) -> list[tuple[object, ...]]:
    """What a copy must keep of records in order: partition and content, not the offset."""
    return [(one.partition, *one.content) for one in records]


def lively(count: int, *, size: int = 200) -> list[NewRecord]:
    """Records with all that a record can have or lack; half of each value can be compressed."""
    noise = random.Random(count)
    shapes: list[tuple[bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
        (b"key", ()),
        (None, (("h", b"1"), ("h", b"2"), ("h", b"1"))),
        (b"", (("none", None), ("empty", b""), ("\u00e9", b"\x00\xff"))),
    ]
    records = []
    for number in range(count):
        key, headers = shapes[number % len(shapes)]
        value = None if number % 7 == 3 else b"%06d" % number + noise.randbytes(size // 2) + b"." * (size // 2)
        # Timestamps go up and down, and far back.
        records.append(NewRecord(value, key, headers, 1_500_000_000_000 + (number * 7919) % 100_000))
    return records
