"""HTTPS beside HTTP, access control for browsers, and further headers."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.call import Call
from conformance.mirrors import heartbeat
from conformance.resources.arrangements import LISTENERS, STRICT
from conformance.stage import Resource

UI = {"Origin": "https://ui.example.org"}
OTHER = {"Origin": "https://evil.example.org"}


def _preflight(origin: Mapping[str, str], method: str, wanted: str = "content-type") -> dict[str, str]:
    return {**origin, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": wanted}


HTTPS = Resource(
    "https",
    LISTENERS,
    (
        Call("http", "GET /"),
        Call("https", "GET /", to="https-1"),
        Call("health", "GET /health", to="https-1"),
        Call("create", "POST /connectors", {"name": "tls-a", "config": heartbeat()}, to="https-1"),
        Call("is there by http", "GET /connectors/tls-a"),
        Call("put creates", "PUT /connectors/tls-b/config", heartbeat(), to="https-1"),
        Call("delete", "DELETE /connectors/tls-b", to="https-1"),
        Call("unknown path", "GET /nope", to="https-1"),
        Call("loggers", "GET /admin/loggers/root", to="https-1"),
    ),
)

CORS = Resource(
    "cors",
    LISTENERS,
    (
        Call("origin", "GET /", headers=UI),
        Call("other origin", "GET /", headers=OTHER),
        Call("origin of an error", "GET /connectors/nobody", headers=UI),
        Call("origin of an unknown path", "GET /nope", headers=UI),
        Call("origin at the admin listener", "GET /admin/loggers/root", to="admin-1", headers=UI),
        Call("no origin", "GET /"),
        Call("preflight of put", "OPTIONS /connectors/x/config", headers=_preflight(UI, "PUT")),
        Call("preflight of post", "OPTIONS /connectors", headers=_preflight(UI, "POST")),
        Call("preflight of get", "OPTIONS /connectors", headers=_preflight(UI, "GET")),
        Call("preflight of login", "OPTIONS /connectors", headers=_preflight(UI, "GET", "authorization")),
        Call(
            "preflight of two headers", "OPTIONS /connectors", headers=_preflight(UI, "GET", "origin, x-requested-with")
        ),
        Call("preflight of another origin", "OPTIONS /connectors", headers=_preflight(OTHER, "PUT")),
        Call("options from the origin", "OPTIONS /connectors", headers=UI),
        Call("post from another origin", "POST /connectors", {}, headers=OTHER),
    ),
)

CORS_ANY = Resource(
    "cors-any",
    STRICT,
    (
        Call("origin", "GET /", headers=UI),
        Call("other origin", "GET /", headers=OTHER),
        Call("preflight of put", "OPTIONS /connectors/x/config", headers=_preflight(UI, "PUT")),
        Call("preflight of get", "OPTIONS /connectors", headers=_preflight(UI, "GET")),
        Call("preflight of post", "OPTIONS /connectors", headers=_preflight(UI, "POST")),
    ),
)
