"""What the positions topic says, read on the driver: the last position of each source partition."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from twinlog.kafka.admin import ClusterAdmin
from twinlog.kafka.tail import TopicTail
from twinlog.offsets.positions import Position, PositionRecord, decode_position
from twinlog.settings import FlowSettings
from twinlog.types import TopicName, TopicPartition


class PositionStore:
    """Positions of one flow; reads the topic once and then only what was added."""

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._settings = settings
        self._tail = TopicTail(target, TopicName(settings.positions_topic), committed=True)
        self._positions: dict[TopicPartition, Position] = {}
        self._lock = threading.Lock()

    def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Positions of those partitions that have one, as they are stored now. Raises ClusterError."""
        with self._lock:
            self._update()
            return {part: self._positions[part] for part in partitions if part in self._positions}

    def read_all(self) -> dict[TopicPartition, Position]:
        """Positions of all partitions that have one, as they are stored now. Raises ClusterError."""
        with self._lock:
            self._update()
            return dict(self._positions)

    def _update(self) -> None:
        for _, record in self._tail.read():
            if record.key is None:
                continue
            headers = tuple((name, value or b"") for name, value in record.headers)
            decoded = decode_position(
                self._settings.source,
                PositionRecord(record.key, record.value, headers),
                self._settings.connector_name,
            )
            if decoded is None:
                continue
            partition, position = decoded
            if position is None:
                self._positions.pop(partition, None)
            else:
                self._positions[partition] = position
