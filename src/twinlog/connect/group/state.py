"""The shared state of a group's workers: connectors and their states, as this worker has read them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from twinlog.connect.storage import config_records, offset_records, status_records
from twinlog.connect.storage.cluster_state import ClusterState, StateChanges
from twinlog.connect.storage.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    FencingRecord,
    LoggerRecord,
    RestartRecord,
    SessionKey,
    TargetStateRecord,
    TaskRecord,
)
from twinlog.connect.storage.offset_records import OffsetRecord, OffsetsByConnector
from twinlog.connect.storage.record_log import ClaimedLog, MemoryLog, RecordLog, StateTopic
from twinlog.connect.storage.status_records import Statuses, StatusRecord
from twinlog.errors import TopicGoneError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.settings.worker import GroupSettings
from twinlog.worker.connectors.model import Config, ConnectorName, RestartRequest, StoredOffset, TargetState, TaskId

T = TypeVar("T")

log = logging.getLogger(__name__)


Changed = Callable[[StateChanges], None]
"""Called by the reading thread for the records that came into the config topic after `read_all`."""


def state_in_topics(
    admin: ClusterAdmin, group: GroupSettings, changed: Changed, *, exactly_once: bool = False
) -> GroupState:
    """The state of a group of workers, in its three topics.

    With `exactly_once` the group's leader writes the config topic in transactions, with the transactional id of Kafka's
    leaders (KIP-618).
    """
    leader = f"connect-cluster-{group.group_id}" if exactly_once else None
    config, status, offset = group.config_storage, group.status_storage, group.offset_storage
    return GroupState(
        StateTopic[ConfigRecord](
            *(admin, config, "config.storage.topic", config_records.decode),
            factor_key="config.storage.replication.factor",
            transactional_id=leader,
        ),
        StateTopic[StatusRecord](
            admin, status, "status.storage.topic", status_records.decode, factor_key="status.storage.replication.factor"
        ),
        StateTopic[OffsetRecord](
            *(admin, offset, "offset.storage.topic", offset_records.decode),
            factor_key="offset.storage.replication.factor",
            last_only=True,
        ),
        changed,
    )


def state_alone(offsets: RecordLog[OffsetRecord], changed: Changed) -> GroupState:
    """The state of a standalone worker: `offsets` are kept elsewhere, everything else ends with the worker."""
    return GroupState(MemoryLog(config_records.decode), MemoryLog(status_records.decode), offsets, changed)


class GroupState:
    """The three logs of a group and their contents; may be used from several threads."""

    def __init__(
        self,
        configs: ClaimedLog[ConfigRecord],
        statuses: RecordLog[StatusRecord],
        offsets: RecordLog[OffsetRecord],
        changed: Changed,
    ) -> None:
        self._configs, self._statuses, self._offsets = configs, statuses, offsets
        self._changed = changed
        self._lock = threading.Lock()
        """Held for moments, while a thread reads or changes the state."""
        self._order = threading.Lock()
        """Held from reading the config topic until its records are applied, which keeps their order."""
        self._status_order = threading.Lock()
        """The same for the status topic."""
        self._offset_order = threading.Lock()
        """The same for the offset topic.

        A thread that finds no further record must wait for the thread that has read the records and applies them.
        """
        self._cluster = ClusterState()
        self._configs_of: object = None
        """The config topic that was read last."""
        self._anew: ClusterState | None = None
        """The contents of a deleted or recreated config topic, until this worker has restored its connectors."""
        self._known = Statuses()
        self._statuses_of: object = None
        """The topic from which the statuses were read."""
        self._stored = OffsetsByConnector()
        self.revision = 0
        """Grows with each change that `query_state` may show; read it before the query."""

    def ensure(self) -> None:
        """Create the missing topics. Raises RefusedError for an unusable topic, ClusterError."""
        for topic in (self._configs, self._statuses, self._offsets):
            topic.ensure()

    def read_all(self) -> None:
        """Read configurations and states for the first time; only later reads report changes."""
        with self._order:
            records = self._configs.read()
            self._configs_of = self._configs.topic_id
            with self._lock:
                self._cluster.apply_records(records)
                self.revision += 1
        self.read_statuses()

    def read(self) -> None:
        """Read the new records of other workers. Raises ClusterError, RefusedError."""
        self.read_configs()
        self.read_statuses()

    def read_configs(self) -> None:
        """Read the new configurations of other workers."""
        with self._order:
            try:
                self._take(self._configs.read())
            except TopicGoneError:
                # Brokers before Kafka 2.8 lack topic ids, and the recreated topic has the same name as the deleted
                # topic.
                self._anew = ClusterState()
                raise

    def read_statuses(self) -> None:
        """Read the new states of other workers.

        A deleted topic is recreated: each worker that runs a connector writes the connector's state again.
        """
        with self._status_order:
            try:
                self._take_statuses(self._statuses.read())
            except TopicGoneError as error:
                log.warning(
                    "TW-WORKER-06: %s any more (status.storage.topic): it is recreated, and states are written again",
                    error,
                )
                self._statuses.ensure()

    def query_state(self, question: Callable[[ClusterState, Statuses], T]) -> T:
        """Answer a question from the state as it was read; the state is locked for a moment."""
        with self._lock:
            return question(self._cluster, self._known)

    def has_connector(self, name: ConnectorName) -> bool:
        """Whether the connector exists, by the last read."""
        return self.query_state(lambda cluster, _: name in cluster.connectors)

    @property
    def claimed(self) -> bool:
        """Whether this worker may write configurations, as far as it knows."""
        return self._configs.claimed

    def claim_config_topic(self) -> None:
        """Become the only worker that writes configurations.

        Raises ClusterError, and RefusedError when the permission is missing; the worker then writes without a claim.
        """
        with self._order:
            self._configs.claim_log()

    # Only the group's leader calls these methods. All raise ClusterError and RefusedError; after an error the change
    # may be missing from the topic.

    def put(self, name: ConnectorName, config: Config, state: TargetState | None = None) -> None:
        """Store a connector's configuration, and its target state."""
        target = [] if state is None else [TargetStateRecord(name, state)]
        self._write([*target, ConnectorRecord(name, config)])

    def remove(self, name: ConnectorName) -> None:
        """Remove a connector."""
        self._write([ConnectorRecord(name, None), TargetStateRecord(name, None)])

    def set_target_state(self, name: ConnectorName, state: TargetState) -> None:
        """Store the target state of a connector."""
        self._write([TargetStateRecord(name, state)])

    def put_tasks(self, name: ConnectorName, configs: Sequence[Config]) -> None:
        """Store the configurations of all tasks of a connector as a whole."""
        self._write(_tasks(name, configs))

    def await_fencing(self, name: ConnectorName, producers: int) -> None:
        """Have a Kafka leader that takes over fence `producers` producers before its own tasks begin.

        Kafka's leader fences for tasks that were configured after the note. So the task configurations are written
        again, for any number of tasks (Kafka class DistributedHerder).
        """
        connector = self.query_state(lambda cluster, _: cluster.connectors.get(name))
        if connector is not None:
            self._write([FencingRecord(name, producers), *_tasks(name, connector.tasks)])

    def note_fenced(self, name: ConnectorName, tasks: int) -> None:
        """Note that earlier producers of a connector are fenced, and that `tasks` tasks may write now (KIP-618)."""
        self._write([FencingRecord(name, tasks)])

    @property
    def lacking(self) -> Sequence[ConnectorName]:
        """The connectors that this worker knows and that a recreated config topic lacks."""
        with self._order:
            return self._missing()

    def recreate_config_topic(self) -> Sequence[ConnectorName]:
        """Recreate a deleted config topic, and write the connectors that this worker knows and that the topic lacks.

        Connectors in the topic keep their configuration. Returns the written connectors. Raises ClusterError.
        """
        with self._order:
            self._configs.ensure()
            self._take(self._configs.read())
            names = self._missing()
            if names:
                with self._lock:
                    records = self._cluster.records(names)
                self._take(self._configs.append_and_read([config_records.encode(record) for record in records]))
            self._anew = None
            return names

    def restart(self, restart: RestartRequest) -> None:
        """Have every worker restart its parts of a connector."""
        self._write([RestartRecord(restart)])

    def set_logger_level(self, logger: str, level: str) -> None:
        """Have every worker set the level of a logger."""
        self._write([LoggerRecord(logger, level)])

    def put_session_key(self, key: SessionKey) -> None:
        """Store the key with which workers sign requests to each other."""
        self._write([key])

    def report(self, records: Sequence[StatusRecord]) -> None:
        """Store states of connectors and tasks that this worker runs."""
        if records:
            with self._status_order:
                found = self._statuses.append_and_read([status_records.encode(record) for record in records])
                self._take_statuses(found)

    def offsets(self, name: ConnectorName) -> list[StoredOffset]:
        """The present stored offsets of a connector."""
        with self._offset_order:
            records = self._offsets.read()
            with self._lock:
                for record in records:
                    self._stored.apply_record(record)
                return self._stored.get_offsets(name)

    def put_offsets(self, name: ConnectorName, offsets: Iterable[StoredOffset]) -> None:
        """Replace stored offsets of a connector; None deletes an offset."""
        self._offsets.append([offset_records.encode(name, one) for one in offsets])

    def put_all_offsets(self, offsets: Mapping[ConnectorName, Iterable[StoredOffset]]) -> None:
        """Replace stored offsets of several connectors at once; None deletes an offset."""
        self._offsets.append([offset_records.encode(name, one) for name, some in offsets.items() for one in some])

    def _write(self, records: Sequence[ConfigRecord]) -> None:
        with self._order:
            self._take(self._configs.append_and_read([config_records.encode(record) for record in records]))

    def _missing(self) -> list[ConnectorName]:
        """The connectors that a recreated config topic lacks."""
        if self._anew is None:
            return []
        there = self._anew.connectors.keys()
        with self._lock:
            return [name for name in self._cluster.connectors if name not in there]

    def _take(self, records: Sequence[ConfigRecord]) -> None:
        if self._configs.topic_id != self._configs_of:
            self._configs_of, self._anew = self._configs.topic_id, ClusterState()
        if self._anew is not None:
            self._anew.apply_records(records)
        if records:
            with self._lock:
                changes = self._cluster.apply_records(records)
                self.revision += 1
            self._changed(changes)

    def _take_statuses(self, records: Sequence[StatusRecord]) -> None:
        topic_id = self._statuses.topic_id
        if records or topic_id != self._statuses_of:
            with self._lock:
                if topic_id != self._statuses_of:
                    self._known, self._statuses_of = Statuses(), topic_id
                self._known.apply_records(records)
                self.revision += 1


def _tasks(name: ConnectorName, configs: Sequence[Config]) -> list[ConfigRecord]:
    tasks = [TaskRecord(TaskId(name, number), config) for number, config in enumerate(configs)]
    return [*tasks, CommitRecord(name, len(configs))]
