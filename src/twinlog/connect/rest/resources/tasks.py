"""A connector's state and its tasks: `status`, `tasks`, and `tasks-config`, which Connect has up to 3.9 (KIP-970)."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.connect.rest import responses
from twinlog.connect.rest.api import Api, connector_of
from twinlog.connect.rest.resource import Method, resource
from twinlog.connect.rest.resources.internal import Internal
from twinlog.connectors.model import Config, TaskId
from twinlog.errors import RequestError

_LARGEST = 2**31


class ConnectorTasks:
    """What a connector is split into, and how each part is."""

    def __init__(self, api: Api, internal: Internal) -> None:
        self._api = api
        self._herder = api.herder
        self._internal = internal

    def routes(self) -> list[Route]:
        one = "/connectors/{connector:encoded}"
        store = Method(self._internal.put_task_configs, json=False, login=False)
        return [
            resource(self._api, f"{one}/status", {"GET": self.status}),
            resource(self._api, f"{one}/tasks", {"GET": self.tasks, "POST": store}),
            resource(self._api, f"{one}/tasks/{{task:encoded}}/status", {"GET": self.task_status}),
            resource(self._api, f"{one}/tasks/{{task:encoded}}/restart", {"POST": self.restart}),
            resource(self._api, f"{one}/tasks-config", {"GET": self.tasks_config}),
        ]

    async def status(self, request: Request) -> Response:
        name = connector_of(request)
        return await self._api.look(lambda: self._herder.status(name), responses.connector_status)

    async def task_status(self, request: Request) -> Response:
        task = _task_of(request)
        return await self._api.look(
            lambda: self._herder.task_status(task), lambda status: responses.task_status(task.task, status)
        )

    async def tasks(self, request: Request) -> Response:
        name = connector_of(request)
        return await self._api.change(
            request,
            lambda: self._herder.task_configs(name),
            lambda configs: responses.json_response(
                [{"id": responses.task_id(task), "config": dict(configs[task])} for task in sorted(configs)]
            ),
        )

    async def tasks_config(self, request: Request) -> Response:
        name = connector_of(request)

        def respond(configs: Mapping[TaskId, Config]) -> Response:
            return responses.json_response({str(task): dict(configs[task]) for task in sorted(configs)})

        return await self._api.change(request, lambda: self._herder.task_configs(name), respond)

    async def restart(self, request: Request) -> Response:
        task = _task_of(request)
        return await self._api.change(request, lambda: self._herder.restart_task(task), lambda _: responses.empty(204))


def _task_of(request: Request) -> TaskId:
    """The task that a path names; what is no number of Java's `int` names none."""
    text: str = request.path_params["task"]
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10 and -_LARGEST <= int(text) < _LARGEST):
        raise RequestError(404, "HTTP 404 Not Found")
    return TaskId(connector_of(request), int(text))
