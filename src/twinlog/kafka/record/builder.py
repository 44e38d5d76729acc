"""Builds record batches of format v2 from records whose key, value and headers keep their encoding (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from threading import Lock

from twinlog.kafka.record.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD
from twinlog.kafka.record.compression import NONE, compress
from twinlog.kafka.record.stamp import stamp
from twinlog.kafka.record.varint import encode_varint
from twinlog.model.types import SourceOffset

MAX_RECORDS = 65_536
"""The most records of a batch, which bounds the tables below."""

LARGEST_GROWTH = 24
"""An encoded record has fewer than this many bytes beyond its body, or beyond its size in its source batch."""

VARINTS = [encode_varint(number) for number in range(8_300)]
"""The numbers from 0 on as varints: offset deltas and record lengths come from here. `reserve_varints` adds more."""

STAMPS = [b"\x00" + encode_varint(delta) for delta in range(8_192)]
"""The first bytes of a record after its length: attributes 0 and a timestamp delta from 0 on, in ms."""


_reserving = Lock()

BATCH_BYTES = 512 << 10
"""Half of a broker's default `message.max.bytes`."""


def reserve_varints(count: int) -> None:
    """Make sure that `VARINTS` has the numbers below `count`. Copiers of several flows call it at once."""
    if count > len(VARINTS):
        with _reserving:
            VARINTS.extend(map(encode_varint, range(len(VARINTS), count)))


def stamp_of(delta: int) -> bytes:
    """Attributes 0 and a timestamp delta beyond the table `STAMPS`."""
    return b"\x00" + encode_varint(delta)


class BatchBuilder:
    """A batch in the making: `count` records in pieces of `parts`; only the codec and the header are missing.

    Offset deltas run from 0 in steps of 1 and timestamp deltas count from `base_timestamp`, the first record's. `runs`
    keeps the source of the records: the (source offset, index) of the first record of each run of consecutive source
    offsets. `lag` is source offset minus index in the last run, -1 before the first run. `size` is the bytes of the
    parts, `source_bytes` their bytes in the fetch, `next_offset` the source offset after the last batch taken.
    """

    __slots__ = (
        "base_timestamp",
        "codec",
        "count",
        "lag",
        "max_timestamp",
        "next_offset",
        "parts",
        "runs",
        "size",
        "source_bytes",
        "whole",
    )

    def __init__(self, codec: int) -> None:
        self.codec = codec
        self.parts: list[bytes | memoryview] = []
        self.count = 0
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.runs: list[tuple[int, int]] = []
        self.lag = -1
        self.size = 0
        self.source_bytes = 0
        self.next_offset = -1
        self.whole: bytearray | None = None
        """The batch of the first `add_records`, if no record is before its records: `build` fills in its header."""

    def add(self, offset: int, timestamp: int, body: bytes) -> None:
        """Add a record: its source offset, its timestamp in ms, and its bytes from the key's length on."""
        index = self.count
        if not index:
            self.base_timestamp = timestamp
            self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.begin_run(offset, index)
        prefix = stamp_of(timestamp - self.base_timestamp) + encode_varint(index)
        part = b"%b%b%b" % (encode_varint(len(prefix) + len(body)), prefix, body)
        self.parts.append(part)
        self.count += 1
        self.size += len(part)

    def add_records(
        self, batch: bytearray, count: int, base: int, newest: int, runs: Iterable[tuple[int, int]]
    ) -> None:
        """Add `count` complete records, which follow the free bytes of a header in `batch`.

        Without other records and without a codec, `build` returns this very `batch`. The newest timestamp of these
        records is `newest` ms; the first record of the batch is from `base` ms. `runs` are the (source offset, index)
        of the first record of each run.
        """
        if not self.count:
            self.base_timestamp = self.max_timestamp = base
            self.whole = batch
        self.max_timestamp = max(self.max_timestamp, newest)
        for offset, index in runs:
            self.begin_run(offset, index)
        data = memoryview(batch)[HEADER_SIZE:]
        self.parts.append(data)
        self.count += count
        self.size += len(data)

    def begin_run(self, offset: int, index: int) -> None:
        """Note that record number `index` has this source offset."""
        if offset - index != self.lag:
            self.lag = offset - index
            self.runs.append((offset, index))

    @property
    def mark(self) -> tuple[int, int]:
        """The present numbers of parts and records, for `drop_from`."""
        return len(self.parts), self.count

    def drop_from(self, mark: tuple[int, int]) -> None:
        """Drop the records after a mark, which turned out to be corrupt; only `build` may follow."""
        pieces, count = mark
        del self.parts[pieces:]
        self.whole = self.whole if pieces else None
        self.count = count
        self.runs = [run for run in self.runs if run[1] < count]

    def spans(self) -> tuple[tuple[SourceOffset, int], ...]:
        """The source offsets of the records, as runs of (first source offset, count)."""
        ends = [index for _, index in self.runs[1:]] + [self.count]
        return tuple((SourceOffset(offset), end - index) for (offset, index), end in zip(self.runs, ends, strict=True))

    def build(self, level: int | None = None) -> bytearray:
        """Return the batch before its stamp: base offset 0, leader epoch and producer fields -1, CRC 0."""
        if self.codec == NONE and self.whole is not None and len(self.parts) == 1:
            batch = self.whole
        elif self.codec == NONE:
            batch = bytearray().join([bytes(HEADER_SIZE), *self.parts])
        else:
            batch = bytearray(HEADER_SIZE)
            batch += compress(self.codec, b"".join(self.parts), level)
        HEADER.pack_into(
            batch,
            0,
            *(0, len(batch) - LOG_OVERHEAD, -1, 2, 0, self.codec, self.count - 1),
            *(self.base_timestamp, self.max_timestamp, -1, -1, -1, self.count),
        )
        return batch


def encode_batch(records: Iterable[tuple[int, bytes]], codec: int = NONE, level: int | None = None) -> bytearray:
    """Encode (timestamp in ms, body) pieces as a batch, before its stamp; a body starts at the key's length."""
    builder = BatchBuilder(codec)
    for index, (timestamp, body) in enumerate(records):
        builder.add(index, timestamp, body)
    return builder.build(level)


def _sized(value: bytes | None) -> bytes:
    return encode_varint(-1) if value is None else encode_varint(len(value)) + value


def record_body(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> bytes:
    """Key, value and headers as `encode_batch` takes them."""
    fields = list(headers)
    parts = [_sized(key), _sized(value), encode_varint(len(fields))]
    for name, content in fields:
        parts += (_sized(name.encode()), _sized(content))
    return b"".join(parts)


def portions(bodies: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Bodies of records, in order, in portions for batches that every broker takes."""
    start = size = 0
    for at, body in enumerate(bodies):
        if at > start and size + len(body) > BATCH_BYTES:
            yield bodies[start:at]
            start, size = at, 0
        size += len(body)
    if start < len(bodies):
        yield bodies[start:]


def own_batch(records: Iterable[tuple[int, bytes]], codec: int = NONE) -> bytearray:
    """A batch of (timestamp in ms, body) pieces, ready to append by a producer that is not idempotent."""
    batch = encode_batch(records, codec)
    stamp(batch, -1, -1, -1)
    return batch
