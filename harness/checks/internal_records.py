"""What MirrorMaker 2 writes for itself, read by the formats of KIP-382 and of Connect; shares no code with twinlog."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

from harness.consume import Record


@dataclass(frozen=True, slots=True)
class HeartbeatRecord:
    """A sign of life of a flow; `stamped_ms` is the record's own timestamp."""

    source: str
    target: str
    version: int
    timestamp_ms: int
    stamped_ms: int


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """A group's committed offset and its translation; `topic` as it is called on the target."""

    group: str
    topic: str
    partition: int
    version: int
    upstream: int
    downstream: int
    metadata: str


@dataclass(frozen=True, slots=True)
class OffsetSyncRecord:
    """Source record at `upstream` has its copy at `downstream`; `topic` as it is called on the source."""

    topic: str
    partition: int
    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True)
class PositionRecord:
    """A connector's stored offset: both as the JSON texts that Connect looks up byte by byte."""

    key: str
    value: str | None

    @property
    def place(self) -> tuple[str, int] | None:
        """Source topic and partition; None for what is not of the source connector."""
        _, where = json.loads(self.key)
        return (where["topic"], where["partition"]) if "cluster" in where else None

    @property
    def last_copied(self) -> int | None:
        """Source offset of the last record that was copied; None when the position was taken back."""
        return None if self.value is None else int(json.loads(self.value)["offset"])


def decode_heartbeat(record: Record) -> HeartbeatRecord:
    """Raises ValueError when bytes are missing or left over; so do the other decoders."""
    key, value = _Fields(record.key), _Fields(record.value)
    source, target = key.string(), key.string()
    version, timestamp = value.number(">h"), value.number(">q")
    _whole(key, value)
    return HeartbeatRecord(source, target, version, timestamp, record.timestamp)


def decode_checkpoint(record: Record) -> CheckpointRecord:
    key, value = _Fields(record.key), _Fields(record.value)
    group, topic, partition = key.string(), key.string(), key.number(">i")
    version, upstream, downstream = value.number(">h"), value.number(">q"), value.number(">q")
    metadata = value.string()
    _whole(key, value)
    return CheckpointRecord(group, topic, partition, version, upstream, downstream, metadata)


def decode_offset_sync(record: Record) -> OffsetSyncRecord:
    key, value = _Fields(record.key), _Fields(record.value)
    topic, partition = key.string(), key.number(">i")
    upstream, downstream = value.number(">q"), value.number(">q")
    _whole(key, value)
    return OffsetSyncRecord(topic, partition, upstream, downstream)


def decode_position(record: Record) -> PositionRecord:
    if record.key is None:
        raise ValueError("a position without a key")
    return PositionRecord(record.key.decode(), None if record.value is None else record.value.decode())


def _whole(*parts: _Fields) -> None:
    for part in parts:
        if part.left:
            raise ValueError(f"bytes left over: {part.left!r}")


class _Fields:
    """Big-endian fields of Kafka's schema types, read one after another."""

    def __init__(self, data: bytes | None) -> None:
        if data is None:
            raise ValueError("a key or value is missing")
        self._data = data
        self._at = 0

    def number(self, shape: str) -> int:
        size = struct.calcsize(shape)
        return int(struct.unpack(shape, self._take(size))[0])

    def string(self) -> str:
        return self._take(self.number(">h")).decode()

    @property
    def left(self) -> bytes:
        return self._data[self._at :]

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError(f"{self._data!r} is too short")
        self._at += size
        return taken
