"""Batches of fillers: empty records that take the offsets of a remote log before the first copy.

A new log begins at offset 0, and the log of its source may begin later. Many offsets cost little: 65,536 fillers are a
batch of 29 KB with zstd, and 109 KB with gzip. A broker reads each record (Kafka class LogValidator), so only the first
record of a batch has the key that tells fillers from other records.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from struct import Struct

from twinlog.kafka.producer.appends import Append
from twinlog.kafka.record.batch import BASE_TIMESTAMP, MAX_TIMESTAMP, read_batch
from twinlog.kafka.record.builder import MAX_RECORDS, encode_batch, record_body
from twinlog.model.types import SourceOffset

_FIRST, _LATER = record_body(b"twinlog.offset", b""), record_body(b"", b"")
"""The first filler of a batch, and the others: brokers take 35 % less CPU for records without bytes to skip. All have a
key, because a compacted topic refuses records without a key."""

_TIME = Struct(">q")

PORTION = 16
"""The batches of fillers that wait together: a million offsets."""


@cache
def _batch(count: int, codec: int) -> bytes:
    """A batch of `count` fillers from 1970, before its stamp."""
    return bytes(encode_batch([(0, _FIRST), *[(0, _LATER)] * (count - 1)], codec))


def make_fillers(
    first: SourceOffset, end: SourceOffset, timestamp: int, codec: int, most_bytes: int, most: int = PORTION
) -> list[Append]:
    """Fillers from offset `first` on, up to `most` batches or `end`, in batches of at most `most_bytes`.

    `timestamp` is in milliseconds; `codec` is a number of `kafka.record.compression.CODECS`. The source offsets of the
    appends are the offsets that they fill.
    """
    found: list[Append] = []
    largest = MAX_RECORDS
    while largest > 1 and len(_batch(largest, codec)) > most_bytes:
        largest //= 2
    time = _TIME.pack(timestamp)
    while first < end and len(found) < most:
        # Each size is encoded once, so sizes are powers of two.
        count = min(largest, 1 << (end - first).bit_length() - 1)
        past = SourceOffset(first + count)
        data = bytearray(_batch(count, codec))
        data[BASE_TIMESTAMP] = data[MAX_TIMESTAMP] = time
        found.append(Append(data, count, first, past, timestamp, ((first, count),), fills=True))
        first = past
    return found


def cut_fillers(append: Append, bounds: Sequence[int], most_bytes: int) -> list[Append]:
    """Fillers for the offsets of an append of fillers, cut at the numbers of records in `bounds`, from 0 to its count.

    A plain part of the batch would lack the record that tells fillers from other records.
    """
    batch = read_batch(append.data, 0)
    assert batch is not None
    first, codec = append.first_source_offset, batch.codec
    return [
        part
        for begin, end in pairwise(bounds)
        for part in make_fillers(
            SourceOffset(first + begin), SourceOffset(first + end), append.max_timestamp, codec, most_bytes, MAX_RECORDS
        )
    ]


def are_fillers(bodies: Sequence[bytes]) -> bool:
    """Whether the records of a batch of a remote log are fillers; a body is all of a record after its offset delta.

    A copy of a filler, from a source that is a mirror itself, may share its batch with records of users.
    """
    return bool(bodies) and bodies[0] == _FIRST and all(body in (_LATER, _FIRST) for body in bodies)
