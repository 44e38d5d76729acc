"""The stored offsets of a standalone worker's connectors: in a file, as in Connect, and on the target.

The positions in the topic on the target count. A copier stores its positions there within half a second, with fields
that a file of Connect's lacks, and positions survive a kill. The file is a copy of the topic for the next program. When
another program, like Kafka's own worker, wrote the file last, its offsets go into the topic before a connector begins.
When the last writer is unknown, the further offset counts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.config.connector import ConnectorFlow
from twinlog.connect.storage import offset_records
from twinlog.connect.storage.config_records import StoredRecord, UnreadableRecord
from twinlog.connect.storage.offset_file import KEY, LastWriter, OffsetFile
from twinlog.connect.storage.offset_records import OffsetRecord
from twinlog.connect.storage.record_log import StateTopic
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.retry import CONNECTOR_POSITIONS
from twinlog.mirror.topics.internal_topics import positions
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import StorageTopic
from twinlog.worker.connectors.model import ConnectorName, OffsetPart, StoredOffset

log = logging.getLogger(__name__)

STOP_S = 5.0
SHORTEST_S = 0.1
_SOURCE = frozenset(offset_records.SOURCE_FIELDS)


@dataclass(slots=True)
class _ConnectorPositions:
    """The positions of a source connector on its target."""

    settings: FlowSettings
    admin: ClusterAdmin
    topic: StateTopic[OffsetRecord]
    merged: bool = False
    """Whether the topic also has the offsets of the file."""
    merging: threading.Thread | None = None
    refused: RefusedError | None = None
    tried_at: float = LONG_AGO


class FileOffsets:
    """A log of offset records for `GroupState`; may be used from several threads.

    `flows()` are the connectors of the worker. A thread of its own writes the file every `flush_s` seconds, between
    `start` and `stop`.
    """

    def __init__(
        self,
        file: OffsetFile,
        flows: Callable[[], Iterable[ConnectorFlow]],
        flush_s: float,
        clock: Clock = SYSTEM,
        connect: Connect = ClusterAdmin,
    ) -> None:
        self._file = file
        self._flows = flows
        self._flush_s = max(flush_s, SHORTEST_S)
        self._clock = clock
        self._connect = connect
        self._lock = threading.RLock()
        self._content = dict(file.content)
        self._news = [found for pair in self._content.items() if (found := _decoded(*pair)) is not None]
        self._unread = {found.connector for found in self._news}
        """Connectors whose offsets in the file have still to be compared with their topic."""
        self._stored: dict[ConnectorName, _ConnectorPositions] = {}
        self._logged = LogOnce(clock)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="offset file", daemon=True)

    def start(self) -> None:
        """Begin to write the file now and then."""
        self._thread.start()

    def stop(self) -> None:
        """Write the file for the last time, and release it; all copiers have ended before."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
        for stored in list(self._stored.values()):
            stored.admin.close()
        self._file.close()

    def may_begin(self, flow: ConnectorFlow) -> bool:
        """Whether a connector may begin: the topic with its positions also has the positions of the file.

        Until then a thread tries to write them there. Raises RefusedError when each further try would fail.
        """
        if flow.kind != "source":
            return True
        if not self._lock.acquire(blocking=False):
            # The thread that holds the lock may be waiting for a cluster.
            return False
        try:
            stored = self._of(flow)
            if stored.refused is not None:
                refused, stored.refused = stored.refused, None
                raise refused
            if not stored.merged:
                self._merge_soon(stored)
            return stored.merged
        finally:
            self._lock.release()

    # The methods of a log of records.

    topic_id: object = None

    def ensure(self) -> None:
        """Do nothing: the file exists, and a topic is created with its connector."""

    def read(self) -> list[OffsetRecord]:
        """The offsets that were stored since the last call."""
        with self._lock:
            for flow in self._sources():
                self._take(self._merged(self._of(flow)))
            news, self._news = self._news, []
            return news

    def append(self, records: Iterable[StoredRecord]) -> None:
        """Store offsets of connectors in the file; positions of source connectors also go to the target.

        Raises RefusedError, before any change, for a source connector with an unusable configuration.
        """
        flows = {flow.name: flow for flow in self._sources()}
        records = list(records)
        for found in (_decoded(*record) for record in records):
            if found is not None and found.partition.keys() == _SOURCE and found.connector not in flows:
                raise RefusedError(
                    f"connector {found.connector}: its positions on the target are reachable only with a valid "
                    "configuration; fix the configuration first",
                    message_id="TW-WORKER-22",
                )
        with self._lock:
            for key, value in records:
                found = _decoded(key, value)
                flow = None if found is None else flows.get(found.connector)
                if flow is not None:
                    self._merged(self._of(flow)).topic.append([(key, value)])
                self._put(key, value)
            self._save()

    def append_and_read(self, records: Iterable[StoredRecord]) -> list[OffsetRecord]:
        """Append `records`, then read."""
        self.append(records)
        return self.read()

    # Copying between the file and the topics.

    def _sources(self) -> list[ConnectorFlow]:
        return [flow for flow in self._flows() if flow.kind == "source"]

    def _of(self, flow: ConnectorFlow) -> _ConnectorPositions:
        name, settings = ConnectorName(flow.name), flow.settings
        found = self._stored.get(name)
        if found is not None and _place(found.settings) == _place(settings):
            return found
        if found is not None:
            found.admin.close()
        made = positions(settings).new()
        topic = StorageTopic(made.name, made.partitions, made.replication_factor, tuple(made.configs.items()))
        admin = self._connect(settings.target, settings.target_admin.client)
        kept = StateTopic(admin, topic, KEY, offset_records.decode, last_only=True)
        found = _ConnectorPositions(settings, admin, kept)
        self._stored[name] = found
        return found

    def _merge_soon(self, stored: _ConnectorPositions) -> None:
        running = stored.merging is not None and stored.merging.is_alive()
        if running or self._clock.monotonic() - stored.tried_at < CONNECTOR_POSITIONS.first_s:
            return
        stored.tried_at = self._clock.monotonic()
        name = f"offsets {stored.settings.connector_name}"
        stored.merging = threading.Thread(target=self._merge, args=[stored], name=name, daemon=True)
        stored.merging.start()

    def _merge(self, stored: _ConnectorPositions) -> None:
        name = stored.settings.connector_name
        try:
            with self._lock:
                self._merged(stored)
        except RefusedError as error:
            stored.refused = error
        except ClusterError as error:
            if self._logged.is_new((name, str(error)), AGAIN_S):
                log.warning(
                    "TW-WORKER-15: connector %s: its positions cannot be read yet, trying again: %s", name, error
                )
        except (RuntimeError, OSError) as error:
            log.debug("connector %s: its positions are read later: %s", name, error)

    def _merged(self, stored: _ConnectorPositions) -> _ConnectorPositions:
        """Put the offsets of the file into the topic as far as necessary. Raises ClusterError."""
        if stored.merged:
            return stored
        if not stored.admin.client.connected:
            stored.admin.connect()
        stored.topic.ensure()
        name = ConnectorName(stored.settings.connector_name)
        there: dict[bytes, bytes | None] = {}
        for record in stored.topic.read():
            if record.connector == name:
                key, value = _encoded(record)
                there[key] = value
        ours = {
            key: value
            for key, value in self._content.items()
            if (found := _decoded(key, value)) is not None and found.connector == name
        }
        wins = name in self._unread
        missing = {key: value for key, value in ours.items() if wins and self._goes_first(key, value, there)}
        if missing:
            stored.topic.append(list(missing.items()))
            log.info("connector %s: %d positions are those of %s", name, len(missing), self._file.path)
        for key, value in there.items():
            if key not in missing:
                self._put(key, value)
        self._unread.discard(name)
        stored.merged = True
        return stored

    def _goes_first(self, key: bytes, value: bytes | None, there: dict[bytes, bytes | None]) -> bool:
        """Whether the file's offset replaces the topic's offset."""
        if there.get(key) == value:
            return False
        if self._file.written is LastWriter.ELSEWHERE:
            return True
        # Both offsets are positions of copied records: the further position counts.
        return self._file.written is LastWriter.UNKNOWN and _reached(value) > _reached(there.get(key))

    def _take(self, stored: _ConnectorPositions) -> None:
        """Apply the positions that were stored on the target since the last call."""
        for record in stored.topic.read():
            if record.connector == stored.settings.connector_name:
                self._put(*_encoded(record))

    def _put(self, key: bytes, value: bytes | None) -> None:
        if key in self._content and self._content[key] == value:
            return
        self._content[key] = value
        found = _decoded(key, value)
        if found is not None:
            self._news.append(found)

    def _keep(self) -> None:
        while not self._clock.wait(self._stopping, self._flush_s):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        """Write the changes into the file; connectors whose target is unreachable have to wait."""
        names = set()
        for flow in self._sources():
            names.add(flow.name)
            try:
                with self._lock:
                    stored = self._of(flow)
                    if stored.merged:
                        self._take(stored)
            except (ClusterError, RuntimeError, OSError) as error:
                log.debug("connector %s: its positions come into the file later: %s", flow.name, error)
        with self._lock:
            for name in self._stored.keys() - names:
                self._stored.pop(name).admin.close()
            self._save()

    def _save(self) -> None:
        try:
            self._file.write_content(self._content)
        except OSError as error:
            if self._logged.is_new("save", AGAIN_S):
                log.warning(
                    "TW-WORKER-18: %s cannot be written: %s; positions are on the targets all the same, but a worker "
                    "of Kafka's would look for them in the file",
                    self._file.path,
                    error.strerror,
                )


def _place(settings: FlowSettings) -> tuple[object, ...]:
    """The place of a connector's positions: cluster and topic."""
    return settings.target, settings.target_admin.client, settings.positions_topic


def _decoded(key: bytes, value: bytes | None) -> OffsetRecord | None:
    found = offset_records.decode(key, value)
    return None if isinstance(found, UnreadableRecord) else found


def _encoded(record: OffsetRecord) -> StoredRecord:
    return offset_records.encode(record.connector, StoredOffset(record.partition, record.offset))


def _reached(value: bytes | None) -> int:
    """The offset in the value of a record; -1 for a missing offset."""
    found = None if value is None else offset_records.decode(b'["",{}]', value)
    offset: OffsetPart | None = found.offset if isinstance(found, OffsetRecord) else None
    number = None if offset is None else offset.get("offset")
    return number if isinstance(number, int) else -1
