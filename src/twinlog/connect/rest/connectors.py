"""`/connectors`, and a connector with its configuration: list, create, read, change, delete."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.connect.model import ConnectorName, Created
from twinlog.connect.rest import answers, bodies
from twinlog.connect.rest.api import Api, connector_of
from twinlog.connect.rest.resource import resource
from twinlog.errors import RequestError

_EXPANSIONS = ("status", "info")


class Connectors:
    """The connectors of the group, as they were submitted."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._herder = api.herder

    def routes(self) -> list[Route]:
        one = "/connectors/{connector:encoded}"
        config = {"GET": self.config, "PUT": self.put, "PATCH": self.patch}
        return [
            resource(self._api, "/connectors", {"GET": self.names, "POST": self.create}),
            resource(self._api, one, {"GET": self.info, "DELETE": self.delete}),
            resource(self._api, f"{one}/config", config),
        ]

    async def names(self, request: Request) -> Response:
        """The names; with `expand` an object of them with status, info or both."""
        if "expand" not in request.query_params:
            return await self._api.read(self._herder.connectors, list)
        wanted = [name for name in _EXPANSIONS if name in request.query_params.getlist("expand")]
        return await self._api.read(lambda: self._expanded(wanted), dict)

    def _expanded(self, wanted: list[str]) -> dict[str, answers.Json]:
        found: dict[str, answers.Json] = {}
        for name in self._herder.connectors():
            try:
                found[name] = {what: self._expansion(what, name) for what in wanted}
            except RequestError as error:
                # It was deleted meanwhile, or has no status yet.
                if error.status != 404:
                    raise
        return found

    def _expansion(self, what: str, name: ConnectorName) -> answers.Json:
        if what == "status":
            return answers.connector_status(self._herder.status(name))
        return answers.connector(self._herder.info(name))

    async def info(self, request: Request) -> Response:
        name = connector_of(request)
        return await self._api.read(lambda: self._herder.info(name), answers.connector)

    async def config(self, request: Request) -> Response:
        name = connector_of(request)
        return await self._api.read(lambda: self._herder.info(name).config, dict)

    async def create(self, request: Request) -> Response:
        body = await self._api.body(request)
        name, config, initial = bodies.create_request(bodies.parse(body))
        return await self._api.change(
            request,
            lambda: self._herder.put(name, config, initial=initial, replace=False),
            lambda done: self._created(request, done, 201),
            body,
        )

    async def put(self, request: Request) -> Response:
        body, name = await self._api.body(request), connector_of(request)
        config = bodies.named(name, bodies.config_map(bodies.parse(body)))
        return await self._api.change(
            request,
            lambda: self._herder.put(name, config),
            lambda done: self._created(request, done, 201 if done.created else 200),
            body,
        )

    async def patch(self, request: Request) -> Response:
        body, name = await self._api.body(request), connector_of(request)
        changes = bodies.config_map(bodies.parse(body))
        return await self._api.change(
            request,
            lambda: self._herder.patch(name, changes),
            lambda done: answers.answer(answers.connector(done.info)),
            body,
        )

    async def delete(self, request: Request) -> Response:
        name = connector_of(request)
        return await self._api.change(request, lambda: self._herder.delete(name), lambda _: answers.empty(204))

    def _created(self, request: Request, done: Created, status: int) -> Response:
        where = {"Location": f"{_base(request)}/connectors/{quote(done.info.name, safe='')}"}
        return answers.answer(answers.connector(done.info), status, where if status == 201 else None)


def _base(request: Request) -> str:
    """What the client called this worker by."""
    host = request.headers.get("host", "")
    return f"{request.scope['scheme']}://{host}" if host.isascii() and host.isprintable() and host else ""
