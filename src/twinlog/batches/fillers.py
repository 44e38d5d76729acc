"""Batches of fillers: empty records that take the offsets of a remote log before the first copy.

A new log begins at offset 0, and the log of its source may begin later. Many offsets cost little: 65,536 fillers are a
batch of 23 KB with zstd, and 117 KB with gzip.
"""

from __future__ import annotations

from functools import cache
from struct import Struct

from twinlog.kafka.producer.appends import Append
from twinlog.kafka.record.batch import BASE_TIMESTAMP, MAX_TIMESTAMP
from twinlog.kafka.record.builder import MAX_RECORDS, encode_batch, record_body
from twinlog.model.types import SourceOffset

_BODY = record_body(b"twinlog.offset", b"")
"""A filler has a key, because a compacted topic refuses records without a key."""

_TIME = Struct(">q")

PORTION = 16
"""The batches of fillers that wait together: a million offsets."""


@cache
def _batch(count: int, codec: int) -> bytes:
    """A batch of `count` fillers from 1970, before its stamp."""
    return bytes(encode_batch([(0, _BODY)] * count, codec))


def make_fillers(first: SourceOffset, end: SourceOffset, timestamp: int, codec: int, most_bytes: int) -> list[Append]:
    """Fillers from offset `first` on, up to `PORTION` batches or `end`, in batches of at most `most_bytes`.

    `timestamp` is in milliseconds; `codec` is a number of `kafka.record.compression.CODECS`. The source offsets of the
    appends are the offsets that they fill.
    """
    found: list[Append] = []
    most = MAX_RECORDS
    while most > 1 and len(_batch(most, codec)) > most_bytes:
        most //= 2
    time = _TIME.pack(timestamp)
    while first < end and len(found) < PORTION:
        # Each size is encoded once, so sizes are powers of two.
        count = min(most, 1 << (end - first).bit_length() - 1)
        past = SourceOffset(first + count)
        data = bytearray(_batch(count, codec))
        data[BASE_TIMESTAMP] = data[MAX_TIMESTAMP] = time
        found.append(Append(data, count, first, past, timestamp, ((first, count),)))
        first = past
    return found


def is_filler(body: bytes) -> bool:
    """Whether a record of a remote log is a filler; `body` is all of it after the offset delta."""
    return body == _BODY
