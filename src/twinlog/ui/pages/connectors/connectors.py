"""The connectors of a Connect worker: states, tasks, configurations with hidden secrets, offsets, and actions.

All requests go to the worker's REST API, as for `twinlog connectors`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from twinlog.errors import RequestError
from twinlog.ops.connectors.commands import in_short
from twinlog.ops.connectors.create import shown
from twinlog.ops.connectors.rest import ConnectRest, plain
from twinlog.ui.audit import audit
from twinlog.ui.pages.paging import ListColumn, ListQuery, Row, paged
from twinlog.ui.rendering import ConsolePage, quoted
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import Visit, page_routes

T = TypeVar("T")

COLUMNS = (
    ListColumn("name", "Connector"),
    ListColumn("kind", "Class"),
    ListColumn("state", "State"),
    ListColumn("tasks", "Tasks"),
    ListColumn("worker", "Worker"),
)

VERBS: Mapping[str, str] = {
    "pause": "Pause",
    "resume": "Resume",
    "stop": "Stop",
    "restart": "Restart",
    "restart-failed": "Restart failed tasks",
}
"""The actions that a later action takes back, by name and button."""

DELETE = "delete"
_OTHER_PATHS = ("", ".", "..")
"""As a part of a path each of these leads to another path of the worker."""

_LONGEST_TRACE = 20_000
MOST_OFFSETS = 100
"""Stored offsets that a page shows; `twinlog connectors offsets list` prints all."""


class ConnectorsPages:
    """`/ui/connectors`, `/ui/connector?name=NAME`, and `/ui/connector/act`."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return [
            *page_routes(self._site, "/connectors", self.show),
            *page_routes(self._site, "/connector", self.show_connector),
            *page_routes(self._site, "/connector/act", None, self.act),
        ]

    async def show(self, visit: Visit) -> ConsolePage:
        """All connectors of the worker; without a worker the way to name it."""
        rest = self._site.open_rest(visit.session.authorization)
        query = ListQuery.of(visit.request.query_params, [one.name for one in COLUMNS])
        rows = [] if rest is None else await self._call(lambda: _rows(rest))
        data = {
            "worker": None if rest is None else rest.access.url,
            "connectors": paged(rows, query, COLUMNS, "name", {}),
            "actions": self._site.settings.actions,
        }
        return ConsolePage("connectors/connectors.html", "connectors", "Connectors", data)

    async def show_connector(self, visit: Visit) -> ConsolePage:
        """A connector with its tasks. Raises RequestError 404 for an unknown connector."""
        rest, name = self._site.require_rest(visit.session.authorization), visit.query("name")
        if name in _OTHER_PATHS:
            raise RequestError(404, f"The connector {name!r} is unknown.")
        data = await self._call(lambda: _connector(rest, name))
        verbs = [{"verb": verb, "title": title} for verb, title in VERBS.items()]
        data |= {"verbs": verbs if self._site.settings.actions else [], "actions": self._site.settings.actions}
        return ConsolePage("connectors/connector.html", "connectors", name, data)

    async def act(self, visit: Visit) -> Response:
        """Do an action, and lead back to the page of the connector, or to the page of its offsets."""
        self._site.require_actions()
        rest = self._site.require_rest(visit.session.authorization)
        name, verb = visit.form.get("name", ""), visit.form.get("verb", "")
        if name in _OTHER_PATHS or (verb not in VERBS and verb != DELETE):
            raise RequestError(400, f"The action {verb!r} is unknown; the actions are {', '.join((*VERBS, DELETE))}.")
        if verb == DELETE and visit.form.get("typed", "") != name:
            raise RequestError(400, f"The connector stays: type the name {name} to delete it.")
        try:
            await self._call(lambda: _do(rest, name, verb))
        except Exception as error:
            audit(visit.user, visit.address, f"{verb} connector", connector=name, outcome=type(error).__name__)
            raise
        audit(visit.user, visit.address, f"{verb} connector", connector=name, outcome="accepted")
        page = "/connector/offsets" if visit.form.get("then") == "offsets" else "/connector"
        path = "/connectors" if verb == DELETE else f"{page}?name={quoted(name)}"
        return RedirectResponse(f"{self._site.root}{path}", 303)

    async def _call(self, call: Callable[[], T]) -> T:
        return await self._site.threads.connectors.run(call)


def _rows(rest: ConnectRest) -> list[Row]:
    known, found = rest.get("connectors", expand="info"), rest.get("connectors", expand="status")
    return [_row(name, known[name]["info"], found.get(name, {}).get("status")) for name in sorted(known)]


def _row(name: str, info: Mapping[str, Any], status: Mapping[str, Any] | None) -> Row:
    """A connector whose tasks failed is shown as failed, though the connector itself is running."""
    connector = {} if status is None else status["connector"]
    tasks = Counter(task["state"] for task in ([] if status is None else status["tasks"]))
    state = connector.get("state") or "?"
    return {
        "name": name,
        "kind": str(info["config"].get("connector.class") or "").rpartition(".")[2],
        "state": "TASK FAILED" if state == "RUNNING" and tasks["FAILED"] else state,
        "tasks": ", ".join(f"{count} {state}" for state, count in sorted(tasks.items())) or "none",
        "worker": connector.get("worker_id") or "?",
    }


def connector_status(rest: ConnectRest, name: str) -> Mapping[str, Any] | None:
    """The status of a connector; None right after its creation."""
    try:
        found: Mapping[str, Any] = rest.get("connectors", name, "status")
    except RequestError as error:
        if error.status != 404:
            raise
        return None
    return found


def _connector(rest: ConnectRest, name: str) -> dict[str, Any]:
    info = rest.get("connectors", name)
    status = connector_status(rest, name)
    try:
        offsets = rest.get("connectors", name, "offsets")["offsets"]
    except RequestError:
        # Kafka before 3.5 lacks this path.
        offsets = None
    config = info["config"]
    return {
        **_row(name, info, status),
        "trace": _trace(None if status is None else status["connector"]),
        "parts": [
            {"id": one["id"], "state": one["state"], "worker": one["worker_id"], "trace": _trace(one)}
            for one in ([] if status is None else status["tasks"])
        ],
        "config": [{"key": key, "value": shown(key, config[key] or "")} for key in sorted(config)],
        "offsets": None if offsets is None else [_offset(one) for one in offsets[:MOST_OFFSETS]],
        "more_offsets": 0 if offsets is None else max(0, len(offsets) - MOST_OFFSETS),
    }


def _offset(one: Mapping[str, Any]) -> dict[str, str]:
    return {"partition": json.dumps(one["partition"]), "offset": json.dumps(one["offset"])}


def _trace(part: Mapping[str, Any] | None) -> dict[str, str] | None:
    """The reason of a failure in short, and whole."""
    trace = None if part is None else part.get("trace")
    return None if not trace else {"short": plain(in_short(trace)), "whole": plain(trace)[:_LONGEST_TRACE]}


def _do(rest: ConnectRest, name: str, verb: str) -> None:
    if verb == DELETE:
        rest.send_request("DELETE", "connectors", name)
    elif verb.startswith("restart"):
        failed = str(verb == "restart-failed").lower()
        query = {"includeTasks": "true", "onlyFailed": failed}
        rest.send_request("POST", "connectors", name, "restart", query=query)
    else:
        rest.send_request("PUT", "connectors", name, verb)
