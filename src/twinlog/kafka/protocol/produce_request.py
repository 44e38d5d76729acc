"""A ProduceRequest whose batches are joined into the frame without a copy of their own, and its response."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from twinlog.kafka.protocol.raw_request import Part, RawRequest, compact
from twinlog.kafka.protocol.varint import skip_tags, uvarint
from twinlog.record.varint import read_unsigned

PRODUCE_VERSION = 9
"""The first flexible version (Kafka 2.8); newer ones add nothing that an append here needs."""

_INT = Struct(">i")
_ACKS_AND_TIMEOUT = Struct(">hi")
_PARTITION = Struct(">ihqqq")


class RecordError(NamedTuple):
    """Why a broker refuses one record: its number within the batch, from 0 on, and the reason, if it gives one."""

    number: int
    message: str | None


class Appended(NamedTuple):
    """A broker's answer for one batch: error code, offset of its first record, and a time in ms.

    The time is that of the append where the topic stamps it, and the batch's own where the broker had it already (Kafka
    class UnifiedLog); otherwise -1. With an error come the broker's own words, and the records that it is about
    (KIP-467).
    """

    code: int
    base_offset: int
    at_ms: int
    message: str | None = None
    record_errors: tuple[RecordError, ...] = ()


@dataclass(slots=True)
class ProducedPartitions:
    """A whole response, by topic and partition."""

    throttle_time_ms: int
    partitions: dict[tuple[str, int], Appended]


class RawProduce(RawRequest):
    """A ProduceRequest (version 9).

    `topics` maps a topic name to (partition, batch) pairs; a broker takes exactly one batch per partition. Once the
    frame is made, they have no bytes any more.
    """

    API_KEY = 0
    API_VERSION = PRODUCE_VERSION

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

    def frame(self, correlation_id: int, client_id: str) -> bytes:
        framed = super().frame(correlation_id, client_id)
        # The frame has all bytes. Until the answer comes, the request must not hold the fetches of its batches.
        for batches in self.topics.values():
            batches[:] = [(partition, b"") for partition, _ in batches]
        return framed

    def body(self) -> list[Part]:
        body: list[Part] = [
            b"\0" if self.transactional_id is None else compact(self.transactional_id),
            _ACKS_AND_TIMEOUT.pack(self.acks, self.timeout_ms),
            uvarint(len(self.topics) + 1),
        ]
        for topic, batches in self.topics.items():
            body += (compact(topic), uvarint(len(batches) + 1))
            for partition, batch in batches:
                body += (_INT.pack(partition) + uvarint(len(batch) + 1), batch, b"\0")
            body.append(b"\0")
        body.append(b"\0")
        return body

    def read(self, frame: memoryview, at: int) -> ProducedPartitions:
        """The response. Raises IndexError or struct.error on nonsense."""
        found: dict[tuple[str, int], Appended] = {}
        topics, at = read_unsigned(frame, at)
        for _ in range(topics - 1):
            size, at = read_unsigned(frame, at)
            topic = str(frame[at : at + size - 1], "utf-8")
            partitions, at = read_unsigned(frame, at + size - 1)
            for _ in range(partitions - 1):
                partition, error, base_offset, at_ms, _ = _PARTITION.unpack_from(frame, at)
                at += _PARTITION.size
                if error:
                    message, records, at = _messages(frame, at)
                    found[topic, partition] = Appended(error, base_offset, at_ms, message, records)
                else:
                    found[topic, partition] = Appended(error, base_offset, at_ms)
                    at = _past_messages(frame, at)
            at = skip_tags(frame, at)
        (throttle_time_ms,) = _INT.unpack_from(frame, at)
        return ProducedPartitions(throttle_time_ms, found)

    def __repr__(self) -> str:
        return f"RawProduce({ {topic: [p for p, _ in batches] for topic, batches in self.topics.items()} })"


def _messages(frame: memoryview, at: int) -> tuple[str | None, tuple[RecordError, ...], int]:
    """The partition's own message, the errors of single records (KIP-467), and where the next partition begins."""
    records: list[RecordError] = []
    errors, at = read_unsigned(frame, at)
    for _ in range(errors - 1):
        (index,) = _INT.unpack_from(frame, at)
        message, at = _text(frame, at + _INT.size)
        records.append(RecordError(index, message))
        at = skip_tags(frame, at)
    message, at = _text(frame, at)
    return message, tuple(records), skip_tags(frame, at)


def _text(frame: memoryview, at: int) -> tuple[str | None, int]:
    size, at = read_unsigned(frame, at)
    if not size:
        return None, at
    return str(frame[at : at + size - 1], "utf-8", "replace"), at + size - 1


def _past_messages(frame: memoryview, at: int) -> int:
    """After the errors of single records (KIP-467) and the partition's own message."""
    errors, at = read_unsigned(frame, at)
    for _ in range(errors - 1):
        size, at = read_unsigned(frame, at + _INT.size)
        at = skip_tags(frame, at + max(0, size - 1))
    size, at = read_unsigned(frame, at)
    return skip_tags(frame, at + max(0, size - 1))
