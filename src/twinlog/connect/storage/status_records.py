"""The records of the status topic, as a Connect worker writes them (Kafka class KafkaStatusBackingStore)."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.connect.storage.config_records import StoredRecord, UnreadableRecord
from twinlog.connect.storage.schemaless_json import load, number, optional_text, text
from twinlog.connectors.model import ConnectorName, ConnectorState, Status, TaskId
from twinlog.model.compact_json import utf8_json

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
            # A topic's name never has a colon.
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
        raise ValueError(f"topic is no JSON object but {type(fields).__name__}")
    return ActiveTopic(number(fields, "task"), number(fields, "discoverTimestamp"))
