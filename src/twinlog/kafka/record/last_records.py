"""Keeps the last record of each key while a compacted topic is read; overwritten records are never decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from twinlog.errors import CorruptBatchError
from twinlog.kafka.record.batch import LOG_APPEND_TIME, Batch
from twinlog.kafka.record.records import Record, corrupt, decode_body, record_bodies, records_block
from twinlog.kafka.record.varint import read_varint

T = TypeVar("T")

_new = tuple.__new__
_NO_VALUE = 1
"""The length -1 as a varint."""


class KeptRecord(NamedTuple):
    """A record whose key was read; `timestamp` in ms, `body` all bytes after the offset delta."""

    offset: int
    timestamp: int
    body: bytes

    def decode(self) -> Record:
        """The record with key, value and headers apart. Raises `CorruptBatchError`."""
        try:
            return decode_body(self.offset, self.timestamp, self.body)
        except IndexError:
            raise CorruptBatchError(f"the record at offset {self.offset} cannot be decoded") from None

    def value(self) -> bytes | None:
        """The value alone, in a third of the time. Raises `CorruptBatchError`."""
        body = self.body
        try:
            size, at = read_varint(body, 0)
            size, at = read_varint(body, at + size)
        except IndexError:
            size, at = 0, len(body) + 1
        if at + max(0, size) > len(body):
            raise CorruptBatchError(f"the record at offset {self.offset} cannot be decoded")
        return body[at : at + size] if size >= 0 else None


LastRecords = dict[bytes, KeptRecord]
"""The last record of each key, tombstones too."""


def taken(last: LastRecords, decode: Callable[[KeptRecord], T]) -> Iterator[tuple[bytes, T]]:
    """Take each record out and decode it, in the order of the first records of their keys.

    So each record exists either encoded or decoded, which saves memory. Raises `CorruptBatchError`, and raises it again
    in the next call.
    """
    for key in list(last):
        decoded = decode(last[key])
        del last[key]
        yield key, decoded


def keep_last(
    buffer: memoryview | bytes, batch: Batch, first_offset: int, last: LastRecords, *, deletions: bool = True
) -> None:
    """Put each record of a batch that has a key, from `first_offset` on, in the place of the previous record in `last`.

    If `deletions` is false, a tombstone is skipped, and the previous record stays. A topic of a day has hundreds of
    thousands of records, so a record takes about 1.5 us here. Raises `CorruptBatchError`.
    """
    if batch.magic != 2:
        for offset, timestamp, body in record_bodies(buffer, batch):
            record = decode_body(offset, timestamp, body)
            if record.key is not None and offset >= first_offset and (deletions or record.value is not None):
                last[record.key] = KeptRecord(offset, timestamp, body)
        return
    block = records_block(buffer, batch)
    append_time = batch.attributes & LOG_APPEND_TIME
    base_offset, base_timestamp, timestamp = batch.base_offset, batch.base_timestamp, batch.max_timestamp
    at = 0
    try:
        for _ in range(batch.record_count):
            # Varints of up to two bytes are read inline: a call for each would double the time.
            byte = block[at]
            if byte < 128:
                size, at = byte >> 1, at + 1
            elif block[at + 1] < 128:
                size, at = (byte & 127 | block[at + 1] << 7) >> 1, at + 2
            else:
                size, at = read_varint(block, at)
            end = at + size
            at += 1
            byte = block[at]
            if byte < 128:
                delta, at = byte >> 1 ^ -(byte & 1), at + 1
            else:
                delta, at = read_varint(block, at)
            if not append_time:
                timestamp = base_timestamp + delta
            byte = block[at]
            if byte < 128:
                offset, at = base_offset + (byte >> 1), at + 1
            else:
                delta, at = read_varint(block, at)
                offset = base_offset + delta
            begin = at
            byte = block[at]
            if byte < 128:
                size, at = byte >> 1 ^ -(byte & 1), at + 1
            elif block[at + 1] < 128:
                size, at = (byte & 127 | block[at + 1] << 7) >> 1, at + 2
            else:
                size, at = read_varint(block, at)
            if not begin < end <= len(block) or at + size > end:
                raise corrupt(batch, f"the record at offset {offset} does not fit into it")
            if size >= 0 and offset >= first_offset and (deletions or block[at + size] != _NO_VALUE):
                last[block[at : at + size]] = _new(KeptRecord, (offset, timestamp, block[begin:end]))
            at = end
    except IndexError:
        raise corrupt(batch, "its records end too early") from None
