"""A ProduceRequest whose batches go uncopied to the socket, its response, and the partition of a key."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from kafka.partitioner.default import murmur2

from twinlog.kafka.protocol.layout import Layout, Part, RawRequest

_MESSAGES_SINCE = 8
"""From this version on a broker names the refused records and the reason (KIP-467)."""

_INT = Struct(">i")
_ACKS_AND_TIMEOUT = Struct(">hi")
_PARTITION = Struct(">ihqqq")


class RecordError(NamedTuple):
    """The refusal of a record: its number within the batch, from 0 on, and the broker's reason, if given."""

    number: int
    message: str | None


class Appended(NamedTuple):
    """A broker's answer for a batch: error code, offset of the first record, and a time in ms.

    If the topic stamps records, the time is the time of the append. If the broker had the batch already, the time is
    the batch's own time (Kafka class UnifiedLog). Otherwise the time is -1. An error has the broker's own words, and
    the affected records (KIP-467).
    """

    code: int
    base_offset: int
    at_ms: int
    message: str | None = None
    record_errors: tuple[RecordError, ...] = ()
    names_records: bool = True
    """Whether the broker names the records that it refuses: since Kafka 2.4.

    Older brokers report a record without a key in a compacted topic as CORRUPT_MESSAGE.
    """


@dataclass(slots=True)
class ProducedPartitions:
    """A whole response, by topic and partition."""

    throttle_time_ms: int
    partitions: dict[tuple[str, int], Appended]


class RawProduce(RawRequest):
    """A ProduceRequest (versions 7 to 9; the additions of newer versions are unnecessary here).

    `topics` maps a topic name to (partition, batch) pairs; a broker takes exactly one batch per partition. The batches
    become empty once its parts are made.
    """

    API_KEY = 0
    OLDEST = 7
    FLEXIBLE_SINCE = 9
    API_VERSION = 9

    def __init__(
        self,
        topics: dict[str, list[tuple[int, Part]]],
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
        transactional_id: str | None = None,
    ) -> None:
        self.topics = topics
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.transactional_id = transactional_id

    def parts(self, correlation_id: int, client_id: str) -> list[Part]:
        parts = super().parts(correlation_id, client_id)
        # Until the answer comes, the request must not hold the fetches of its batches.
        for batches in self.topics.values():
            batches[:] = [(partition, b"") for partition, _ in batches]
        return parts

    def body(self) -> list[Part]:
        layout = self.layout
        end = layout.tags()
        body: list[Part] = [
            layout.text(self.transactional_id),
            _ACKS_AND_TIMEOUT.pack(self.acks, self.timeout_ms),
            layout.count(len(self.topics)),
        ]
        for topic, batches in self.topics.items():
            body += (layout.text(topic), layout.count(len(batches)))
            for partition, batch in batches:
                body += (_INT.pack(partition) + layout.count(len(batch)), batch, end)
            body.append(end)
        body.append(end)
        return body

    def read(self, frame: memoryview, at: int) -> ProducedPartitions:
        """The response. Raises IndexError or struct.error on nonsense."""
        layout, with_messages = self.layout, self.API_VERSION >= _MESSAGES_SINCE
        found: dict[tuple[str, int], Appended] = {}
        topics, at = layout.read_count(frame, at)
        for _ in range(topics):
            topic, at = layout.read_text(frame, at)
            partitions, at = layout.read_count(frame, at)
            for _ in range(partitions):
                partition, error, base_offset, at_ms, _ = _PARTITION.unpack_from(frame, at)
                at += _PARTITION.size
                message: str | None = None
                records: tuple[RecordError, ...] = ()
                if with_messages:
                    message, records, at = _messages(layout, frame, at)
                at = layout.skip_tags(frame, at)
                if error:
                    found[topic or "", partition] = Appended(error, base_offset, at_ms, message, records, with_messages)
                else:
                    found[topic or "", partition] = Appended(error, base_offset, at_ms)
            at = layout.skip_tags(frame, at)
        (throttle_time_ms,) = _INT.unpack_from(frame, at)
        return ProducedPartitions(throttle_time_ms, found)

    def __repr__(self) -> str:
        return f"RawProduce({ {topic: [p for p, _ in batches] for topic, batches in self.topics.items()} })"


def _messages(layout: Layout, frame: memoryview, at: int) -> tuple[str | None, tuple[RecordError, ...], int]:
    """The partition's own message, the errors of single records (KIP-467), and the place after these."""
    records: list[RecordError] = []
    errors, at = layout.read_count(frame, at)
    for _ in range(errors):
        (index,) = _INT.unpack_from(frame, at)
        message, at = layout.read_text(frame, at + _INT.size)
        records.append(RecordError(index, message))
        at = layout.skip_tags(frame, at)
    message, at = layout.read_text(frame, at)
    return message, tuple(records), at


def partition_for(key: bytes, partitions: int) -> int:
    """The default partitioner's choice for a key (Kafka class BuiltInPartitioner.partitionForKey)."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)
