"""What the positions topic says, read on the driver: the last position of each source partition.

A flow with a topic of its own takes what that lacks from the topic that it shared before (Connect class
ConnectorOffsetBackingStore), so that it goes on where it stood.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from twinlog.kafka.admin import ClusterAdmin
from twinlog.kafka.topic_reader import TopicReader
from twinlog.offsets.positions import Position, PositionRecord, decode_position
from twinlog.read.last import LastRecords, drained
from twinlog.settings import FlowSettings
from twinlog.types import TopicName, TopicPartition


class PositionStore:
    """Positions of one flow; reads the topic once and then only what was added.

    Of what was overwritten nothing is decoded and nothing kept, however much of it there is.
    """

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._settings = settings
        self._reader = TopicReader(target, TopicName(settings.positions_topic), committed=True)
        earlier = settings.earlier_positions_topic
        self._earlier: TopicReader | None = None
        if earlier not in (None, settings.positions_topic):
            self._earlier = TopicReader(target, TopicName(earlier), committed=True, optional=True)
        self._news: LastRecords = {}
        """What was read and not decoded yet: a topic that was not read to its end may have newer ones."""
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
        if self._earlier is not None:
            self._take(self._earlier)
            # Nobody writes positions of this flow there any more.
            self._earlier = None
        self._take(self._reader)

    def _take(self, reader: TopicReader) -> None:
        reader.read_last(self._news)
        for record in drained(self._news):
            headers = tuple((name, value or b"") for name, value in record.headers)
            decoded = decode_position(
                self._settings.source,
                PositionRecord(record.key or b"", record.value, headers),
                self._settings.connector_name,
            )
            if decoded is None:
                continue
            partition, position = decoded
            if position is None:
                self._positions.pop(partition, None)
            else:
                self._positions[partition] = position
