"""Sequence numbers of a producer's records in a partition, which begin at 0 again after the largest (KIP-98)."""

from __future__ import annotations

LARGEST = 0x7FFFFFFF


def sequence_after(sequence: int, count: int) -> int:
    """The sequence number `count` records after `sequence` (Kafka's DefaultRecordBatch.incrementSequence)."""
    return (sequence + count) & LARGEST


def records_between(sequence: int, later: int) -> int:
    """The number of records from a sequence number up to a later sequence number."""
    return (later - sequence) & LARGEST
