"""`/` and `/health`: what probes ask."""

from __future__ import annotations

from conformance.call import Call
from conformance.resources.arrangements import PLAIN
from conformance.stage import Resource

ROOT = Resource(
    "root",
    PLAIN,
    (
        Call("server info", "GET /"),
        Call("probe", "HEAD /"),
        Call("query is ignored", "GET /?pretty=true"),
        Call("options", "OPTIONS /"),
        Call("post", "POST /", {}),
        Call("put", "PUT /", {}),
        Call("delete", "DELETE /"),
        Call("as plain text", "GET /", headers={"Accept": "text/plain"}),
        Call("as anything", "GET /", headers={"Accept": "*/*"}),
        Call("without Accept", "GET /", headers={"Accept": ""}),
        Call("as a browser asks", "GET /", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}),
        Call("health", "GET /health"),
        Call("probe health", "HEAD /health"),
        Call("health with a slash", "GET /health/"),
        Call("options of health", "OPTIONS /health"),
        Call("post health", "POST /health", {}),
        Call("unknown path", "GET /nope"),
        Call("unknown path below health", "GET /health/deep"),
        Call("no metrics", "GET /metrics"),
        Call("no description", "GET /application.wadl"),
        Call("no admin root", "GET /admin"),
    ),
)
