"""Finds the record batches in the bytes of a fetch from their headers, and the aborted batches; records stay unread.

Format v2: KIP-98 and Kafka's `DefaultRecordBatch`; v0 and v1: `LegacyRecord`. Pure functions on bytes; called in tasks.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable
from operator import itemgetter
from struct import Struct
from typing import NamedTuple

import google_crc32c

from twinlog.errors import CorruptBatchError
from twinlog.kafka.record.compression import CODECS

HEADER = Struct(">qiibIhiqqqhii")
"""Header of a v2 batch, in the order of the first thirteen fields of `Batch`."""
HEADER_AND_FIRST_RECORD = Struct(">qi4xbIhiqq14xiBI")
"""The header without the fields of a producer, and the first five bytes of the records."""
BASE_OFFSET = slice(0, 8)
LENGTH = slice(8, 12)
LEADER_EPOCH = slice(12, 16)
MAGIC = slice(16, 17)
CRC = slice(17, 21)
ATTRIBUTES = slice(21, 23)
LAST_OFFSET_DELTA = slice(23, 27)
BASE_TIMESTAMP = slice(27, 35)
MAX_TIMESTAMP = slice(35, 43)
PRODUCER = slice(43, 57)
"""Producer id, producer epoch and base sequence."""
RECORD_COUNT = slice(57, 61)
"""The bytes of each field of the header; no other module has their places."""
HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""Bytes of base offset and length, which the length itself excludes."""
_FEW = 8_192
"""Fewer bytes are copied in the time in which an array is made."""

CRC_START = 21
"""First byte that a v2 batch's CRC32C covers: the attributes."""

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

_LENGTH = Struct(">i")
_LEGACY_HEADER = Struct(">qiIbb")
_LEGACY_CRC_START = 16
_LEGACY_MIN_LENGTH = (14, 22)
_TIMESTAMP = Struct(">q")
_LAST_CODEC = max(CODECS.values())
_new = tuple.__new__  # Batch(...) would unpack and repack its fields: three times slower


class Batch(NamedTuple):
    """A record batch as its header describes it; the first thirteen fields are the v2 header itself.

    `start` is its first byte in the scanned buffer. A v0 or v1 message is a batch of its own with `record_count` 1. For
    a compressed wrapper `record_count` is -1, and `base_offset` is the offset of its last record. Timestamps are
    milliseconds.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    start: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch; the measure that `max.message.bytes` limits."""
        return self.length + LOG_OVERHEAD

    @property
    def end(self) -> int:
        return self.start + self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """The number of its codec, as in `CODECS`."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def first_timestamp(self) -> int:
        """The timestamp of the first record in ms; with LogAppendTime the timestamp of all records."""
        return self.max_timestamp if self.is_log_append_time else self.base_timestamp


def read_batch(buffer: memoryview | bytes | bytearray, at: int) -> Batch | None:
    """Read the batch that begins at `at`; None if the fetch cut it off, or at the end of the fetch.

    Raises `CorruptBatchError` for an impossible header: unknown magic or codec, a length below the header's own size.
    """
    size = len(buffer)
    if at + HEADER_SIZE > size:
        # Too short for format v2, but old messages can be shorter than its header.
        if at + LOG_OVERHEAD + _LEGACY_MIN_LENGTH[0] <= size and buffer[at + MAGIC.start] < 2:
            return _legacy_batch(buffer, at, size)
        return None
    header = HEADER.unpack_from(buffer, at)
    if header[3] != 2:
        return _legacy_batch(buffer, at, size)
    length = header[1]
    if length < HEADER_SIZE - LOG_OVERHEAD or header[5] & CODEC_MASK > _LAST_CODEC or header[12] < 0:
        raise CorruptBatchError(
            f"batch at source offset {header[0]} has an impossible header (length {length}, attributes "
            f"{header[5]:#06x}, {header[12]} records); the source's log segment is damaged or the fetch response was"
        )
    if at + length + LOG_OVERHEAD > size:
        return None
    return _new(Batch, (*header, at))


def next_start(buffer: memoryview | bytes, at: int) -> int:
    """The place after the batch at `at`, in any format; the batch may be cut off before that place.

    -1 without the bytes of a length at `at`, and for a length that no batch has.
    """
    if at + LOG_OVERHEAD > len(buffer):
        return -1
    (length,) = _LENGTH.unpack_from(buffer, at + LENGTH.start)
    return at + LOG_OVERHEAD + int(length) if length > 0 else -1


def read_last_batch(buffer: memoryview | bytes, most: int) -> Batch | None:
    """Read the last whole batch of a fetch of format v2, of at most `most` batches.

    None without a whole batch, at a batch of another format, and for more batches: to find the end of a batch takes
    0.3 us. Raises `CorruptBatchError` as `read_batch`.
    """
    last = at = 0
    for _ in range(most + 1):
        past = next_start(buffer, at)
        if past <= at or past > len(buffer):
            batch = read_batch(buffer, last) if at else None
            return None if batch is None or batch.magic != 2 else batch
        last, at = at, past
    return None


def timestamp_at(buffer: memoryview | bytes, offset: int) -> int:
    """The first timestamp of the batch that has the record of an offset, in Unix ms.

    -1 if this batch is cut off or damaged.
    """
    start = 0
    try:
        while (batch := read_batch(buffer, start)) is not None:
            if batch.last_offset >= offset:
                return batch.first_timestamp
            start = batch.end
    except CorruptBatchError:
        pass
    return -1


def scan(buffer: memoryview | bytes | bytearray, start: int = 0) -> list[Batch]:
    """List the complete batches from `start` on; a last batch that the fetch cut off is left out.

    Raises `CorruptBatchError` as `read_batch` does.
    """
    batches = []
    while (batch := read_batch(buffer, start)) is not None:
        batches.append(batch)
        start = batch.end
    return batches


def checksum_of(data: memoryview) -> int:
    """The CRC32C of some bytes.

    google_crc32c refuses views, so the bytes are copied; in a process with numpy only if they are few.
    """
    from_view = getattr(sys.modules.get("numpy"), "frombuffer", None)
    found: int = google_crc32c.value(bytes(data) if from_view is None or len(data) < _FEW else from_view(data, "B"))
    return found


def check_crc(buffer: memoryview | bytes | bytearray, batch: Batch) -> None:
    """Raise `CorruptBatchError`, naming the offsets, unless the batch's checksum is right (`ensureValid` in Kafka)."""
    view = memoryview(buffer)
    if batch.magic == 2:
        found = checksum_of(view[batch.start + CRC_START : batch.end])
    else:
        found = zlib.crc32(view[batch.start + _LEGACY_CRC_START : batch.end])
    if found != batch.crc:
        raise CorruptBatchError(
            f"batch at source offsets {batch.base_offset} to {batch.last_offset} ({batch.size} bytes) is corrupt: "
            f"its CRC is {found:#010x}, its header has {batch.crc:#010x}; "
            "check the source broker's disk, then move the position past it if the data cannot be repaired"
        )


def _legacy_batch(buffer: memoryview | bytes | bytearray, at: int, size: int) -> Batch | None:
    """Read the header of a v0 or v1 message at `at`; None if the fetch cut it off."""
    offset, length, crc, magic, attributes = _LEGACY_HEADER.unpack_from(buffer, at)
    if not 0 <= magic <= 1:
        raise CorruptBatchError(
            f"batch at source offset {offset} has magic {magic}; this version reads 0, 1 and 2 only; "
            "either the data is damaged or the source writes a newer message format"
        )
    if length < _LEGACY_MIN_LENGTH[magic]:
        raise CorruptBatchError(
            f"message at source offset {offset} claims {length} bytes, less than its own header; "
            "the source's log segment is damaged or the fetch response was"
        )
    if at + length + LOG_OVERHEAD > size:
        return None
    timestamp = _TIMESTAMP.unpack_from(buffer, at + 18)[0] if magic else -1
    count = -1 if attributes & CODEC_MASK else 1
    return Batch(offset, length, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, count, at)


class AbortedFilter:
    """Follows aborted transactions, given as (producer id, first offset), through the batches of a fetch in order.

    As Kafka's `CompletedFetch`: a producer's transactional batches are aborted from the transaction's first offset up
    to that producer's ABORT marker.
    """

    __slots__ = ("_active", "_waiting")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._waiting = sorted(aborted, key=itemgetter(1), reverse=True)
        self._active: dict[int, int] = {}
        """The first offset of each producer's aborted transaction."""

    def hides(self, batch: Batch, *, abort_marker: bool) -> bool:
        """Whether the batch holds aborted records; `abort_marker` is true for a control batch that aborts."""
        begin = self.begin_of(batch)
        if abort_marker:
            self._active.pop(batch.producer_id, None)
            return False
        return begin is not None

    def begin_of(self, batch: Batch) -> int | None:
        """The first offset of the aborted transaction that has this batch, or its marker; None outside of them.

        Called for the next batch of a fetch before `hides`.
        """
        waiting = self._waiting
        last_offset = batch.last_offset
        while waiting and waiting[-1][1] <= last_offset:
            producer_id, first = waiting.pop()
            self._active[producer_id] = first
        return self._active.get(batch.producer_id) if batch.is_transactional else None
