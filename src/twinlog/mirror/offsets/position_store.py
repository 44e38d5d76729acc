"""Reads the positions topic on the driver: the last position of each source partition.

A flow with a topic of its own also reads the topic that it shared before (Connect class ConnectorOffsetBackingStore).
So the flow continues at a shared position if its own topic lacks the position.
"""

from __future__ import annotations

import threading
import uuid
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import KeptRecord, LastRecords, taken
from twinlog.kafka.record.records import Record
from twinlog.mirror.offsets.positions import Position, PositionRecord, alias_of_position, decode_position
from twinlog.mirror.offsets.starts import FirstStart, StoredStarts, TopicStart, decode_start
from twinlog.model.topics import Topic
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings


class ChangedPositions(Protocol):
    """Reads how far source partitions are copied."""

    def read_changed(self) -> dict[TopicPartition, Position | None]:
        """Positions that were stored or deleted since the last call. Raises ClusterError."""


class StoredPositions(Protocol):
    """Has the stored positions of a flow."""

    def read(self, partitions: Iterable[TopicPartition], /) -> dict[TopicPartition, Position]:
        """The stored positions of these partitions; missing positions are left out. Raises ClusterError."""

    def read_all(self) -> dict[TopicPartition, Position]:
        """The stored positions of all partitions; missing positions are left out. Raises ClusterError."""

    def under_other_alias(
        self, partitions: Iterable[TopicPartition], /
    ) -> dict[TopicPartition, tuple[Alias, Position]]:
        """For partitions whose position is missing: the position under another alias of the source, with that alias."""

    def starts(self) -> StoredStarts:
        """The stored decisions about the flow's first offsets, as of the last call of `read`."""


@dataclass(slots=True)
class _Topic:
    """A topic of positions and its content, None for a position that was deleted."""

    reader: TopicReader
    news: LastRecords = field(default_factory=dict)
    """Records that were read and wait for decoding: the unread rest of the topic may have newer records."""
    positions: dict[TopicPartition, Position | None] = field(default_factory=dict)
    strayed: dict[TopicPartition, tuple[Alias, Position]] = field(default_factory=dict)
    """Positions under other aliases, of a flow that keeps names."""
    first: FirstStart | None = None
    starts: dict[TopicName, TopicStart] = field(default_factory=dict)


class PositionStore:
    """Positions of a flow; the first read reads the whole topic, each later read the new records.

    Overwritten records are dropped undecoded, however many the topic has. With `optional` the topic may be missing;
    then the store is empty.
    """

    def __init__(self, settings: FlowSettings, target: ClusterAdmin, *, optional: bool = False) -> None:
        self._settings = settings
        own = TopicReader(target, TopicName(settings.positions_topic), committed=True, optional=optional)
        self._own = _Topic(own)
        earlier = settings.earlier_positions_topic
        self._earlier: _Topic | None = None
        if earlier not in (None, settings.positions_topic):
            self._earlier = _Topic(TopicReader(target, TopicName(earlier), committed=True, optional=True))
        self._look_at_earlier = True
        self._changed: set[TopicPartition] = set()
        """Partitions with new positions since the last call of `read_changed`."""
        self._lock = threading.Lock()

    def set_cluster(self, target: ClusterAdmin) -> None:
        """Continue over new connections to the target; all reads must have ended."""
        for topic in (self._own, self._earlier):
            if topic is not None:
                topic.reader.set_cluster(target)

    def look_again(self) -> None:
        """Read the earlier topic again: until now another process may have written to it."""
        self._look_at_earlier = True

    def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """The stored positions of these partitions; missing positions are left out. Raises ClusterError."""
        with self._lock:
            known = self._update()
            return {part: position for part in partitions if (position := known.get(part)) is not None}

    def under_other_alias(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[Alias, Position]]:
        """See `StoredPositions`; only for a flow that keeps names, so that both aliases lead to the same remote topic.

        Raises ClusterError.
        """
        with self._lock:
            known = self._update()
            topics = [topic.strayed for topic in (self._own, self._earlier) if topic is not None]
            strayed = ChainMap(*topics)
            return {part: strayed[part] for part in partitions if known.get(part) is None and part in strayed}

    def read_all(self) -> dict[TopicPartition, Position]:
        """The stored positions of all partitions; missing positions are left out. Raises ClusterError."""
        with self._lock:
            known = self._update()
            return {part: position for part, position in dict(known).items() if position is not None}

    def starts(self) -> StoredStarts:
        """The stored decisions about the flow's first offsets, as of the last read of positions."""
        with self._lock:
            topics = [self._own] if self._earlier is None else [self._earlier, self._own]
            starts = {name: start for topic in topics for name, start in topic.starts.items()}
            return StoredStarts(next((topic.first for topic in reversed(topics) if topic.first), None), starts)

    def read_changed(self) -> dict[TopicPartition, Position | None]:
        """Positions that were stored or deleted since the last call. Raises ClusterError."""
        with self._lock:
            known = self._update()
            changed, self._changed = self._changed, set()
            return {part: known.get(part) for part in changed}

    def _update(self) -> Mapping[TopicPartition, Position | None]:
        if self._earlier is not None and self._look_at_earlier:
            self._look_at_earlier = False
            try:
                self._take(self._earlier)
            except BaseException:
                self._look_at_earlier = True
                raise
        self._take(self._own)
        if self._earlier is None:
            return self._own.positions
        return ChainMap(self._own.positions, self._earlier.positions)

    def _take(self, topic: _Topic) -> None:
        topic.reader.read_last(topic.news)
        for _, record in taken(topic.news, KeptRecord.decode):
            headers = tuple((name, value or b"") for name, value in record.headers)
            stored = PositionRecord(record.key or b"", record.value, headers)
            decoded = decode_position(self._settings.source_name, stored, self._settings.connector_name)
            if decoded is not None:
                partition, position = decoded
                topic.positions[partition] = position
                self._changed.add(partition)
            elif not self._take_start(topic, record) and self._settings.keeps_names:
                self._take_strayed(topic, stored)

    def _take_strayed(self, topic: _Topic, stored: PositionRecord) -> None:
        connector = self._settings.connector_name
        alias = alias_of_position(stored, connector)
        decoded = None if alias is None else decode_position(alias, stored, connector)
        if alias is None or decoded is None:
            return
        partition, position = decoded
        if position is None:
            topic.strayed.pop(partition, None)
        else:
            topic.strayed[partition] = alias, position

    def _take_start(self, topic: _Topic, record: Record) -> bool:
        """Take a record about the flow's first offsets; returns whether the record is of this kind."""
        found = decode_start(self._settings.source_name, record.key, record.value, self._settings.connector_name)
        match found:
            case None, start:
                topic.first = start if isinstance(start, FirstStart) else None
            case name, TopicStart() as start:
                topic.starts[name] = start
            case name, _:
                topic.starts.pop(name, None)
            case _:
                return False
        return True


class PositionsOfAll:
    """Positions of several flows from the same source to the same target; each flow copies its own topics."""

    def __init__(self, flows: Sequence[FlowSettings], target: ClusterAdmin) -> None:
        self._stores = [PositionStore(flow, target) for flow in flows]

    def read_changed(self) -> dict[TopicPartition, Position | None]:
        """The changed positions of all flows.

        For a partition that moved from a flow to another flow, the further position counts.
        """
        found: dict[TopicPartition, Position | None] = {}
        for store in self._stores:
            for partition, position in store.read_changed().items():
                before = found.get(partition)
                if before is None or (position is not None and position.next_source > before.next_source):
                    found[partition] = position
        return found


def copied_topics(positions: Mapping[TopicPartition, Position]) -> list[Topic]:
    """The source topics with stored positions, as far as the positions know: the flow has copied these topics.

    Topics whose positions lack an id are left out, as positions by MirrorMaker 2: a broker refuses the name of a hidden
    topic and of a topic that was deleted long ago in the same way, and only the id tells these two apart.
    """
    counts: dict[TopicName, int] = {}
    ids: dict[TopicName, uuid.UUID] = {}
    for part, position in positions.items():
        counts[part.topic] = max(counts.get(part.topic, 0), part.partition + 1)
        if position.topic_id is not None:
            with suppress(ValueError):
                ids[part.topic] = uuid.UUID(position.topic_id)
    return [Topic(name, counts[name], topic_id) for name, topic_id in ids.items()]
