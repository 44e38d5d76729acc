"""`/topics` of a connector: what it has written to since it was created or reset."""

from __future__ import annotations

from conformance.call import Call, connector_is, writes
from conformance.mirrors import heartbeat, source
from conformance.resources.arrangements import EXACT, PLAIN, STRICT
from conformance.shapes import topics_in_order
from conformance.stage import Resource

TOPICS = Resource(
    "topics",
    PLAIN,
    (
        Call("unknown", "GET /connectors/nobody/topics"),
        Call("reset unknown", "PUT /connectors/nobody/topics/reset"),
        Call("create a heartbeat", "PUT /connectors/top-beat/config", heartbeat()),
        Call("heartbeats", "GET /connectors/top-beat/topics", until=writes("top-beat", "heartbeats")),
        Call("head", "HEAD /connectors/top-beat/topics"),
        Call("create a source", "PUT /connectors/top-source/config", source()),
        Call(
            "remote topic",
            "GET /connectors/top-source/topics",
            until=writes("top-source", "left.orders"),
            shape=topics_in_order,
        ),
        Call("stop the heartbeat", "PUT /connectors/top-beat/stop"),
        Call("is stopped", "GET /connectors/top-beat/status", until=connector_is("STOPPED", 0)),
        Call("reset", "PUT /connectors/top-beat/topics/reset"),
        Call("none after reset", "GET /connectors/top-beat/topics", until=writes("top-beat")),
        Call("reset again", "PUT /connectors/top-beat/topics/reset"),
        Call("reset by post", "POST /connectors/top-beat/topics/reset"),
        Call("delete topics", "DELETE /connectors/top-beat/topics"),
        Call("read of reset", "GET /connectors/top-beat/topics/reset"),
        Call("delete the source", "DELETE /connectors/top-source"),
        Call("deleted writes to none", "GET /connectors/top-source/topics", until=writes("top-source")),
    ),
)

TOPICS_OFF = Resource(
    "topics-off",
    STRICT,
    (
        Call("create", "PUT /connectors/top-beat/config", heartbeat()),
        Call("topics", "GET /connectors/top-beat/topics"),
        Call("topics of unknown", "GET /connectors/nobody/topics"),
        Call("reset", "PUT /connectors/top-beat/topics/reset"),
    ),
)

TOPICS_KEPT = Resource(
    "topics-kept",
    EXACT,
    (
        Call("create", "PUT /connectors/top-beat/config", heartbeat()),
        Call("topics", "GET /connectors/top-beat/topics", until=writes("top-beat", "heartbeats")),
        Call("reset", "PUT /connectors/top-beat/topics/reset"),
        Call("are kept", "GET /connectors/top-beat/topics"),
    ),
)
