"""Two workers of one group: requests are forwarded, a worker that ends is stood in for."""

from __future__ import annotations

import json

from conformance.call import Call, Json, Response, Until, answered, connector_is, lists
from conformance.mirrors import heartbeat, source
from conformance.resources.arrangements import GROUP
from conformance.resources.loggers import OWN, level_is
from conformance.shapes import in_order
from conformance.stage import Act, Resource, Stage

ALL = [f"pair-{letter}" for letter in "abcd"]


def _stop_second(stage: Stage) -> None:
    stage.workers["worker-2"].stop()


def _any_worker(body: Json) -> Json:
    """Which worker runs what is the group's own matter."""
    text = json.dumps(body)
    for number in (1, 2):
        text = text.replace(f"<worker-{number}>", "<worker>")
    return json.loads(text)


def _workers(answer: Response) -> list[str]:
    if answer.status != 200:
        return []
    found = []
    for one in answer.body.values():
        status = one["status"]
        found += [part["worker_id"] for part in (status["connector"], *status["tasks"]) if part["state"] == "RUNNING"]
    return found


def _spread(parts: int, workers: int) -> Until:
    def holds(answer: Response) -> bool:
        found = _workers(answer)
        return len(found) == parts and len(set(found)) == workers

    return Until(f"{parts} parts run on {workers} workers", holds)


def _get(name: str, path: str, worker: int = 1, until: Until | None = None) -> Call:
    return Call(name, f"GET {path}", to=f"worker-{worker}", until=until, shape=_any_worker)


PAIR = Resource(
    "group",
    GROUP,
    (
        _get("first", "/"),
        _get("second", "/", 2),
        Call("create at the first", "POST /connectors", {"name": "pair-a", "config": heartbeat()}),
        Call("create at the second", "POST /connectors", {"name": "pair-b", "config": heartbeat()}, to="worker-2"),
        Call("put at the second", "PUT /connectors/pair-c/config", heartbeat(), to="worker-2"),
        Call("create a source at the second", "PUT /connectors/pair-d/config", source(), to="worker-2"),
        Call("list at the first", "GET /connectors", until=lists(*ALL), shape=in_order),
        Call("list at the second", "GET /connectors", to="worker-2", until=lists(*ALL), shape=in_order),
        _get("spread over both", "/connectors?expand=status", 1, _spread(9, 2)),
        _get("same at the second", "/connectors?expand=status", 2, _spread(9, 2)),
        Call(
            "create again at the second", "POST /connectors", {"name": "pair-a", "config": heartbeat()}, to="worker-2"
        ),
        Call("invalid at the second", "PUT /connectors/pair-a/config", heartbeat(tasks_max="0"), to="worker-2"),
        Call("malformed at the second", "POST /connectors", b"{", to="worker-2"),
        Call("unknown at the second", "DELETE /connectors/nobody", to="worker-2"),
        Call(
            "not forwarded",
            "PUT /connectors/pair-e/config?forward=false",
            heartbeat(),
            to="worker-2",
            conflicts=True,
        ),
        Call(
            "post not forwarded",
            "POST /connectors?forward=false",
            {"name": "pair-e", "config": heartbeat()},
            to="worker-2",
            conflicts=True,
        ),
        Call("delete not forwarded", "DELETE /connectors/pair-a?forward=false", to="worker-2", conflicts=True),
        Call(
            "patch not forwarded",
            "PATCH /connectors/pair-a/config?forward=false",
            {"a": "b"},
            to="worker-2",
            conflicts=True,
        ),
        Call("stop not forwarded", "PUT /connectors/pair-a/stop?forward=false", to="worker-2", conflicts=True),
        Call("forwarded at last", "PUT /connectors/pair-e/config?forward=true", heartbeat(), to="worker-2"),
        Call("delete at the second", "DELETE /connectors/pair-e", to="worker-2"),
        Call("is gone at the first", "GET /connectors/pair-e/config", until=answered(404)),
        Call(
            "patch at the second",
            "PATCH /connectors/pair-a/config",
            {"emit.heartbeats.interval.seconds": "2"},
            to="worker-2",
        ),
        Call("patched at the first", "GET /connectors/pair-a/config"),
        *(
            Call(f"restart {name} at {number}", f"POST /connectors/{name}/restart", to=f"worker-{number}")
            for name in ALL[:2]
            for number in (1, 2)
        ),
        *(
            Call(
                f"restart task of {name} at {number}", f"POST /connectors/{name}/tasks/0/restart", to=f"worker-{number}"
            )
            for name in ALL[:2]
            for number in (1, 2)
        ),
        Call(
            "restart with tasks at the second",
            "POST /connectors/pair-a/restart?includeTasks=true",
            to="worker-2",
            shape=_any_worker,
        ),
        Call("pause at the second", "PUT /connectors/pair-a/pause", to="worker-2"),
        _get("is paused at the first", "/connectors/pair-a/status", 1, connector_is("PAUSED", 1)),
        Call("resume at the second", "PUT /connectors/pair-a/resume", to="worker-2"),
        _get("runs at the first", "/connectors/pair-a/status", 1, connector_is("RUNNING", 1)),
        Call("stop at the second", "PUT /connectors/pair-a/stop", to="worker-2"),
        _get("is stopped at the first", "/connectors/pair-a/status", 1, connector_is("STOPPED", 0)),
        Call("reset offsets at the second", "DELETE /connectors/pair-a/offsets", to="worker-2"),
        Call(
            "alter offsets at the second",
            "PATCH /connectors/pair-a/offsets",
            {
                "offsets": [
                    {
                        "partition": {"sourceClusterAlias": "left", "targetClusterAlias": "right"},
                        "offset": {"offset": 0},
                    }
                ]
            },
            to="worker-2",
        ),
        Call("offsets at the first", "GET /connectors/pair-a/offsets"),
        Call("resume what was stopped", "PUT /connectors/pair-a/resume", to="worker-2"),
        _get("spread again", "/connectors?expand=status", 1, _spread(9, 2)),
        Call(
            "set a level in the cluster", f"PUT /admin/loggers/{OWN}?scope=cluster", {"level": "DEBUG"}, to="worker-2"
        ),
        Call("level at the first", f"GET /admin/loggers/{OWN}", until=level_is("DEBUG")),
        Call("level at the second", f"GET /admin/loggers/{OWN}", to="worker-2", until=level_is("DEBUG")),
        Call("set a level of the second", f"PUT /admin/loggers/{OWN}", {"level": "ERROR"}, to="worker-2"),
        Call("level is kept at the first", f"GET /admin/loggers/{OWN}"),
        Act("kill the first", lambda stage: stage.workers["worker-1"].kill()),
        Call("first is gone", "GET /"),
        _get("all run on the second", "/connectors?expand=status", 2, _spread(9, 1)),
        Call(
            "create at the second alone", "POST /connectors", {"name": "pair-f", "config": heartbeat()}, to="worker-2"
        ),
        Call("delete at the second alone", "DELETE /connectors/pair-f", to="worker-2"),
        Act("start the first again", lambda stage: stage.start_worker("worker-1")),
        _get("spread once more", "/connectors?expand=status", 1, _spread(9, 2)),
        Call("create at the first, which follows now", "POST /connectors", {"name": "pair-g", "config": heartbeat()}),
        Call("not forwarded by the first", "DELETE /connectors/pair-g?forward=false", conflicts=True),
        Act("stop the second", _stop_second),
        Call("delete at the first, which leads again", "DELETE /connectors/pair-g"),
        _get("all run on the first", "/connectors?expand=status", 1, _spread(9, 1)),
    ),
)
