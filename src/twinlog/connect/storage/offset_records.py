"""The records of the offset topic: `["<connector>",{partition}]` and `{offset}` (Kafka class OffsetStorageWriter)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.connect.storage.config_records import StoredRecord, UnreadableRecord
from twinlog.model.compact_json import utf8_json
from twinlog.worker.connectors.model import ConnectorName, OffsetPart, StoredOffset

SOURCE_FIELDS = ("cluster", "partition", "topic")
CHECKPOINT_FIELDS = ("partition", "topic", "group")
HEARTBEAT_FIELDS = ("sourceClusterAlias", "targetClusterAlias")

_ORDERS = {frozenset(fields): fields for fields in (SOURCE_FIELDS, CHECKPOINT_FIELDS, HEARTBEAT_FIELDS)}
"""The order of the fields in Java's HashMap: a key with another order would be a different record."""


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """A connector's stored offset of a source partition, None for a deleted offset."""

    connector: ConnectorName
    partition: OffsetPart
    offset: OffsetPart | None


def encode(connector: ConnectorName, stored: StoredOffset) -> StoredRecord:
    """A stored offset as key and value, byte for byte as MirrorMaker 2 writes it."""
    order = _ORDERS.get(frozenset(stored.partition), tuple(stored.partition))
    partition = {name: stored.partition[name] for name in order}
    return utf8_json([connector, partition]), None if stored.offset is None else utf8_json(dict(stored.offset))


def decode(key: bytes | None, value: bytes | None) -> OffsetRecord | UnreadableRecord | None:
    """The content of a record; None for a record of another writer than a connector."""
    if key is None:
        return None
    try:
        name, partition = json.loads(key)
        offset = None if value is None else json.loads(value)
    except (ValueError, TypeError, RecursionError):
        return None
    if not isinstance(name, str) or not isinstance(partition, dict) or not isinstance(offset, dict | None):
        return None
    return OffsetRecord(ConnectorName(name), partition, offset)


@dataclass(slots=True)
class OffsetsByConnector:
    """The last offset of each source partition, by connector."""

    _known: dict[ConnectorName, set[str]] = field(default_factory=dict)
    _found: dict[ConnectorName, dict[str, StoredOffset]] = field(default_factory=dict)

    def apply_record(self, record: OffsetRecord) -> None:
        """Apply a record; records come in the order in which they were written."""
        offsets = self._found.setdefault(record.connector, {})
        key = _identity(record.partition)
        self._known.setdefault(record.connector, set()).add(key)
        if record.offset is None:
            offsets.pop(key, None)
        else:
            offsets[key] = StoredOffset(record.partition, record.offset)
        if not offsets:
            del self._found[record.connector]

    def lacks(self, connector: ConnectorName, partition: Mapping[str, object]) -> bool:
        """Whether the log lacks both an offset of a source partition and its deletion."""
        return _identity(partition) not in self._known.get(connector, ())

    def get_offsets(self, connector: ConnectorName) -> list[StoredOffset]:
        """The stored offsets of a connector, in the order of their partitions."""
        offsets = self._found.get(connector, {})
        return [offsets[key] for key in sorted(offsets)]


def _identity(partition: Mapping[str, object]) -> str:
    """The identity of a partition: its content in a fixed order of the fields."""
    return json.dumps(partition, sort_keys=True)
