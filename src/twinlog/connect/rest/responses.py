"""Response bodies as JSON, in the shapes of Kafka's `connect.runtime.rest.entities`, fields in the same order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from twinlog.worker.connectors.model import (
    ConnectorInfo,
    ConnectorStatus,
    KeyDefinition,
    KeyValue,
    PluginInfo,
    Status,
    StoredOffset,
    TaskId,
    Validation,
)

Json = Any
"""A value that `json` can write."""

UNDEFINED = "undefined"
"""The version of an unversioned plugin; Connect answers null for a state with a missing version."""


def json_response(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with a JSON body."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    # A text with a lone surrogate, which is impossible in a topic's name, gets a replacement character, and the request
    # succeeds.
    return written(text.encode("utf-8", errors="replace"), status, headers)


def written(content: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with a body that is JSON already."""
    return Response(content, status, headers, media_type="application/json")


def empty(status: int) -> Response:
    """A response with an empty body."""
    return Response(status_code=status)


def error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """The body of every error."""
    return json_response({"error_code": status, "message": message}, status, headers)


def connector(info: ConnectorInfo) -> Json:
    """Kafka class ConnectorInfo."""
    return {
        "name": info.name,
        "config": dict(info.config),
        "tasks": [task_id(task) for task in info.tasks],
        "type": info.kind,
    }


def connector_status(status: ConnectorStatus) -> Json:
    """Kafka class ConnectorStateInfo; tasks in the order of their numbers."""
    return {
        "name": status.name,
        "connector": _state(status.connector),
        "tasks": [task_status(number, status.tasks[number]) for number in sorted(status.tasks)],
        "type": status.kind,
    }


def task_status(number: int, status: Status) -> Json:
    """Kafka class TaskState."""
    return {"id": number, **_state(status)}


def _state(status: Status) -> Json:
    state: dict[str, str | None] = {"state": status.state.value, "worker_id": status.worker_id}
    if status.trace:
        state["trace"] = status.trace
    if status.version != UNDEFINED:
        state["version"] = status.version
    return state


def task_id(task: TaskId) -> Json:
    """Kafka class ConnectorTaskId."""
    return {"connector": task.connector, "task": task.task}


def offsets(stored: Sequence[StoredOffset]) -> Json:
    """Kafka class ConnectorOffsets."""
    return {
        "offsets": [
            {"partition": dict(one.partition), "offset": None if one.offset is None else dict(one.offset)}
            for one in stored
        ]
    }


def plugin(found: PluginInfo) -> Json:
    """Kafka class PluginInfo."""
    described = {"class": found.name, "type": found.kind}
    if found.version:
        described["version"] = found.version
    return described


def key(definition: KeyDefinition) -> Json:
    """Kafka class ConfigKeyInfo.

    `order` is the field's name up to Kafka 4.1, which kafka-ui reads; `order_in_group` is the later name.
    """
    return {
        "name": definition.name,
        "type": definition.type,
        "required": definition.required,
        "default_value": definition.default_value,
        "importance": definition.importance,
        "documentation": definition.documentation,
        "group": definition.group,
        "order": definition.order,
        "order_in_group": definition.order,
        "width": definition.width,
        "display_name": definition.display_name,
        "dependents": list(definition.dependents),
    }


def validation(result: Validation) -> Json:
    """Kafka class ConfigInfos."""
    return {
        "name": result.name,
        "error_count": result.error_count,
        "groups": list(result.groups),
        "configs": [
            {"definition": None if definition is None else key(definition), "value": _value(value)}
            for definition, value in result.configs
        ],
    }


def _value(value: KeyValue) -> Json:
    return {
        "name": value.name,
        "value": value.value,
        "recommended_values": list(value.recommended_values),
        "errors": list(value.errors),
        "visible": value.visible,
    }
