"""A position: how far a source partition has been copied, in Connect's form of a source offset.

Key and value have the same bytes as MirrorMaker 2's (Kafka class OffsetStorageWriter with a schemaless JsonConverter).
So each program continues at the position of the other program. Further facts for twinlog alone are in a record header,
which Connect ignores.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from twinlog.model.compact_json import MALFORMED, object_of, utf8_json
from twinlog.model.types import Alias, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import SOURCE_CONNECTOR

HEADER = "twinlog.position"


@dataclass(frozen=True, slots=True)
class Writer:
    """The appender to a remote partition: an idempotent producer, and the sequence number of its next record."""

    producer_id: int
    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Position:
    """How far a source partition is copied, and the offsets at which copying continues.

    `next_source` is the next source offset to copy. `next_target` is the target offset of the next record (None when
    MirrorMaker 2 wrote the position). `leader_epoch` is the epoch of the last batch read (-1 unknown). Topic ids are
    UUID texts, None when unknown. `generation` is the generation of the exact map that ends here (see
    `mirror.offsets.segments.Segment`). `remote_topic` is the topic of the copies, `writer` the producer that appended
    them; both are None when unknown. `writer` is also None when transactions keep late appends away.

    `kept_from` is the first source offset to copy if the copies keep the offsets of their sources, otherwise None.
    Before it the remote log has only records that fill offsets, and `next_target` equals `next_source`.

    `difference` is the target offset of a difference that the proof of equality found, and that no operator has
    accepted, otherwise None.
    """

    next_source: SourceOffset
    next_target: TargetOffset | None = None
    leader_epoch: int = -1
    topic_id: str | None = None
    remote_topic_id: str | None = None
    generation: int = 0
    remote_topic: str | None = None
    writer: Writer | None = None
    kept_from: SourceOffset | None = None
    difference: TargetOffset | None = None

    @property
    def fills(self) -> bool:
        """Whether the remote log may still lack offsets before the first source offset to copy, or have records
        there."""
        return self.kept_from is not None and 0 < self.kept_from >= self.next_source

    def after_append(
        self, next_source: SourceOffset, next_target: TargetOffset, leader_epoch: int, writer: Writer | None
    ) -> Position:
        """The position after an acknowledged append; `dataclasses.replace` would take three times as long."""
        return Position(
            next_source,
            next_target,
            leader_epoch,
            self.topic_id,
            self.remote_topic_id,
            self.generation,
            self.remote_topic,
            writer,
            self.kept_from,
            self.difference,
        )


@dataclass(frozen=True, slots=True)
class PositionRecord:
    """A position as a record of the positions topic: key, value (None deletes) and headers, all bytes."""

    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def position_key(source: Alias, partition: TopicPartition, connector: str = SOURCE_CONNECTOR) -> bytes:
    """The record key: `["<connector>",{"cluster":…,"partition":…,"topic":…}]` in the order of Java's HashMap."""
    return utf8_json([connector, {"cluster": source, "partition": partition.partition, "topic": partition.topic}])


def encode_position(
    source: Alias, partition: TopicPartition, position: Position, connector: str = SOURCE_CONNECTOR
) -> PositionRecord:
    """A position as MirrorMaker 2 would store it: the value is the offset of the last copied record."""
    writer = position.writer
    extra = {
        "target": position.next_target,
        "epoch": position.leader_epoch,
        "topic_id": position.topic_id,
        "remote_topic_id": position.remote_topic_id,
        "generation": position.generation,
        "remote_topic": position.remote_topic,
        "producer": None if writer is None else [writer.producer_id, writer.epoch, writer.sequence],
    }
    if position.kept_from is not None:
        extra["kept_from"] = position.kept_from
    if position.difference is not None:
        extra["difference"] = position.difference
    return PositionRecord(
        key=position_key(source, partition, connector),
        value=utf8_json({"offset": position.next_source - 1}),
        headers=((HEADER, utf8_json(extra)),),
    )


def alias_of_position(record: PositionRecord, connector: str = SOURCE_CONNECTOR) -> Alias | None:
    """The alias of the source in the key of a position of this connector; None for any other record."""
    try:
        name, where = json.loads(record.key)
        alias = where["cluster"]
    except MALFORMED:
        return None
    return Alias(alias) if name == connector and isinstance(alias, str) else None


def decode_position(
    source: Alias, record: PositionRecord, connector: str = SOURCE_CONNECTOR
) -> tuple[TopicPartition, Position | None] | None:
    """The partition and position of a record of the positions topic; the position is None for a deleted position.

    None for a record of another connector or source (checkpoint and heartbeat connectors share the topic).
    """
    try:
        name, where = json.loads(record.key)
        if name != connector or where["cluster"] != source:
            return None
        partition = TopicPartition(TopicName(str(where["topic"])), int(where["partition"]))
        if record.value is None:
            return partition, None
        offset = json.loads(record.value)["offset"]
    except MALFORMED:
        return None
    if not isinstance(offset, int):
        return None
    extra = _extra(record)
    if offset < 0 and extra.get("target") is None:
        # A negative offset means "nothing copied" to MirrorMaker 2 (Kafka class MirrorSourceTask.isUncommitted).
        return partition, None
    return partition, Position(
        next_source=SourceOffset(offset + 1),
        next_target=extra.get("target"),
        leader_epoch=extra.get("epoch", -1),
        topic_id=extra.get("topic_id"),
        remote_topic_id=extra.get("remote_topic_id"),
        # Earlier versions called the field "life".
        generation=extra.get("generation", extra.get("life", 0)),
        remote_topic=extra.get("remote_topic"),
        writer=_writer(extra.get("producer")),
        kept_from=extra.get("kept_from"),
        difference=extra.get("difference"),
    )


def _writer(found: object) -> Writer | None:
    """The writer in a header; None in the headers of older versions."""
    if isinstance(found, list) and len(found) == 3 and all(isinstance(number, int) for number in found):
        return Writer(*found)
    return None


def _extra(record: PositionRecord) -> dict[str, Any]:
    for name, value in record.headers:
        if name == HEADER:
            return object_of(value)
    return {}
