"""A FetchRequest and its response (versions 10 to 13), with their own code in place of kafka-python's general encoder.

Version 11 adds the reader's rack (KIP-392). Version 12 adds the leader epoch of the last read record (KIP-595) and the
flexible layout. Version 13 has ids of topics in place of names (KIP-516). kafka-python's own decoder copies the record
bytes; here they stay a writable view of the received frame.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import ClassVar, NamedTuple

from twinlog.kafka.protocol.layout import FLEXIBLE, PLAIN, Layout, Part, RawRequest
from twinlog.kafka.record.varint import read_unsigned
from twinlog.model.types import TopicName

RACKS_SINCE = 11
"""From this version on a leader names a replica near the reader (KIP-392)."""

EPOCHS_SINCE = 12
"""From this version on a broker reports the offset from which its log differs from the read records (KIP-595)."""

TOPIC_IDS_SINCE = 13
"""From this version on a topic is named by its id (KIP-516)."""

_HEAD = Struct(">ihi")
_PARTITION = Struct(">ihqqq")
_TRANSACTION = Struct(">qq")
_INT = Struct(">i")
_DIVERGING = Struct(">iq")
_DIVERGING_TAG = 0

_REQUEST_HEAD = Struct(">iiiibii")

_ASKED_PARTITION = Struct(">iiqiqi")

_ASKED_WITHOUT_EPOCH = Struct(">iiqqi")

_CONSUMER = -1

KEPT_IDS = 1024
"""So many ids of topics are kept, because each answer has the same few ids."""

_NO_ID = bytes(16)


class AbortedTransaction(NamedTuple):
    """A transaction whose records are hidden from a `read_committed` reader, from `first_offset` to its marker."""

    producer_id: int
    first_offset: int


@dataclass(slots=True)
class PartitionResponse:
    """The part of a partition in the response; `records` is a writable view, complete batches first.

    The broker's log agrees with the read records up to the end offset `diverging_end` of the epoch `diverging_epoch`;
    both are -1 when the whole log agrees. `preferred_replica` is the broker that a leader names to read from instead
    (KIP-392), else -1.
    """

    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    aborted: Sequence[AbortedTransaction]
    records: memoryview
    diverging_epoch: int = -1
    diverging_end: int = -1
    preferred_replica: int = -1


@dataclass(slots=True)
class FetchedPartitions:
    """A whole response; topics are keyed by name, or by id from version 13 on."""

    throttle_time_ms: int
    error_code: int
    session_id: int
    topics: list[tuple[str | uuid.UUID, list[PartitionResponse]]]


def read_fetch_response(frame: memoryview, at: int, version: int) -> FetchedPartitions:
    """Parse the body that begins at byte `at` of a frame. Raises ValueError, IndexError or struct.error on nonsense."""
    throttle, error, session = _HEAD.unpack_from(frame, at)
    layout = FLEXIBLE if version >= EPOCHS_SINCE else PLAIN
    count, at = layout.read_count(frame, at + _HEAD.size)
    topics: list[tuple[str | uuid.UUID, list[PartitionResponse]]] = []
    for _ in range(count):
        topic: str | uuid.UUID
        if version >= TOPIC_IDS_SINCE:
            topic = _topic_id(bytes(frame[at : at + 16]))
            at += 16
        else:
            name, at = layout.read_text(frame, at)
            topic = name or ""
        size, at = layout.read_count(frame, at)
        parts = []
        for _ in range(size):
            part, at = _read_partition(frame, at, layout, version)
            parts.append(part)
        topics.append((topic, parts))
        at = layout.skip_tags(frame, at)
    return FetchedPartitions(throttle, error, session, topics)


@lru_cache(KEPT_IDS)
def _topic_id(encoded: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=encoded)


def _read_partition(frame: memoryview, at: int, layout: Layout, version: int) -> tuple[PartitionResponse, int]:
    index, error, high_watermark, last_stable, log_start = _PARTITION.unpack_from(frame, at)
    count, at = layout.read_count(frame, at + _PARTITION.size)
    aborted = []
    for _ in range(count):
        aborted.append(AbortedTransaction(*_TRANSACTION.unpack_from(frame, at)))
        at = layout.skip_tags(frame, at + _TRANSACTION.size)
    preferred = -1
    if version >= RACKS_SINCE:
        (preferred,) = _INT.unpack_from(frame, at)
        at += _INT.size
    size, at = layout.read_count(frame, at)
    end = at + max(0, size)
    if end > len(frame):
        raise ValueError(f"{size} bytes of records in a frame with {len(frame) - at} left")
    part = PartitionResponse(index, error, high_watermark, last_stable, log_start, aborted, frame[at:end])
    part.preferred_replica = preferred
    if version < EPOCHS_SINCE:
        return part, end
    tags, at = read_unsigned(frame, end)
    for _ in range(tags):
        tag, at = read_unsigned(frame, at)
        size, at = read_unsigned(frame, at)
        if tag == _DIVERGING_TAG:
            part.diverging_epoch, part.diverging_end = _DIVERGING.unpack_from(frame, at)
        at += size
    return part, at


class FetchPosition(NamedTuple):
    """The next fetch position of a partition.

    `leader_epoch` belongs to the expected leader: a broker with another epoch returns an error, instead of answering as
    a follower (KIP-320). `last_epoch` is the leader epoch of the batch before `offset` (-1 unknown). With `last_epoch`
    a broker of Kafka 2.7 or newer reports a log that was truncated below `offset` (KIP-595). `topic_id` guards against
    a recreated topic of the same name (KIP-516).
    """

    offset: int
    max_bytes: int
    last_epoch: int = -1
    leader_epoch: int = -1
    topic_id: uuid.UUID | None = None


Topic = tuple[TopicName, uuid.UUID | None]


@dataclass
class RawFetch(RawRequest):
    """A FetchRequest of a consumer; `topics` has (partition, position) pairs, `forgotten` partitions."""

    API_KEY = 1
    OLDEST = 10
    NEWEST: ClassVar[int] = TOPIC_IDS_SINCE
    FLEXIBLE_SINCE = EPOCHS_SINCE

    API_VERSION: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    session_id: int
    session_epoch: int
    topics: Mapping[Topic, Sequence[tuple[int, FetchPosition]]]
    forgotten: Mapping[Topic, Sequence[int]]
    rack: str = ""

    def body(self) -> list[Part]:
        layout = self.layout
        end = layout.tags()
        body: list[Part] = [
            _REQUEST_HEAD.pack(
                _CONSUMER,
                self.max_wait_ms,
                self.min_bytes,
                self.max_bytes,
                self.read_committed,
                self.session_id,
                self.session_epoch,
            ),
            layout.count(len(self.topics)),
        ]
        for topic, partitions in self.topics.items():
            body += (self._key(topic), layout.count(len(partitions)))
            for number, at in partitions:
                if self.API_VERSION >= EPOCHS_SINCE:
                    body.append(
                        _ASKED_PARTITION.pack(number, at.leader_epoch, at.offset, at.last_epoch, -1, at.max_bytes) + end
                    )
                else:
                    body.append(_ASKED_WITHOUT_EPOCH.pack(number, at.leader_epoch, at.offset, -1, at.max_bytes))
            body.append(end)
        body.append(layout.count(len(self.forgotten)))
        for topic, numbers in self.forgotten.items():
            body += (self._key(topic), layout.count(len(numbers)), *map(_INT.pack, numbers), end)
        if self.API_VERSION >= RACKS_SINCE:
            body.append(layout.text(self.rack))
        body.append(end)
        return body

    def read(self, frame: memoryview, at: int) -> FetchedPartitions:
        """The response; its records are views of the frame. Raises ValueError, IndexError or struct.error."""
        return read_fetch_response(frame, at, self.API_VERSION)

    def _key(self, topic: Topic) -> bytes:
        name, topic_id = topic
        if self.API_VERSION >= TOPIC_IDS_SINCE:
            return _NO_ID if topic_id is None else topic_id.bytes
        return self.layout.text(name)
