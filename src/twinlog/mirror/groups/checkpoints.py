"""Checkpoints: the offsets of a consumer group of the source in the remote topics, in MirrorMaker 2's bytes."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.mirror.offsets.fields import INT16, INT32, INT64, FieldError, FieldReader, string
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition

VERSION = 0


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
