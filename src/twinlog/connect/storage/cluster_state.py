"""The state of a group of workers, built from the records of its config topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
from twinlog.worker.connectors.model import Config, ConnectorName, RestartRequest, TargetState, TaskId


@dataclass(slots=True)
class StoredConnector:
    """A connector: its configuration, and the configurations of its tasks."""

    config: Config
    tasks: tuple[Config, ...] = ()
    applied: Config | None = None
    """The configuration that the tasks were made from; None before the first commit of tasks."""
    consistent: bool = True
    """Whether a commit found the configurations of all its tasks; compaction may have removed some."""


@dataclass(frozen=True, slots=True)
class StateChanges:
    """The changes in the records that a worker has read: connectors by name, in the order of the topic."""

    connectors: Sequence[ConnectorName] = ()
    """The connectors whose configuration or existence changed."""
    target_states: Sequence[ConnectorName] = ()
    tasks: Sequence[ConnectorName] = ()
    restarts: Sequence[RestartRequest] = ()
    loggers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _ChangeCollector:
    connectors: dict[ConnectorName, None] = field(default_factory=dict)
    target_states: dict[ConnectorName, None] = field(default_factory=dict)
    tasks: dict[ConnectorName, None] = field(default_factory=dict)
    restarts: list[RestartRequest] = field(default_factory=list)
    loggers: dict[str, str] = field(default_factory=dict)

    def changes(self) -> StateChanges:
        return StateChanges(
            tuple(self.connectors), tuple(self.target_states), tuple(self.tasks), tuple(self.restarts), self.loggers
        )


class ClusterState:
    """Connectors with their tasks, for use under a lock. It tolerates records that compaction removed, as Connect does.

    Task configurations count only from the next commit on. After a commit with missing task configurations, a connector
    has no tasks, and is inconsistent until its tasks are configured again (Kafka class KafkaConfigBackingStore).
    """

    def __init__(self) -> None:
        self.connectors: dict[ConnectorName, StoredConnector] = {}
        self.session_key: SessionKey | None = None
        self._target_states: dict[ConnectorName, TargetState] = {}
        self._uncommitted: dict[ConnectorName, dict[int, Config]] = {}
        self._fenced: dict[ConnectorName, int] = {}
        self._unfenced: set[ConnectorName] = set()

    def target_state(self, name: ConnectorName) -> TargetState:
        """The target state of a connector; STARTED when its record is missing."""
        return self._target_states.get(name, TargetState.STARTED)

    def tasks(self, name: ConnectorName) -> list[TaskId]:
        """The ids of a connector's tasks; empty for an inconsistent connector."""
        connector = self.connectors.get(name)
        if connector is None or not connector.consistent:
            return []
        return [TaskId(name, number) for number in range(len(connector.tasks))]

    def awaits_fencing(self, name: ConnectorName) -> bool:
        """Whether task configurations were committed after the last fencing of earlier tasks."""
        return name in self._unfenced

    def fenced_tasks(self, name: ConnectorName) -> int | None:
        """The number of producers in the last fencing record; None before the first fencing."""
        return self._fenced.get(name)

    def records(self, names: Iterable[ConnectorName]) -> list[ConfigRecord]:
        """The records that store `names`, as this worker knows these connectors, and the session key in a topic."""
        found: list[ConfigRecord] = [] if self.session_key is None else [self.session_key]
        for name in names:
            connector = self.connectors[name]
            if name in self._target_states:
                found.append(TargetStateRecord(name, self._target_states[name]))
            found.append(ConnectorRecord(name, connector.config))
            fencing = [FencingRecord(name, self._fenced[name])] if name in self._fenced else []
            tasks: list[ConfigRecord] = []
            if connector.consistent and connector.applied is not None:
                tasks += (TaskRecord(TaskId(name, number), config) for number, config in enumerate(connector.tasks))
                tasks.append(CommitRecord(name, len(connector.tasks)))
            # Tasks that were configured after a fencing have to be fenced again.
            found += [*fencing, *tasks] if self.awaits_fencing(name) else [*tasks, *fencing]
        return found

    def apply_records(self, records: Iterable[ConfigRecord]) -> StateChanges:
        """Apply records in the order of the topic; returns the changes that a running worker has to act on."""
        noted = _ChangeCollector()
        for record in records:
            self._take(record, noted)
        return noted.changes()

    def _take(self, record: ConfigRecord, noted: _ChangeCollector) -> None:
        match record:
            case ConnectorRecord(name, config):
                self._put(name, config)
                noted.connectors[name] = None
            case TargetStateRecord(name, state):
                self._set_target_state(name, state)
                noted.target_states[name] = None
            case TaskRecord(task, config):
                self._uncommitted.setdefault(task.connector, {})[task.task] = config
            case CommitRecord(name, tasks):
                if self._commit(name, tasks):
                    noted.tasks[name] = None
            case FencingRecord(name, tasks):
                self._fenced[name] = tasks
                self._unfenced.discard(name)
            case SessionKey():
                self.session_key = record
            case RestartRecord(restart):
                noted.restarts.append(restart)
            case LoggerRecord(logger, level):
                noted.loggers[logger] = level

    def _put(self, name: ConnectorName, config: Config | None) -> None:
        if config is None:
            self._remove(name)
        elif name in self.connectors:
            self.connectors[name].config = config
        else:
            self.connectors[name] = StoredConnector(config)

    def _set_target_state(self, name: ConnectorName, state: TargetState | None) -> None:
        if state is None:
            self._target_states.pop(name, None)
        else:
            self._target_states[name] = state

    def _commit(self, name: ConnectorName, tasks: int) -> bool:
        """Commit task configurations; returns whether the connector's tasks have changed."""
        connector = self.connectors.get(name)
        if connector is None:
            # The connector was removed, and compaction removed the records of its configuration and of its end.
            self._remove(name)
            return False
        committed = self._uncommitted.pop(name, {})
        self._unfenced.add(name)
        if any(number not in committed for number in range(tasks)):
            connector.consistent = False
            connector.tasks = ()
            return True
        connector.tasks = tuple(committed[number] for number in range(tasks))
        connector.applied = connector.config
        connector.consistent = True
        return True

    def _remove(self, name: ConnectorName) -> None:
        self.connectors.pop(name, None)
        self._uncommitted.pop(name, None)
