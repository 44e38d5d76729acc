"""`/admin/loggers`: levels of one worker or of all."""

from __future__ import annotations

from conformance.call import Call, Response, Until
from conformance.resources.arrangements import LISTENERS, PLAIN, STANDALONE, STRICT
from conformance.shapes import members
from conformance.stage import Resource

HERDER = "org.apache.kafka.connect.runtime"
OWN = "org.example.own"


def level_is(level: str) -> Until:
    return Until(f"level {level}", lambda answer: answer.status == 200 and answer.body["level"] == level)


def _has(*names: str) -> Until:
    def holds(answer: Response) -> bool:
        return answer.status == 200 and set(names) <= set(answer.body)

    return Until(f"has {names}", holds)


LOGGERS = Resource(
    "loggers",
    PLAIN,
    (
        Call("root", "GET /admin/loggers/root"),
        Call("list", "GET /admin/loggers", shape=members("root"), until=_has("root")),
        Call("head", "HEAD /admin/loggers/root"),
        Call("unknown", "GET /admin/loggers/org.example.unknown"),
        Call("set unknown", f"PUT /admin/loggers/{OWN}", {"level": "DEBUG"}),
        Call("is set", f"GET /admin/loggers/{OWN}"),
        Call("set below", f"PUT /admin/loggers/{OWN}.below", {"level": "TRACE"}),
        Call("set above", f"PUT /admin/loggers/{OWN}", {"level": "ERROR"}),
        Call("below follows", f"GET /admin/loggers/{OWN}.below"),
        Call("list those", "GET /admin/loggers", shape=members(OWN, f"{OWN}.below")),
        Call("set in lower case", f"PUT /admin/loggers/{OWN}", {"level": "warn"}),
        Call("is in capitals", f"GET /admin/loggers/{OWN}"),
        Call("set off", f"PUT /admin/loggers/{OWN}", {"level": "OFF"}),
        Call("set all", f"PUT /admin/loggers/{OWN}", {"level": "ALL"}),
        Call("set fatal", f"PUT /admin/loggers/{OWN}", {"level": "FATAL"}),
        Call("set an unknown level", f"PUT /admin/loggers/{OWN}", {"level": "LOUD"}),
        Call("set an empty level", f"PUT /admin/loggers/{OWN}", {"level": ""}),
        Call("set null", f"PUT /admin/loggers/{OWN}", {"level": None}),
        Call("set a number", f"PUT /admin/loggers/{OWN}", {"level": 5}),
        Call("set nothing", f"PUT /admin/loggers/{OWN}", {}),
        Call("null as body", f"PUT /admin/loggers/{OWN}", None),
        Call("no body", f"PUT /admin/loggers/{OWN}", b""),
        Call("list as body", f"PUT /admin/loggers/{OWN}", []),
        Call("half an object", f"PUT /admin/loggers/{OWN}", b'{"level"'),
        Call("further member", f"PUT /admin/loggers/{OWN}", {"level": "INFO", "why": "noise"}),
        Call("nested level", f"PUT /admin/loggers/{OWN}", {"level": {"name": "INFO"}}),
        Call("scope of the worker", f"PUT /admin/loggers/{OWN}?scope=worker", {"level": "DEBUG"}),
        Call("scope of the cluster", f"PUT /admin/loggers/{OWN}?scope=cluster", {"level": "WARN"}),
        Call("is set in the cluster", f"GET /admin/loggers/{OWN}", until=level_is("WARN")),
        Call("scope in capitals", f"PUT /admin/loggers/{OWN}?scope=CLUSTER", {"level": "INFO"}),
        Call("is set by capitals", f"GET /admin/loggers/{OWN}", until=level_is("INFO")),
        Call("unknown scope", f"PUT /admin/loggers/{OWN}?scope=universe", {"level": "ERROR"}),
        Call("empty scope", f"PUT /admin/loggers/{OWN}?scope=", {"level": "ERROR"}),
        Call("unknown level in the cluster", f"PUT /admin/loggers/{OWN}?scope=cluster", {"level": "LOUD"}),
        Call("no level in the cluster", f"PUT /admin/loggers/{OWN}?scope=cluster", {}),
        Call("post", f"POST /admin/loggers/{OWN}", {"level": "INFO"}),
        Call("delete", f"DELETE /admin/loggers/{OWN}"),
        Call("put all", "PUT /admin/loggers", {"level": "INFO"}),
        Call("options", "OPTIONS /admin/loggers"),
        Call("options of one", f"OPTIONS /admin/loggers/{OWN}"),
        Call("logger of a connector", "GET /admin/loggers/org.apache.kafka.connect.mirror"),
        Call(
            "set root",
            "PUT /admin/loggers/root",
            {"level": "INFO"},
            shape=lambda body: sorted(set(body) & {"root", OWN}),
        ),
    ),
)

LOGGERS_OFF = Resource(
    "loggers-off",
    STRICT,
    (
        Call("list", "GET /admin/loggers"),
        Call("one", "GET /admin/loggers/root"),
        Call("set", "PUT /admin/loggers/root", {"level": "INFO"}),
        Call("options", "OPTIONS /admin/loggers/root"),
    ),
)

LOGGERS_APART = Resource(
    "loggers-apart",
    LISTENERS,
    (
        Call("at the main listener", "GET /admin/loggers/root"),
        Call("at the admin listener", "GET /admin/loggers/root", to="admin-1"),
        Call("set at the admin listener", f"PUT /admin/loggers/{OWN}", {"level": "DEBUG"}, to="admin-1"),
        Call("set at the main listener", f"PUT /admin/loggers/{OWN}", {"level": "DEBUG"}),
        Call("connectors at the admin listener", "GET /connectors", to="admin-1"),
        Call("root at the admin listener", "GET /", to="admin-1"),
        Call("health at the admin listener", "GET /health", to="admin-1"),
        Call("unknown path at the admin listener", "GET /nope", to="admin-1"),
        Call("options at the admin listener", "OPTIONS /admin/loggers", to="admin-1"),
    ),
)

LOGGERS_STANDALONE = Resource(
    "loggers-standalone",
    STANDALONE,
    (
        Call("set", f"PUT /admin/loggers/{OWN}", {"level": "DEBUG"}),
        Call("set in the cluster", f"PUT /admin/loggers/{OWN}?scope=cluster", {"level": "WARN"}),
        Call("is set in the cluster", f"GET /admin/loggers/{OWN}", until=level_is("WARN")),
    ),
)
