"""HTTP itself: methods, media types, slashes, escapes, and bodies that are none."""

from __future__ import annotations

from conformance.call import Call, Json, connector_is
from conformance.mirrors import heartbeat
from conformance.resources.arrangements import PLAIN
from conformance.shapes import beginning
from conformance.stage import Resource

BEAT = "/connectors/http-beat"
PATHS = {
    "connectors": "/connectors",
    "connector": BEAT,
    "config": f"{BEAT}/config",
    "status": f"{BEAT}/status",
    "tasks": f"{BEAT}/tasks",
    "task status": f"{BEAT}/tasks/0/status",
    "task restart": f"{BEAT}/tasks/0/restart",
    "restart": f"{BEAT}/restart",
    "pause": f"{BEAT}/pause",
    "resume": f"{BEAT}/resume",
    "stop": f"{BEAT}/stop",
    "topics": f"{BEAT}/topics",
    "topics reset": f"{BEAT}/topics/reset",
    "offsets": f"{BEAT}/offsets",
    "plugins": "/connector-plugins",
}


def _typed(name: str, media: str, body: Json = None) -> Call:
    return Call(name, f"PUT {BEAT}/config", heartbeat() if body is None else body, headers={"Content-Type": media})


HTTP = Resource(
    "http",
    PLAIN,
    (
        Call("create", f"PUT {BEAT}/config", heartbeat()),
        Call("runs", f"GET {BEAT}/status", until=connector_is("RUNNING", 1)),
        *(Call(f"options of {name}", f"OPTIONS {path}") for name, path in PATHS.items()),
        *(
            Call(f"{method} {name}", f"{method} {PATHS[name]}", {} if method in ("PUT", "PATCH", "POST") else b"")
            for name, method in (
                ("connectors", "PUT"),
                ("connectors", "PATCH"),
                ("connectors", "DELETE"),
                ("connector", "PUT"),
                ("connector", "POST"),
                ("connector", "PATCH"),
                ("status", "PUT"),
                ("status", "DELETE"),
                ("tasks", "DELETE"),
                ("stop", "POST"),
                ("stop", "GET"),
                ("resume", "GET"),
                ("offsets", "POST"),
                ("plugins", "DELETE"),
            )
        ),
        _typed("no content type", ""),
        _typed("plain text", "text/plain"),
        _typed("form", "application/x-www-form-urlencoded"),
        _typed("form of curl with JSON in it", "application/x-www-form-urlencoded", b'{"a":"b"}'),
        _typed("XML", "application/xml", b"<a/>"),
        _typed("JSON with a charset", "application/json; charset=utf-8"),
        _typed("JSON in capitals", "APPLICATION/JSON"),
        _typed("a dialect of JSON", "application/vnd.kafka.v2+json"),
        _typed("no media type", "nonsense"),
        Call("post plain text", "POST /connectors", b"x", headers={"Content-Type": "text/plain"}),
        Call("post without a type", "POST /connectors", {"name": "x", "config": {}}, headers={"Content-Type": ""}),
        Call(
            "patch merge", f"PATCH {BEAT}/config", {"a": "b"}, headers={"Content-Type": "application/merge-patch+json"}
        ),
        Call("pause with plain text", f"PUT {BEAT}/pause", b"now", headers={"Content-Type": "text/plain"}),
        Call(
            "resume with a form",
            f"PUT {BEAT}/resume",
            b"",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        ),
        Call("restart with plain text", f"POST {BEAT}/restart", b"now", headers={"Content-Type": "text/plain"}),
        Call("accept plain text", f"GET {BEAT}", headers={"Accept": "text/plain"}),
        Call("accept XML", "GET /connectors", headers={"Accept": "application/xml"}),
        Call("accept anything", f"GET {BEAT}", headers={"Accept": "*/*"}),
        Call("accept a dialect", f"GET {BEAT}", headers={"Accept": "application/vnd.kafka.v2+json, application/json"}),
        Call("accept plain text of what is not there", "GET /connectors/nobody", headers={"Accept": "text/plain"}),
        Call("body in UTF-8", f"PUT {BEAT}/config", heartbeat() | {"note": "grün 心 \U0001f680"}),
        Call("body in escapes", f"PUT {BEAT}/config", b'{"connector.class": "x", "note": "\\u00fc\\ud83d\\ude80"}'),
        Call("body in Latin", f"PUT {BEAT}/config", b'{"connector.class": "x", "note": "gr\xfcn"}'),
        Call("body behind a mark", f"PUT {BEAT}/config", b'\xef\xbb\xbf{"note": "x"}'),
        Call("comment in the body", f"PUT {BEAT}/config", b'{"a": "b" /* c */}'),
        Call("comma at the end", f"PUT {BEAT}/config", b'{"a": "b",}'),
        Call("single quotes", f"PUT {BEAT}/config", b"{'a': 'b'}"),
        Call("not a number", f"PUT {BEAT}/config", b'{"connector.class": NaN}'),
        Call("a key twice", f"PUT {BEAT}/config", b'{"name": "a", "name": "b", "connector.class": "c"}'),
        Call("large numbers", f"PUT {BEAT}/config", b'{"a": 123456789012345678901234567890, "b": 1e400, "c": 1.10}'),
        Call("deep nesting", f"PUT {BEAT}/config", b"[" * 1200),
        Call("a megabyte", f"PUT {BEAT}/config", {"note": "x" * 1_000_000}, shape=beginning(80)),
        Call("slash after a connector", f"GET {BEAT}/"),
        Call("slash after status", f"GET {BEAT}/status/"),
        Call("slash after config", f"PUT {BEAT}/config/", heartbeat()),
        Call("two slashes", "GET //connectors"),
        Call("two slashes within", "GET /connectors//status"),
        Call("dots", "GET /connectors/../connectors"),
        Call("dot", "GET /connectors/./http-beat"),
        Call("parameters of a segment", f"GET {BEAT};v=1"),
        Call("percent without digits", "GET /connectors/%zz"),
        Call("escape of nothing", "GET /connectors/%00"),
        Call("escaped path", "GET /%63onnectors"),
        Call("capitals in the path", "GET /Connectors"),
        Call("longer path", f"GET {BEAT}/status/more"),
        Call("unknown below a connector", f"GET {BEAT}/nope"),
        Call("unknown with a body", "POST /nope", {"a": 1}),
        Call("unknown with plain text", "POST /nope", b"x", headers={"Content-Type": "text/plain"}),
        Call("unknown method", "BREW /connectors"),
        Call("trace", "TRACE /connectors"),
        Call("origin without access control", "GET /", headers={"Origin": "https://ui.example.org"}),
        Call(
            "preflight without access control",
            "OPTIONS /connectors",
            headers={"Origin": "https://ui.example.org", "Access-Control-Request-Method": "POST"},
        ),
        Call("forward in vain", "GET /connectors?forward=true"),
        Call("forward to nobody", f"PUT {BEAT}/config?forward=false", heartbeat()),
        Call("forward perhaps", f"PUT {BEAT}/config?forward=perhaps", heartbeat()),
        Call("a long header", "GET /", headers={"X-Long": "x" * 6000}),
        Call("too long a header", "GET /", headers={"X-Long": "x" * 9000}),
        Call("a long query", "GET /?q=" + "x" * 6000),
        Call("too long a query", "GET /?q=" + "x" * 9000),
    ),
)
