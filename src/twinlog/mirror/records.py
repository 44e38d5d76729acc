"""Records in MirrorMaker 2's bytes: checkpoints and heartbeats, and the fields of all its records.

A checkpoint has an offset of a consumer group of the source in a remote topic. A heartbeat shows that a flow is alive,
and further flows mirror it.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct, error

from twinlog.model.types import Alias, GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition

INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")
LONGEST_STRING = 0x7FFF

VERSION = 0


class FieldError(ValueError):
    """A record's key or value lacks the expected fields; only decoders see the error."""


def string(text: str) -> bytes:
    """A string field: its length in bytes as INT16, then UTF-8. Raises ValueError above 32767 bytes."""
    data = text.encode(errors="replace")
    if len(data) > LONGEST_STRING:
        raise ValueError(f"a string of {len(data)} bytes is too long for a field of at most {LONGEST_STRING}")
    return INT16.pack(len(data)) + data


class FieldReader:
    """Takes fields from the start of `data`; the bytes after the last field are ignored, as in Kafka's classes.

    Every method raises FieldError when the data ends too early.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def string(self) -> str:
        size = self.int16()
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise FieldError(f"a string of {size} bytes in {len(self._data) - self._at}")
        text = self._data[self._at : end].decode(errors="replace")
        self._at = end
        return text

    def int16(self) -> int:
        return self._number(INT16)

    def int32(self) -> int:
        return self._number(INT32)

    def int64(self) -> int:
        return self._number(INT64)

    def rest(self) -> bytes:
        """The bytes after the fields that were taken."""
        return self._data[self._at :]

    def _number(self, kind: Struct) -> int:
        try:
            number: int = kind.unpack_from(self._data, self._at)[0]
        except error as short:
            raise FieldError(str(short)) from None
        self._at += kind.size
        return number


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A committed offset of a group and its translation.

    Kafka class Checkpoint.

    `topic` is the topic's name on the target. `upstream` is the offset committed on the source, `downstream` is the
    offset to commit on the target. `metadata` is the text that the consumer committed beside its offset.
    """

    group: GroupId
    topic: TopicName
    partition: int
    upstream: SourceOffset
    downstream: TargetOffset
    metadata: str = ""

    @property
    def remote(self) -> TopicPartition:
        """The remote partition of the checkpoint."""
        return TopicPartition(self.topic, self.partition)

    @property
    def key(self) -> bytes:
        """The record's key: STRING group, STRING topic, INT32 partition."""
        return string(self.group) + string(self.topic) + INT32.pack(self.partition)

    @property
    def value(self) -> bytes:
        """The record's value: INT16 version, INT64 upstream and downstream offset, STRING metadata."""
        offsets = INT64.pack(self.upstream) + INT64.pack(self.downstream)
        return INT16.pack(VERSION) + offsets + string(self.metadata)

    def __str__(self) -> str:
        """As Kafka's console formatter prints it."""
        return (
            f"Checkpoint{{consumerGroupId={self.group}, topicPartition={self.remote}, "
            f"upstreamOffset={self.upstream}, downstreamOffset={self.downstream}, metadata={self.metadata}}}"
        )


def decode_checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint | None:
    """The checkpoint in a record of any version; None for a tombstone and for any other record."""
    where = decode_checkpoint_key(key)
    if where is None or value is None:
        return None
    group, remote = where
    fields = FieldReader(value)
    try:
        fields.int16()
        upstream, downstream = SourceOffset(fields.int64()), TargetOffset(fields.int64())
        return Checkpoint(group, *remote, upstream, downstream, fields.string())
    except FieldError:
        return None


def decode_checkpoint_key(key: bytes | None) -> tuple[GroupId, TopicPartition] | None:
    """The group and the remote partition of a checkpoint or its tombstone; None for any other record."""
    fields = FieldReader(key or b"")
    try:
        return GroupId(fields.string()), TopicPartition(TopicName(fields.string()), fields.int32())
    except FieldError:
        return None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The flow from `source` to `target` ran at `timestamp_ms`, which is also the record's timestamp.

    Kafka class Heartbeat.
    """

    source: Alias
    target: Alias
    timestamp_ms: int

    @property
    def key(self) -> bytes:
        """The record's key: STRING source alias, STRING target alias."""
        return string(self.source) + string(self.target)

    @property
    def value(self) -> bytes:
        """The record's value: INT16 version, INT64 timestamp in ms."""
        return INT16.pack(VERSION) + INT64.pack(self.timestamp_ms)

    def __str__(self) -> str:
        """As Kafka's console formatter prints it."""
        return (
            f"Heartbeat{{sourceClusterAlias={self.source}, targetClusterAlias={self.target}, "
            f"timestamp={self.timestamp_ms}}}"
        )


def decode_heartbeat(key: bytes | None, value: bytes | None) -> Heartbeat | None:
    """Return the heartbeat in a record; None for any other record, also for a user's record with bytes left over."""
    names, fields = FieldReader(key or b""), FieldReader(value or b"")
    try:
        source, target = Alias(names.string()), Alias(names.string())
        version, timestamp_ms = fields.int16(), fields.int64()
    except FieldError:
        return None
    if version != VERSION or names.rest() or fields.rest() or not source or not target:
        return None
    return Heartbeat(source, target, timestamp_ms)
