"""A FetchRequest (versions 12 and 13, KIP-595 and KIP-516), written without kafka-python's general encoder."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from twinlog.kafka.protocol.fetch_response import TOPIC_IDS_SINCE, FetchedPartitions, read_fetch_response
from twinlog.kafka.protocol.raw_request import Part, RawRequest, compact
from twinlog.kafka.protocol.varint import uvarint
from twinlog.model.types import TopicName

_HEAD = Struct(">iiiibii")
_PARTITION = Struct(">iiqiqib")
_INT = Struct(">i")
_CONSUMER = -1
_NO_ID = bytes(16)


class FetchPosition(NamedTuple):
    """Where to read a partition next.

    `leader_epoch` is that of the expected leader: a broker that does not lead with it returns an error, instead of
    answering as a follower (KIP-320). `last_epoch` is the leader epoch of the batch before `offset` (-1 unknown): with
    it the broker reports a log that was truncated below `offset` (KIP-595). `topic_id` guards against a recreated topic
    of the same name (KIP-516).
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
            uvarint(len(self.topics) + 1),
        ]
        for topic, partitions in self.topics.items():
            body += (self._key(topic), uvarint(len(partitions) + 1))
            for number, at in partitions:
                # After it the end of its tags.
                body.append(_PARTITION.pack(number, at.leader_epoch, at.offset, at.last_epoch, -1, at.max_bytes, 0))
            body.append(b"\0")
        body.append(uvarint(len(self.forgotten) + 1))
        for topic, numbers in self.forgotten.items():
            body += (self._key(topic), uvarint(len(numbers) + 1), *map(_INT.pack, numbers), b"\0")
        body += (compact(self.rack), b"\0")
        return body

    def read(self, frame: memoryview, at: int) -> FetchedPartitions:
        """The response; its records are views of the frame. Raises ValueError, IndexError or struct.error."""
        return read_fetch_response(frame, at, self.API_VERSION)

    def _key(self, topic: Topic) -> bytes:
        name, topic_id = topic
        if self.API_VERSION >= TOPIC_IDS_SINCE:
            return _NO_ID if topic_id is None else topic_id.bytes
        return compact(name)
