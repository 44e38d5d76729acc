"""A standalone worker: connectors from files, and the same API without a group."""

from __future__ import annotations

from conformance.call import Call, answered, connector_is, has_tasks, holds_offsets, lists
from conformance.mirrors import heartbeat
from conformance.resources.arrangements import STANDALONE
from conformance.shapes import in_order
from conformance.stage import Resource

BEAT = "/connectors/alone"

ALONE = Resource(
    "standalone",
    STANDALONE,
    (
        Call("server info", "GET /"),
        Call("health", "GET /health"),
        Call("from files", "GET /connectors", until=lists("from-properties", "from-json"), shape=in_order),
        Call("from properties", "GET /connectors/from-properties", until=has_tasks(1)),
        Call("from JSON", "GET /connectors/from-json"),
        Call("from properties runs", "GET /connectors/from-properties/status", until=connector_is("RUNNING", 1)),
        Call("from JSON is paused", "GET /connectors/from-json/status", until=connector_is("PAUSED", 0)),
        Call("post", "POST /connectors", {"name": "alone", "config": heartbeat()}),
        Call("post again", "POST /connectors", {"name": "alone", "config": heartbeat()}),
        Call("runs", f"GET {BEAT}/status", until=connector_is("RUNNING", 1)),
        Call("tasks", f"GET {BEAT}/tasks"),
        Call("all configs of tasks", f"GET {BEAT}/tasks-config"),
        Call("put", f"PUT {BEAT}/config", heartbeat(emit_heartbeats_interval_seconds="2")),
        Call("put new", "PUT /connectors/alone-b/config", heartbeat()),
        Call("patch", f"PATCH {BEAT}/config", {"emit.heartbeats.interval.seconds": None}),
        Call("patch unknown", "PATCH /connectors/nobody/config", {}),
        Call("invalid", f"PUT {BEAT}/config", heartbeat(tasks_max="0")),
        Call("get unknown", "GET /connectors/nobody"),
        Call("status of unknown", "GET /connectors/nobody/status"),
        Call("delete unknown", "DELETE /connectors/nobody"),
        Call("pause unknown", "PUT /connectors/nobody/pause"),
        Call("restart unknown", "POST /connectors/nobody/restart"),
        Call("restart task of unknown", "POST /connectors/nobody/tasks/0/restart"),
        Call("offsets of unknown", "GET /connectors/nobody/offsets"),
        Call("restart", f"POST {BEAT}/restart"),
        Call("restart with tasks", f"POST {BEAT}/restart?includeTasks=true"),
        Call("restart task", f"POST {BEAT}/tasks/0/restart"),
        Call("pause", f"PUT {BEAT}/pause"),
        Call("is paused", f"GET {BEAT}/status", until=connector_is("PAUSED", 1)),
        Call("resume", f"PUT {BEAT}/resume"),
        Call("runs again", f"GET {BEAT}/status", until=connector_is("RUNNING", 1)),
        Call("offsets", f"GET {BEAT}/offsets", until=holds_offsets(0)),
        Call("reset while it runs", f"DELETE {BEAT}/offsets"),
        Call("stop", f"PUT {BEAT}/stop"),
        Call("is stopped", f"GET {BEAT}/status", until=connector_is("STOPPED", 0)),
        Call("reset", f"DELETE {BEAT}/offsets"),
        Call("topics", f"GET {BEAT}/topics"),
        Call("reset topics", f"PUT {BEAT}/topics/reset"),
        Call("tasks unsigned", f"POST {BEAT}/tasks", []),
        Call("fence", f"PUT {BEAT}/fence"),
        # Leaves a failed task behind that nobody configured.
        Call("restart task beyond the last", f"POST {BEAT}/tasks/3/restart"),
        Call("delete", f"DELETE {BEAT}"),
        Call("is gone", f"GET {BEAT}/status", until=answered(404)),
    ),
)
