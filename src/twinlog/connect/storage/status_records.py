"""The records of the status topic, and the states of connectors and tasks built from them.

A Connect worker writes the same records (Kafka class KafkaStatusBackingStore).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twinlog.connect.storage.config_records import StoredRecord, UnreadableRecord, load, number, optional_text, text
from twinlog.model.compact_json import utf8_json
from twinlog.worker.connectors.model import ConnectorName, ConnectorState, Status, TaskId

CONNECTOR, TASK, TOPIC = "status-connector-", "status-task-", "status-topic-"
OF_CONNECTOR = ":connector-"


@dataclass(frozen=True, slots=True)
class ConnectorStatusRecord:
    """The status of a connector; None when the connector is deleted."""

    name: ConnectorName
    status: Status | None


@dataclass(frozen=True, slots=True)
class TaskStatusRecord:
    """The status of a task; None when the task is deleted."""

    task: TaskId
    status: Status | None


@dataclass(frozen=True, slots=True)
class ActiveTopic:
    """The use of a topic by a task of a connector, first at `since_ms`, in milliseconds since 1970 (KIP-558)."""

    task: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class ActiveTopicRecord:
    """A topic that a connector has used; None after a reset."""

    name: ConnectorName
    topic: str
    used: ActiveTopic | None


StatusRecord = ConnectorStatusRecord | TaskStatusRecord | ActiveTopicRecord


def encode(record: StatusRecord) -> StoredRecord:
    """A record as key and value; the state DESTROYED deletes."""
    match record:
        case ConnectorStatusRecord(name, status):
            return f"{CONNECTOR}{name}".encode(), _status_value(status)
        case TaskStatusRecord(task, status):
            return f"{TASK}{task}".encode(), _status_value(status)
        case ActiveTopicRecord(name, topic, used):
            value = None
            if used is not None:
                fields = {"name": topic, "connector": name, "task": used.task, "discoverTimestamp": used.since_ms}
                value = utf8_json({"topic": fields})
            return f"{TOPIC}{topic}{OF_CONNECTOR}{name}".encode(), value
    raise AssertionError(record)


def decode(key: bytes | None, value: bytes | None) -> StatusRecord | UnreadableRecord | None:
    """The content of a record; None for a record that a worker ignores."""
    try:
        name = (key or b"").decode()
    except UnicodeDecodeError:
        return None
    try:
        if name.startswith(CONNECTOR):
            rest = name.removeprefix(CONNECTOR)
            return ConnectorStatusRecord(ConnectorName(rest), _status(value)) if rest else None
        if name.startswith(TASK):
            connector, _, task = name.removeprefix(TASK).rpartition("-")
            if connector and task.isdecimal():
                return TaskStatusRecord(TaskId(ConnectorName(connector), int(task)), _status(value))
            return None
        if name.startswith(TOPIC):
            # Kafka forbids a colon in a topic's name.
            topic, colon, connector = name.removeprefix(TOPIC).partition(OF_CONNECTOR)
            if topic and colon and connector:
                return ActiveTopicRecord(ConnectorName(connector), topic, _active_topic(value))
    except ValueError as error:
        return UnreadableRecord(name, str(error))
    return None


def _status_value(status: Status | None) -> bytes | None:
    if status is None or status.state is ConnectorState.DESTROYED:
        return None
    fields: dict[str, object] = {
        "state": status.state,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
    }
    if status.version is not None:
        # Workers before 4.1 ignore this field.
        fields["version"] = status.version
    return utf8_json(fields)


def _status(value: bytes | None) -> Status | None:
    if value is None:
        return None
    fields = load(value)
    return Status(
        ConnectorState(text(fields, "state")),
        text(fields, "worker_id"),
        number(fields, "generation"),
        optional_text(fields, "trace"),
        optional_text(fields, "version"),
    )


def _active_topic(value: bytes | None) -> ActiveTopic | None:
    if value is None:
        return None
    fields = load(value).get("topic")
    if not isinstance(fields, dict):
        raise ValueError(f"topic must be a JSON object, and is {type(fields).__name__}")
    return ActiveTopic(number(fields, "task"), number(fields, "discoverTimestamp"))


class Statuses:
    """The states of all connectors of a group, for every worker; for use under a lock."""

    def __init__(self) -> None:
        self._connectors: dict[ConnectorName, Status] = {}
        self._tasks: dict[ConnectorName, dict[int, Status]] = {}
        self._topics: dict[ConnectorName, dict[str, ActiveTopic]] = {}

    def connector(self, name: ConnectorName) -> Status | None:
        """The state of a connector; None before the first report of a worker."""
        return self._connectors.get(name)

    def task(self, task: TaskId) -> Status | None:
        """The state of a task; None before the first report of a worker."""
        return self._tasks.get(task.connector, {}).get(task.task)

    def tasks(self, name: ConnectorName) -> dict[int, Status]:
        """The states of a connector's tasks, by number and in that order."""
        return dict(sorted(self._tasks.get(name, {}).items()))

    def active_topics(self, name: ConnectorName) -> Mapping[str, ActiveTopic]:
        """The topics that a connector has used since its last reset."""
        return dict(self._topics.get(name, {}))

    def tracked(self) -> set[ConnectorName]:
        """The connectors with active topics; removed connectors may be among them."""
        return set(self._topics)

    def known(self) -> set[ConnectorName]:
        """The connectors with a state, or with a state of a task; removed connectors may be among them."""
        return self._connectors.keys() | self._tasks.keys()

    def apply_records(self, records: Iterable[StatusRecord]) -> None:
        """Apply records in the order in which they were written."""
        for record in records:
            match record:
                case ConnectorStatusRecord(name, None):
                    # The tasks have records of their own, in other partitions. For a connector that was deleted and
                    # created again, the records of new tasks may come before this record.
                    self._connectors.pop(name, None)
                case ConnectorStatusRecord(name, status) if status is not None:
                    self._connectors[name] = status
                case TaskStatusRecord(task, status):
                    self._take_task(task, status)
                case ActiveTopicRecord(name, topic, used):
                    self._take_topic(name, topic, used)

    def _take_task(self, task: TaskId, status: Status | None) -> None:
        tasks = self._tasks.setdefault(task.connector, {})
        known = tasks.get(task.task)
        if status is None:
            tasks.pop(task.task, None)
        elif not (
            # The worker that lost a task may report the loss after the report of the task's new worker.
            status.state is ConnectorState.UNASSIGNED
            and known is not None
            and known.state is ConnectorState.RUNNING
            and known.generation >= status.generation
        ):
            tasks[task.task] = status
        if not tasks:
            del self._tasks[task.connector]

    def _take_topic(self, name: ConnectorName, topic: str, used: ActiveTopic | None) -> None:
        topics = self._topics.setdefault(name, {})
        if used is None:
            topics.pop(topic, None)
        else:
            topics[topic] = used
        if not topics:
            del self._topics[name]
