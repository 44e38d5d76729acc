"""What workers ask of each other: signed, and refused to everybody else."""

from __future__ import annotations

from conformance.call import Call, connector_is
from conformance.mirrors import heartbeat
from conformance.resources.arrangements import PLAIN
from conformance.stage import Resource

TASKS = "POST /connectors/in-beat/tasks"
FENCE = "PUT /connectors/in-beat/fence"
ALGORITHM = "X-Connect-Request-Signature-Algorithm"
SIGNATURE = "X-Connect-Authorization"


INTERNAL = Resource(
    "internal",
    PLAIN,
    (
        Call("create", "PUT /connectors/in-beat/config", heartbeat()),
        Call("runs", "GET /connectors/in-beat/status", until=connector_is("RUNNING", 1)),
        Call("tasks unsigned", TASKS, [{"task.class": "x"}]),
        Call("tasks with a signature alone", TASKS, [], headers={SIGNATURE: "YWJj"}),
        Call("tasks with an algorithm alone", TASKS, [], headers={ALGORITHM: "HmacSHA256"}),
        Call("tasks of an unknown algorithm", TASKS, [], headers={SIGNATURE: "YWJj", ALGORITHM: "HmacNope"}),
        Call("tasks of another algorithm", TASKS, [], headers={SIGNATURE: "YWJj", ALGORITHM: "HmacSHA1"}),
        Call("tasks signed by nobody", TASKS, [], headers={SIGNATURE: "YWJj", ALGORITHM: "HmacSHA256"}),
        Call("tasks with a signature that is none", TASKS, [], headers={SIGNATURE: "%%%", ALGORITHM: "HmacSHA256"}),
        Call("tasks malformed", TASKS, b"[", headers={SIGNATURE: "YWJj", ALGORITHM: "HmacSHA256"}),
        Call("tasks of unknown", "POST /connectors/nobody/tasks", []),
        Call("tasks in a form", TASKS, b"a=b", headers={"Content-Type": "application/x-www-form-urlencoded"}),
        Call("fence unsigned", FENCE),
        Call("fence signed by nobody", FENCE, headers={SIGNATURE: "YWJj", ALGORITHM: "HmacSHA256"}),
        Call("fence with a body", FENCE, {"a": 1}),
        Call("fence by post", "POST /connectors/in-beat/fence"),
        Call("options of fence", "OPTIONS /connectors/in-beat/fence"),
        Call("is untouched", "GET /connectors/in-beat/tasks"),
    ),
)
