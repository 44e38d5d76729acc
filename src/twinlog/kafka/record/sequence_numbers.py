"""Sequence numbers of a producer's records in a partition, which begin at 0 again after the largest (KIP-98)."""

from __future__ import annotations

LARGEST = 0x7FFFFFFF


def sequence_after(sequence: int, count: int) -> int:
    """The sequence number `count` records after one (Kafka's DefaultRecordBatch.incrementSequence)."""
    return (sequence + count) & LARGEST


def records_between(sequence: int, later: int) -> int:
    """How many records there are from one sequence number up to a later one."""
    return (later - sequence) & LARGEST
