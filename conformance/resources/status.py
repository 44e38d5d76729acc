"""`/status` and `/tasks`: which tasks there are, where they run, and what failed."""

from __future__ import annotations

from conformance.call import Call, answered, connector_is
from conformance.mirrors import checkpoint, heartbeat, source
from conformance.resources.arrangements import PLAIN
from conformance.stage import Resource

NO_LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
"""Without a JAAS entry no client can be made with it."""

STATUS = Resource(
    "status",
    PLAIN,
    (
        Call("unknown", "GET /connectors/nobody/status"),
        Call("tasks of unknown", "GET /connectors/nobody/tasks"),
        Call("task of unknown", "GET /connectors/nobody/tasks/0/status"),
        Call("all configs of unknown", "GET /connectors/nobody/tasks-config"),
        Call("create a heartbeat", "PUT /connectors/state-beat/config", heartbeat()),
        Call("heartbeat runs", "GET /connectors/state-beat/status", until=connector_is("RUNNING", 1)),
        Call("head of status", "HEAD /connectors/state-beat/status"),
        Call("heartbeat's tasks", "GET /connectors/state-beat/tasks"),
        Call("heartbeat's task", "GET /connectors/state-beat/tasks/0/status"),
        Call("task beyond the last", "GET /connectors/state-beat/tasks/1/status"),
        Call("task below the first", "GET /connectors/state-beat/tasks/-1/status"),
        Call("task without a number", "GET /connectors/state-beat/tasks/x/status"),
        Call("task of too large a number", "GET /connectors/state-beat/tasks/99999999999/status"),
        Call("task itself", "GET /connectors/state-beat/tasks/0"),
        Call("task's config", "GET /connectors/state-beat/tasks/0/config"),
        Call("all configs", "GET /connectors/state-beat/tasks-config"),
        Call(
            "create a silent heartbeat",
            "PUT /connectors/state-silent/config",
            heartbeat(emit_heartbeats_enabled="false"),
        ),
        Call("silent runs", "GET /connectors/state-silent/status", until=connector_is("RUNNING", 0)),
        Call("silent's tasks", "GET /connectors/state-silent/tasks"),
        Call("create a disabled one", "PUT /connectors/state-off/config", heartbeat(enabled="false")),
        Call("disabled runs", "GET /connectors/state-off/status", until=connector_is("RUNNING", 1)),
        Call("create a source", "PUT /connectors/state-source/config", source()),
        Call("source runs", "GET /connectors/state-source/status", until=connector_is("RUNNING", 2)),
        Call("source", "GET /connectors/state-source"),
        Call("source's tasks", "GET /connectors/state-source/tasks"),
        Call("source's second task", "GET /connectors/state-source/tasks/1/status"),
        Call("create a source of nothing", "PUT /connectors/state-nothing/config", source(topics="absent")),
        Call("source of nothing runs", "GET /connectors/state-nothing/status", until=connector_is("RUNNING", 0)),
        Call("create checkpoints", "PUT /connectors/state-points/config", checkpoint()),
        Call("checkpoints run", "GET /connectors/state-points/status", until=connector_is("RUNNING", 1)),
        Call("checkpoints' tasks", "GET /connectors/state-points/tasks"),
        Call("create checkpoints of nobody", "PUT /connectors/state-nobody/config", checkpoint(groups="nobody")),
        Call("checkpoints of nobody run", "GET /connectors/state-nobody/status", until=connector_is("RUNNING", 0)),
        Call(
            "create one whose tasks fail",
            "PUT /connectors/state-task-fails/config",
            heartbeat() | {f"producer.override.{key}": value for key, value in NO_LOGIN.items()},
        ),
        Call("task failed", "GET /connectors/state-task-fails/status", until=connector_is("RUNNING", 1, "FAILED")),
        Call("failed task", "GET /connectors/state-task-fails/tasks/0/status"),
        Call(
            "create one that fails",
            "PUT /connectors/state-fails/config",
            heartbeat() | {f"target.cluster.{key}": value for key, value in NO_LOGIN.items()},
        ),
        Call("failed", "GET /connectors/state-fails/status", until=connector_is("FAILED", 0)),
        Call("failed has no tasks", "GET /connectors/state-fails/tasks"),
        Call("failed can be read", "GET /connectors/state-fails"),
        Call("mend it", "PUT /connectors/state-fails/config", heartbeat()),
        Call("mended runs", "GET /connectors/state-fails/status", until=connector_is("RUNNING", 1)),
        Call("delete it", "DELETE /connectors/state-fails"),
        Call("deleted has no status", "GET /connectors/state-fails/status", until=answered(404)),
        Call("deleted has no tasks", "GET /connectors/state-fails/tasks"),
    ),
)
