"""Reads the batches that a broker stored, from its segment files: which codec, which offsets, how many records.

kafka-python's reader looks at the headers, so that what twinlog wrote is not judged by twinlog.
"""

from __future__ import annotations

import struct
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import google_crc32c

from harness.cluster import KafkaCluster
from harness.produce import Codec

with warnings.catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch

CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL_BATCH_BYTES = 16_384
"""Below this neighbouring batches are merged; larger ones go on as they are where they can."""

_HEADER_SIZE = 61
_CRC_START = 21
_LENGTH = struct.Struct(">i")
_APPEND_TIME, _DELETE_HORIZON = 0x08, 0x40


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One record batch (format v2) in a segment; `block` is all after the header, as the producer compressed it."""

    base_offset: int
    last_offset: int
    count: int
    codec: Codec
    size: int
    producer_id: int
    transactional: bool
    control: bool
    append_time: bool
    delete_horizon: bool
    block: bytes

    @property
    def dense(self) -> bool:
        """Every offset from the first to the last has a record."""
        return self.count == self.last_offset - self.base_offset + 1


def stored_batches(cluster: KafkaCluster, topic: str, partition: int = 0, *, node: int = 1) -> list[StoredBatch]:
    """Every batch of one partition on a node, in order of offsets; each checksum is verified."""
    found = []
    for data in _segments(cluster.brokers[node].data / f"{topic}-{partition}"):
        at = 0
        while at + _HEADER_SIZE <= len(data):
            end = at + 12 + _LENGTH.unpack_from(data, at + 8)[0]
            if end > len(data):
                break  # the broker writes this one right now
            found.append(_stored(data[at:end]))
            at = end
    return found


def _segments(home: Path) -> list[bytes]:
    while True:
        # A cleaner puts another in the place of some, and deletes others.
        with suppress(FileNotFoundError):
            return [segment.read_bytes() for segment in sorted(home.glob("*.log"))]


def codecs_of(cluster: KafkaCluster, topic: str, partition: int = 0) -> set[Codec]:
    """Codecs of a partition's batches."""
    return {batch.codec for batch in stored_batches(cluster, topic, partition)}


def _stored(data: bytes) -> StoredBatch:
    batch = DefaultRecordBatch(data)
    assert batch.magic == 2
    assert batch.crc == google_crc32c.value(data[_CRC_START:])
    return StoredBatch(
        base_offset=batch.base_offset,
        last_offset=batch.base_offset + batch.last_offset_delta,
        count=batch.records_count,
        codec=CODECS[batch.compression_type],
        size=len(data),
        producer_id=batch.producer_id,
        transactional=batch.is_transactional,
        control=batch.is_control_batch,
        append_time=bool(batch.attributes & _APPEND_TIME),
        delete_horizon=bool(batch.attributes & _DELETE_HORIZON),
        block=data[_HEADER_SIZE:],
    )
