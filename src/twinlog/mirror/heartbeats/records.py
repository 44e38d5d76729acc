"""Heartbeats: records that show that a flow is alive, and that further flows mirror, in MirrorMaker 2's bytes."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.mirror.offsets.fields import INT16, INT64, FieldError, FieldReader, string
from twinlog.model.types import Alias

VERSION = 0


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
