"""Names of connectors that need an escape, or care."""

from __future__ import annotations

from urllib.parse import quote

from conformance.call import Call, Until, connector_is, has_tasks
from conformance.mirrors import heartbeat
from conformance.resources.arrangements import ODD_NAMES, PLAIN
from conformance.shapes import in_order
from conformance.stage import Resource

ODD = {
    "arrow": "a->b.MirrorHeartbeatConnector",
    "blank": "two words",
    "umlauts": "hörbar",
    "chinese": "心跳",
    "rocket": "go \U0001f680",
    "percent": "100%",
    "escape as a name": "a%20b",
    "plus": "a+b",
    "question": "who?",
    "hash": "a#b",
    "ampersand": "a&b=c",
    "quotes": 'it\'s "so"',
    "brackets": "[a]{b}",
    "colon": "a:b",
    "dots": "a..b",
    "long": "n" * 200,
}


_RUNS = connector_is("RUNNING", 0)
_runs_or_has_no_place = Until(
    "it runs, or no path leads to it", lambda answer: answer.status == 400 or _RUNS.holds(answer)
)


def _round(kind: str, name: str) -> tuple[Call, ...]:
    path = f"/connectors/{quote(name, safe='')}"
    return (
        Call(f"put {kind}", f"PUT {path}/config", heartbeat(emit_heartbeats_enabled="false")),
        Call(f"{kind} runs", f"GET {path}/status", until=_runs_or_has_no_place),
        Call(f"delete {kind}", f"DELETE {path}"),
    )


NAMES = Resource(
    "names",
    PLAIN,
    (
        *(call for kind, name in ODD.items() for call in _round(kind, name)),
        Call("post arrow", "POST /connectors", {"name": "a->b", "config": heartbeat()}),
        Call("post blank", "POST /connectors", {"name": "two words", "config": heartbeat()}),
        Call("post chinese", "POST /connectors", {"name": "心跳", "config": heartbeat()}),
        Call("list them", "GET /connectors", shape=in_order),
        Call("get name in capitals", "GET /connectors/A-%3EB"),
        Call("get with lower-case escape", "GET /connectors/a-%3eb", until=has_tasks(1)),
        Call("get unescaped arrow", "GET /connectors/a->b"),
        Call("get plus for a blank", "GET /connectors/two+words"),
        Call("put reserved word", "PUT /connectors/status/config", heartbeat(emit_heartbeats_enabled="false")),
        Call("reserved word's status", "GET /connectors/status/status", until=connector_is("RUNNING", 0)),
    ),
)

NAMES_REFUSED = Resource(
    "names-refused",
    ODD_NAMES,
    (
        Call("post slash", "POST /connectors", {"name": "a/b", "config": heartbeat(), "initial_state": "STOPPED"}),
        Call("get escaped slash", "GET /connectors/a%2Fb"),
        Call("get slash", "GET /connectors/a/b"),
        Call("post backslash", "POST /connectors", {"name": "a\\b", "config": heartbeat(), "initial_state": "STOPPED"}),
        Call("get escaped backslash", "GET /connectors/a%5Cb"),
        Call("post dot", "POST /connectors", {"name": ".", "config": heartbeat(), "initial_state": "STOPPED"}),
        Call("get escaped dot", "GET /connectors/%2E"),
        Call("post semicolon", "POST /connectors", {"name": "a;b", "config": heartbeat(), "initial_state": "STOPPED"}),
        Call("get escaped semicolon", "GET /connectors/a%3Bb"),
        Call("put control character", "PUT /connectors/a%07b/config", heartbeat()),
        Call("post control character", "POST /connectors", {"name": "a\u0007b", "config": heartbeat()}),
        Call("post line break", "POST /connectors", {"name": "a\nb", "config": heartbeat()}),
        Call("put blank alone", "PUT /connectors/%20/config", heartbeat()),
        Call("put blanks around", "PUT /connectors/%20x%20/config", heartbeat()),
        Call("list them", "GET /connectors", shape=in_order),
    ),
    leaves=True,
)
"""Some can be created and neither be read nor deleted then."""
