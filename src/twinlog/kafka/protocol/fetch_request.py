"""A FetchRequest (versions 10 to 13), with its own code in place of kafka-python's general encoder.

Version 11 adds the reader's rack (KIP-392). Version 12 adds the leader epoch of the last read record (KIP-595) and the
flexible layout. Version 13 has ids of topics in place of names (KIP-516).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, NamedTuple

from twinlog.kafka.protocol.fetch_response import (
    EPOCHS_SINCE,
    RACKS_SINCE,
    TOPIC_IDS_SINCE,
    FetchedPartitions,
    read_fetch_response,
)
from twinlog.kafka.protocol.raw_request import Part, RawRequest
from twinlog.model.types import TopicName

_HEAD = Struct(">iiiibii")
_PARTITION = Struct(">iiqiqi")
_PARTITION_WITHOUT_EPOCH = Struct(">iiqqi")
_INT = Struct(">i")
_CONSUMER = -1
_NO_ID = bytes(16)


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
            _HEAD.pack(
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
                        _PARTITION.pack(number, at.leader_epoch, at.offset, at.last_epoch, -1, at.max_bytes) + end
                    )
                else:
                    body.append(_PARTITION_WITHOUT_EPOCH.pack(number, at.leader_epoch, at.offset, -1, at.max_bytes))
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
