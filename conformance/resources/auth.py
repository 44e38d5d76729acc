"""Basic authentication: every form of a user's line, and of the header."""

from __future__ import annotations

import base64

from conformance.call import Call
from conformance.mirrors import heartbeat
from conformance.resources.arrangements import AUTH, AUTH_OPEN, basic
from conformance.stage import Resource


def _as(name: str, user: str, password: str, request: str = "GET /") -> Call:
    return Call(name, request, headers=basic(user, password))


def _with(name: str, header: str, request: str = "GET /") -> Call:
    return Call(name, request, headers={"Authorization": header})


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


RIGHT = _encoded("health:health-secret")

BASIC_AUTH = Resource(
    "auth",
    AUTH,
    (
        _as("colon and a blank", "health", "health-secret"),
        _as("equals", "kafkaui", "ui-secret"),
        _as("blank", "init", "init-secret"),
        _as("colon in the password", "colon", "with:colon"),
        _as("blanks in the password", "spaced", "inner blank "),
        _as("blanks in the password left out", "spaced", "inner blank"),
        _as("password beyond ASCII", "umlaut", "grün"),
        _as("empty password", "empty", ""),
        _as("wrong password", "health", "wrong"),
        _as("password in capitals", "health", "HEALTH-SECRET"),
        _as("beginning of a password", "health", "health-secre"),
        _as("unknown user", "nobody", "health-secret"),
        _as("user in capitals", "Health", "health-secret"),
        _as("empty user", "", "health-secret"),
        _as("nothing but a colon", "", ""),
        _with("none", ""),
        _with("scheme in lower case", f"basic {RIGHT}"),
        _with("scheme in capitals", f"BASIC {RIGHT}"),
        _with("scheme alone", "Basic"),
        _with("two blanks", f"Basic  {RIGHT}"),
        _with("another scheme", f"Bearer {RIGHT}"),
        _with("no base 64", "Basic health:health-secret"),
        _with("base 64 without a colon", f"Basic {_encoded('health')}"),
        _with("base 64 without its end", f"Basic {RIGHT.rstrip('=')[:-1]}"),
        _with("empty base 64", "Basic "),
        Call("probe", "HEAD /"),
        Call("probe of nobody", "HEAD /", headers={"Authorization": ""}),
        _with("health of nobody", "", "GET /health"),
        Call("health", "GET /health"),
        _with("connectors of nobody", "", "GET /connectors"),
        _with("unknown path of nobody", "", "GET /nope"),
        _with("options of nobody", "", "OPTIONS /connectors"),
        Call("options", "OPTIONS /connectors"),
        Call("create of nobody", "PUT /connectors/auth-a/config", heartbeat(), headers={"Authorization": ""}),
        Call("create", "PUT /connectors/auth-a/config", heartbeat()),
        Call("malformed of nobody", "POST /connectors", b"{", headers={"Authorization": ""}),
        Call(
            "wrong type of nobody",
            "POST /connectors",
            b"x",
            headers={"Authorization": "", "Content-Type": "text/plain"},
        ),
        Call("wrong method of nobody", "DELETE /", headers={"Authorization": ""}),
        Call("delete by somebody else", "DELETE /connectors/auth-a", headers=basic("kafkaui", "ui-secret")),
        Call("task configs of nobody", "POST /connectors/auth-a/tasks", [], headers={"Authorization": ""}),
        Call("fence of nobody", "PUT /connectors/auth-a/fence", headers={"Authorization": ""}),
        Call("task configs", "GET /connectors/auth-a/tasks", headers={"Authorization": ""}),
        Call("loggers at the admin listener", "GET /admin/loggers/root", to="admin-1"),
        Call(
            "loggers of nobody at the admin listener",
            "GET /admin/loggers/root",
            to="admin-1",
            headers={"Authorization": ""},
        ),
        Call("loggers at the main listener", "GET /admin/loggers/root"),
    ),
)

NO_USERS = Resource(
    "auth-open",
    AUTH_OPEN,
    (
        _with("nobody", ""),
        _as("anybody", "anybody", "anything"),
        _as("empty", "", ""),
        _with("another scheme", "Bearer abc"),
        _with("list of nobody", "", "GET /connectors"),
    ),
)
