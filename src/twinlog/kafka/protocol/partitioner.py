"""Chooses the partition of a keyed record, by the rule of Kafka's clients."""

from __future__ import annotations

from kafka.partitioner.default import murmur2


def partition_for(key: bytes, partitions: int) -> int:
    """The default partitioner's choice for a key (Kafka class BuiltInPartitioner.partitionForKey)."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)
