"""The slow way: one record after the other, for old formats and for what the fast way does not understand.

It decides what is damaged, with the same decoder as the copier.
"""

from __future__ import annotations

from typing import Any

from twinlog.kafka.record.batch import LOG_APPEND_TIME, Batch
from twinlog.kafka.record.records import decode_records

NO_TIMESTAMP_TYPE, CREATE_TIME, APPEND_TIME = -1, 0, 1
"""Kafka's numbers of a timestamp's type, as in the column `timestampType`."""


def timestamp_type(batch: Batch) -> int:
    """Who set the timestamps of a batch: nobody before format 1, the producer, or the broker."""
    if not batch.magic:
        return NO_TIMESTAMP_TYPE
    return APPEND_TIME if batch.attributes & LOG_APPEND_TIME else CREATE_TIME


def decode_exactly(buffer: memoryview, batch: Batch) -> list[tuple[int, int, int, Any, Any, Any]]:
    """Offset, timestamp in ms, its type, key, value and headers of each record; no headers are None.

    Raises CorruptBatchError.
    """
    kind = timestamp_type(batch)
    return [
        (
            _as_long(record.offset),
            _as_long(record.timestamp),
            kind,
            record.key,
            record.value,
            [{"key": name, "value": content} for name, content in record.headers] or None,
        )
        for record in decode_records(buffer, batch)
    ]


def _as_long(number: int) -> int:
    """What a Java consumer makes of a number that is too large: it wraps around."""
    return (number + 2**63) % 2**64 - 2**63
