"""`/connectors`: a connector with its configuration, its state and its tasks, and requests between workers.

`status`, `restart`, `pause`, `resume`, `stop` and `tasks` follow Kafka class ConnectorsResource; `tasks-config` exists
up to Kafka 3.9 (KIP-970).

The workers of a group ask each other to store the configurations of tasks and to fence earlier tasks. Users are unable
to send these requests: the session key of the group signs them (KIP-507, Kafka class InternalRequestSignature).
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.connect.rest import bodies, responses
from twinlog.connect.rest.api import Handler, RestApi, RestMethod, connector_of, flag, resource
from twinlog.connect.rest.forward import ALGORITHM, SIGNATURE, sign, supported
from twinlog.errors import RequestError
from twinlog.worker.connectors.model import Config, ConnectorName, RestartRequest, TargetState, TaskId

_LARGEST = 2**31
_EXPANSIONS = ("status", "info")
_UNQUOTED = "!$&'()*+,=:@"


class InternalConnectResource:
    """Requests of other workers."""

    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._herder = api.herder

    def routes(self) -> list[Route]:
        """The route of `fence`; `TasksResource` has `POST /connectors/{name}/tasks`, as both share a path."""
        fence = RestMethod(self.fence, json=False, login=False)
        return [resource(self._api, "/connectors/{connector:encoded}/fence", {"PUT": fence})]

    async def put_task_configs(self, request: Request) -> Response:
        body, name = await self._api.body(request), connector_of(request)
        configs = bodies.config_list(bodies.parse(body))
        self._check(request, body)
        return await self._api.forward_or_call(
            request, lambda: self._herder.put_task_configs(name, configs), lambda _: responses.empty(204), body
        )

    async def fence(self, request: Request) -> Response:
        body, name = await self._api.body(request), connector_of(request)
        self._check(request, body)
        return await self._api.forward_or_call(
            request, lambda: self._herder.fence_tasks(name), lambda _: responses.empty(204), body
        )

    def _check(self, request: Request, body: bytes) -> None:
        """Raises RequestError unless a worker of this group has signed the body."""
        algorithms = self._api.signatures
        if algorithms is None:
            return
        algorithm, signature = request.headers.get(ALGORITHM), request.headers.get(SIGNATURE)
        if algorithm is None or signature is None:
            raise RequestError(400, "Internal request missing required signature")
        if not supported(algorithm):
            raise RequestError(400, f"Algorithm {algorithm[:50]} not available")
        try:
            given = base64.b64decode(signature, validate=True)
        except (binascii.Error, ValueError):
            raise RequestError(400, "The signature of this request is invalid base64.") from None
        if algorithm not in algorithms:
            permitted = ", ".join(algorithms)
            message = (
                f"This worker takes requests that are signed with [{permitted}], and this request is signed with "
                f"'{algorithm}'."
            )
            raise RequestError(400, f"{message} Let inter.worker.verification.algorithms be the same on every worker.")
        key = self._herder.session_key()
        if key is None:
            raise RequestError(503, "This worker is starting, and is still to read the session key of its group.")
        if not hmac.compare_digest(sign(key, body, algorithm), given):
            raise RequestError(403, "Internal request contained invalid signature.")


class ConnectorStatesResource:
    """Changes of a connector's state. A change has an effect on the connector's status a moment later."""

    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._herder = api.herder

    def routes(self) -> list[Route]:
        one = "/connectors/{connector:encoded}"
        return [
            resource(self._api, f"{one}/restart", {"POST": self.restart}),
            resource(self._api, f"{one}/pause", {"PUT": self._to(TargetState.PAUSED, 202)}),
            resource(self._api, f"{one}/resume", {"PUT": self._to(TargetState.STARTED, 202)}),
            resource(self._api, f"{one}/stop", {"PUT": self._to(TargetState.STOPPED, 204)}),
        ]

    async def restart(self, request: Request) -> Response:
        """Answer 204 for the connector's own instance; 202 with the states when tasks may be included (KIP-745)."""
        wanted = RestartRequest(connector_of(request), flag(request, "includeTasks"), flag(request, "onlyFailed"))
        return await self._api.forward_or_call(
            request,
            lambda: self._herder.restart(wanted),
            lambda status: (
                responses.empty(204)
                if status is None
                else responses.json_response(responses.connector_status(status), 202)
            ),
        )

    def _to(self, state: TargetState, done: int) -> Handler:
        async def change(request: Request) -> Response:
            name = connector_of(request)
            return await self._api.forward_or_call(
                request, lambda: self._herder.set_target_state(name, state), lambda _: responses.empty(done)
            )

        return change


class TasksResource:
    """The tasks of a connector, and the state of each task."""

    def __init__(self, api: RestApi, internal: InternalConnectResource) -> None:
        self._api = api
        self._herder = api.herder
        self._internal = internal

    def routes(self) -> list[Route]:
        one = "/connectors/{connector:encoded}"
        store = RestMethod(self._internal.put_task_configs, json=False, login=False)
        return [
            resource(self._api, f"{one}/status", {"GET": self.status}),
            resource(self._api, f"{one}/tasks", {"GET": self.tasks, "POST": store}),
            resource(self._api, f"{one}/tasks/{{task:encoded}}/status", {"GET": self.task_status}),
            resource(self._api, f"{one}/tasks/{{task:encoded}}/restart", {"POST": self.restart}),
            resource(self._api, f"{one}/tasks-config", {"GET": self.tasks_config}),
        ]

    async def status(self, request: Request) -> Response:
        name = connector_of(request)
        return await self._api.read_state(lambda: self._herder.status(name), responses.connector_status)

    async def task_status(self, request: Request) -> Response:
        task = _task_of(request)
        return await self._api.read_state(
            lambda: self._herder.task_status(task), lambda status: responses.task_status(task.task, status)
        )

    async def tasks(self, request: Request) -> Response:
        name = connector_of(request)
        return await self._api.forward_or_call(
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

        return await self._api.forward_or_call(request, lambda: self._herder.task_configs(name), respond)

    async def restart(self, request: Request) -> Response:
        task = _task_of(request)
        return await self._api.forward_or_call(
            request, lambda: self._herder.restart_task(task), lambda _: responses.empty(204)
        )


def _task_of(request: Request) -> TaskId:
    """The task that a path names; a text outside Java's `int` is answered with 404."""
    text: str = request.path_params["task"]
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10 and -_LARGEST <= int(text) < _LARGEST):
        raise RequestError(404, "HTTP 404 Not Found")
    return TaskId(connector_of(request), int(text))


class ConnectorsResource:
    """The connectors of the group, as they were submitted."""

    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._herder = api.herder
        self._lists: dict[tuple[str, ...], tuple[int, bytes]] = {}
        """The last list of each kind, with the revision of its contents: consoles repeat their request."""

    def routes(self) -> list[Route]:
        one = "/connectors/{connector:encoded}"
        config = {"GET": self.config, "PUT": self.put, "PATCH": self.patch}
        return [
            resource(self._api, "/connectors", {"GET": self.names, "POST": self.create}),
            resource(self._api, one, {"GET": self.info, "DELETE": self.delete}),
            resource(self._api, f"{one}/config", config),
        ]

    async def names(self, request: Request) -> Response:
        """Answer the names; with `expand` an object of the names with status, info or both."""
        if "expand" not in request.query_params:
            return await self._api.read_state(self._herder.connectors, list)
        wanted = tuple(name for name in _EXPANSIONS if name in request.query_params.getlist("expand"))
        revision = self._herder.revision()
        kept = self._lists.get(wanted)
        if revision is not None and kept is not None and kept[0] == revision:
            return responses.written(kept[1])
        response = await self._api.read_state(lambda: self._expanded(wanted), dict)
        if revision is not None:
            self._lists[wanted] = revision, bytes(response.body)
        return response

    def _expanded(self, wanted: tuple[str, ...]) -> dict[str, responses.Json]:
        found: dict[str, responses.Json] = {}
        for name in self._herder.connectors():
            try:
                found[name] = {what: self._expansion(what, name) for what in wanted}
            except RequestError as error:
                # The connector was deleted meanwhile, or its status is still missing.
                if error.status != 404:
                    raise
        return found

    def _expansion(self, what: str, name: ConnectorName) -> responses.Json:
        if what == "status":
            return responses.connector_status(self._herder.status(name))
        return responses.connector(self._herder.info(name))

    async def info(self, request: Request) -> Response:
        name = connector_of(request)
        return await self._api.read_state(lambda: self._herder.info(name), responses.connector)

    async def config(self, request: Request) -> Response:
        name = connector_of(request)
        return await self._api.read_state(lambda: self._herder.info(name).config, dict)

    async def create(self, request: Request) -> Response:
        body, value = await self._api.json(request)
        name, config, initial = bodies.create_request(value)
        response = await self._api.forward_or_call(
            request,
            lambda: self._herder.put(name, config, initial=initial, replace=False),
            lambda done: responses.json_response(responses.connector(done.info), 201),
            body,
        )
        return _located(request, name, response)

    async def put(self, request: Request) -> Response:
        name = connector_of(request)
        body, value = await self._api.json(request)
        config = bodies.named(name, bodies.config_map(value))
        response = await self._api.forward_or_call(
            request,
            lambda: self._herder.put(name, config),
            lambda done: responses.json_response(responses.connector(done.info), 201 if done.created else 200),
            body,
        )
        return _located(request, name, response)

    async def patch(self, request: Request) -> Response:
        name = connector_of(request)
        body, value = await self._api.json(request)
        changes = bodies.keeping_name(name, bodies.config_map(value))
        return await self._api.forward_or_call(
            request,
            lambda: self._herder.patch(name, changes),
            lambda done: responses.json_response(responses.connector(done.info)),
            body,
        )

    async def delete(self, request: Request) -> Response:
        name = connector_of(request)
        return await self._api.forward_or_call(
            request, lambda: self._herder.delete(name), lambda _: responses.empty(204)
        )


def _located(request: Request, name: ConnectorName, response: Response) -> Response:
    """The answer with the address of a created connector, at the worker that received the client's request."""
    if response.status_code == 201:
        response.headers["Location"] = f"{_base(request)}/connectors/{quote(name, safe=_UNQUOTED)}"
    return response


def _base(request: Request) -> str:
    """The address of this worker, as the client called it."""
    host = request.headers.get("host", "")
    return f"{request.scope['scheme']}://{host}" if host.isascii() and host.isprintable() and host else ""
