"""The records of the config topic, byte for byte as a Connect worker writes them (Kafka class KafkaConfigBackingStore).

The topic has a single partition: the order of its records counts.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from twinlog.model.compact_json import utf8_json
from twinlog.worker.connectors.model import Config, ConnectorName, RestartRequest, TargetState, TaskId

StoredRecord = tuple[bytes, bytes | None]
"""Key and value of a record; a value of None deletes."""

CONNECTOR, TARGET_STATE, TASK, COMMIT = "connector-", "target-state-", "task-", "commit-"
FENCING, SESSION_KEY, RESTART, LOGGER = "tasks-fencing-", "session-key", "restart-connector-", "logger-cluster-"


def load(data: bytes) -> Mapping[str, object]:
    """A JSON object. Raises ValueError for other content, and for an object that is wrapped with its schema.

    A worker since Kafka 3.0 also refuses an object with its schema.
    """
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("must be a JSON object, and is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"must be a JSON object, and is {type(value).__name__}")
    if value.keys() == {"schema", "payload"}:
        raise ValueError(
            "it holds its schema too, as written with internal.value.converter.schemas.enable=true before Kafka 3.0; "
            "submit the connector's configuration again"
        )
    return value


def text(fields: Mapping[str, object], name: str) -> str:
    """A field that holds a string. Raises ValueError for another value."""
    value = fields.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string, and is {type(value).__name__}")
    return value


def optional_text(fields: Mapping[str, object], name: str) -> str | None:
    """A field that holds a string, or is null or missing. Raises ValueError for another value."""
    return None if fields.get(name) is None else text(fields, name)


def number(fields: Mapping[str, object], name: str) -> int:
    """A field that holds an integer. Raises ValueError for another value."""
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer, and is {type(value).__name__}")
    return value


def flag(fields: Mapping[str, object], name: str, *, default: bool) -> bool:
    """A field that holds true or false; another value counts as the default."""
    value = fields.get(name)
    return value if isinstance(value, bool) else default


def strings(fields: Mapping[str, object], name: str) -> dict[str, str]:
    """A field that holds an object of strings; nulls are left out. Raises ValueError for another value."""
    value = fields.get(name)
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a JSON object, and is {type(value).__name__}")
    for key, one in value.items():
        if one is not None and not isinstance(one, str):
            raise ValueError(f"{name}.{key} must be a string, and is {type(one).__name__}")
    return {key: one for key, one in value.items() if one is not None}


@dataclass(frozen=True, slots=True)
class ConnectorRecord:
    """A connector's configuration; None removes the connector."""

    name: ConnectorName
    config: Config | None


@dataclass(frozen=True, slots=True)
class TargetStateRecord:
    """The target state of a connector; None when the connector is removed."""

    name: ConnectorName
    state: TargetState | None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task's configuration, which counts from the next commit on."""

    task: TaskId
    config: Config


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The task configurations before this record count from here on; a connector has `tasks` of them."""

    name: ConnectorName
    tasks: int


@dataclass(frozen=True, slots=True)
class FencingRecord:
    """The producers of earlier tasks are fenced; `tasks` tasks may begin (KIP-618)."""

    name: ConnectorName
    tasks: int


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key with which workers sign requests to each other (KIP-507); `created_ms` is in milliseconds since 1970."""

    key: bytes = field(repr=False)
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """Every worker restarts its parts of a connector (KIP-745)."""

    restart: RestartRequest


@dataclass(frozen=True, slots=True)
class LoggerRecord:
    """Every worker sets the level of a logger (KIP-976)."""

    logger: str
    level: str


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record that workers are unable to read, and the reason; its value stays hidden."""

    key: str
    reason: str


ConfigRecord = (
    ConnectorRecord
    | TargetStateRecord
    | TaskRecord
    | CommitRecord
    | FencingRecord
    | SessionKey
    | RestartRecord
    | LoggerRecord
)


def encode(record: ConfigRecord) -> StoredRecord:
    """A record as key and value."""
    match record:
        case ConnectorRecord(name, None):
            return _key(CONNECTOR, name), None
        case ConnectorRecord(name, config) if config is not None:
            return _key(CONNECTOR, name), utf8_json({"properties": dict(config)})
        case TargetStateRecord(name, None):
            return _key(TARGET_STATE, name), None
        case TargetStateRecord(name, state) if state is not None:
            # A worker from before KIP-875 ignores STOPPED, and pauses instead.
            old = TargetState.PAUSED if state is TargetState.STOPPED else state
            return _key(TARGET_STATE, name), utf8_json({"state": old, "state.v2": state})
        case TaskRecord(task, config):
            return _key(TASK, str(task)), utf8_json({"properties": dict(config)})
        case CommitRecord(name, tasks):
            return _key(COMMIT, name), utf8_json({"tasks": tasks})
        case FencingRecord(name, tasks):
            return _key(FENCING, name), utf8_json({"task-count": tasks})
        case SessionKey(key, algorithm, created_ms):
            fields = {"key": b64encode(key).decode(), "algorithm": algorithm, "creation-timestamp": created_ms}
            return SESSION_KEY.encode(), utf8_json(fields)
        case RestartRecord(restart):
            fields = {"include-tasks": restart.include_tasks, "only-failed": restart.only_failed}
            return _key(RESTART, restart.connector), utf8_json(fields)
        case LoggerRecord(logger, level):
            return _key(LOGGER, logger), utf8_json({"level": level})
    raise AssertionError(record)


def decode(key: bytes | None, value: bytes | None) -> ConfigRecord | UnreadableRecord | None:
    """The content of a record; None for records that a worker ignores: unknown keys, and ineffective deletions."""
    if key is None:
        return None
    try:
        name = key.decode()
    except UnicodeDecodeError:
        return None
    found = next((kind for kind in _DECODERS if name.startswith(kind)), None)
    if found is None:
        return None
    rest = name.removeprefix(found)
    if value is None:
        if found == CONNECTOR:
            return ConnectorRecord(ConnectorName(rest), None)
        return TargetStateRecord(ConnectorName(rest), None) if found == TARGET_STATE else None
    try:
        return _DECODERS[found](rest, load(value))
    except ValueError as error:
        return UnreadableRecord(name, str(error))


def _connector(name: str, fields: Mapping[str, object]) -> ConfigRecord:
    return ConnectorRecord(ConnectorName(name), strings(fields, "properties"))


def _target_state(name: str, fields: Mapping[str, object]) -> ConfigRecord:
    new = fields.get("state.v2")
    state = TargetState(new if isinstance(new, str) else text(fields, "state"))
    return TargetStateRecord(ConnectorName(name), state)


def _task(name: str, fields: Mapping[str, object]) -> ConfigRecord:
    connector, _, count = name.rpartition("-")
    if not connector or not count.isdecimal():
        raise ValueError("its key must name a connector and the number of a task")
    return TaskRecord(TaskId(ConnectorName(connector), int(count)), strings(fields, "properties"))


def _commit(name: str, fields: Mapping[str, object]) -> ConfigRecord:
    return CommitRecord(ConnectorName(name), number(fields, "tasks"))


def _fencing(name: str, fields: Mapping[str, object]) -> ConfigRecord:
    return FencingRecord(ConnectorName(name), number(fields, "task-count"))


def _session_key(_: str, fields: Mapping[str, object]) -> ConfigRecord:
    key = b64decode(text(fields, "key"), validate=True)
    return SessionKey(key, text(fields, "algorithm"), number(fields, "creation-timestamp"))


def _restart(name: str, fields: Mapping[str, object]) -> ConfigRecord:
    include_tasks = flag(fields, "include-tasks", default=False)
    return RestartRecord(RestartRequest(ConnectorName(name), include_tasks, flag(fields, "only-failed", default=False)))


def _logger(name: str, fields: Mapping[str, object]) -> ConfigRecord:
    return LoggerRecord(name, text(fields, "level"))


_DECODERS: Mapping[str, Callable[[str, Mapping[str, object]], ConfigRecord]] = {
    TARGET_STATE: _target_state,
    CONNECTOR: _connector,
    FENCING: _fencing,
    TASK: _task,
    COMMIT: _commit,
    SESSION_KEY: _session_key,
    RESTART: _restart,
    LOGGER: _logger,
}
"""The decoders by the first part of a key."""


def _key(kind: str, name: str) -> bytes:
    return f"{kind}{name}".encode()
