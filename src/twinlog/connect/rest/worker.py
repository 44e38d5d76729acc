"""The paths of the worker itself: `/` and `/health` (KIP-1017), `/connector-plugins`, and `/admin/loggers`.

`/connector-plugins` has the classes that a configuration may name, their keys, and the check of a configuration.

`/admin/loggers` has the present levels of this worker and takes their change until a restart (KIP-495, KIP-976).
Loggers have the names of the classes of Connect that correspond to a logger here, so that
`org.apache.kafka.connect.mirror` of a runbook sets the level of the logger of twinlog. The loggers here also have their
own names. Any other name is a logger of Python.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.clock import wall_ms
from twinlog.connect.rest import bodies, responses
from twinlog.connect.rest.api import RestApi, RestMethod, flag, resource
from twinlog.connect.rest.levels import LEVELS
from twinlog.errors import RequestError
from twinlog.errors.message_ids import with_id
from twinlog.worker.connectors.model import Health, HealthStatus

HEALTH = "/health"
_STATUS = {Health.HEALTHY: 200, Health.STARTING: 503, Health.UNHEALTHY: 500}
_SILENT = "Worker did not answer in time, and may not answer other requests either."

_ALIAS_SUFFIX = "Connector"


class RootResource:
    """The identity and the health of this worker."""

    def __init__(self, api: RestApi) -> None:
        self._api = api

    def routes(self) -> list[Route]:
        return [
            resource(self._api, "/", {"GET": RestMethod(self.info, json=False)}),
            resource(self._api, HEALTH, {"GET": RestMethod(self.health, json=False)}),
        ]

    async def info(self, request: Request) -> Response:
        return await self._api.read(self._api.herder.server_info, asdict)

    async def health(self, request: Request) -> Response:
        """Answer 200, 503 while the worker starts, or 500; also 500 after a timeout of the herder."""
        try:
            async with asyncio.timeout(self._api.limits.health_s):
                found = await self._api.pools.health.run(self._api.herder.health)
        except TimeoutError:
            message = with_id(f"{_SILENT} {self._api.herder.stage()}".rstrip(), "TW-REST-07")
            found = HealthStatus(Health.UNHEALTHY, message)
        return health_response(found)


def health_response(found: HealthStatus) -> Response:
    """A worker's health as an answer: 200, 503 while it starts, or 500."""
    return responses.json_response({"status": found.health.value, "message": found.message}, _STATUS[found.health])


class ConnectorPluginsResource:
    """The classes that this worker can run."""

    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._herder = api.herder

    def routes(self) -> list[Route]:
        one = "/connector-plugins/{plugin:encoded}/config"
        return [
            resource(self._api, "/connector-plugins", {"GET": self.classes}),
            resource(self._api, one, {"GET": self.keys}),
            resource(self._api, f"{one}/validate", {"PUT": self.validate}),
        ]

    async def classes(self, request: Request) -> Response:
        only = flag(request, "connectorsOnly", default=True)
        return await self._api.read(
            lambda: self._herder.plugins(connectors_only=only), lambda found: [responses.plugin(one) for one in found]
        )

    async def keys(self, request: Request) -> Response:
        plugin, version = request.path_params["plugin"], request.query_params.get("version")
        return await self._api.read(
            lambda: self._herder.plugin_keys(plugin, version), lambda found: [responses.key(one) for one in found]
        )

    async def validate(self, request: Request) -> Response:
        """Answer 200 even for a wrong configuration: its errors are the answer."""
        _, value = await self._api.json(request)
        config = bodies.config_map(value)
        plugin: str = request.path_params["plugin"]
        included = config.get("connector.class")
        if included is not None and not _alias(included).endswith(_alias(plugin)):
            raise RequestError(400, f"Included connector type {included} does not match request type {plugin}")
        return await self._api.forward_or_call(
            request,
            lambda: self._herder.validate(plugin, config),
            lambda result: responses.json_response(responses.validation(result)),
            starting=True,
        )


def _alias(plugin: str) -> str:
    """A class with the suffix `Connector` removed, so that both forms of a name are equal."""
    return plugin.removesuffix(_ALIAS_SUFFIX) if len(plugin) > len(_ALIAS_SUFFIX) else plugin


class LoggingResource:
    """The loggers of this worker, or with `scope=cluster` of all workers."""

    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._levels = api.levels

    def routes(self) -> list[Route]:
        one = {"GET": self.level, "PUT": self.set_level}
        return [
            resource(self._api, "/admin/loggers", {"GET": self.all}),
            resource(self._api, "/admin/loggers/{logger:encoded}", one),
        ]

    async def all(self, request: Request) -> Response:
        return responses.json_response({name: _shown(found) for name, found in self._levels.list_levels().items()})

    async def level(self, request: Request) -> Response:
        name: str = request.path_params["logger"]
        found = self._levels.get_level(name)
        if found is None:
            raise RequestError(404, f"Logger {name} not found.")
        return responses.json_response(_shown(found))

    async def set_level(self, request: Request) -> Response:
        """Answer 200 with the names of the changed loggers; 204 when every worker sets the level."""
        body, value = await self._api.json(request)
        wanted = bodies.config_map(value).get("level")
        if wanted is None:
            raise RequestError(400, "Desired 'level' parameter was not specified in request.")
        if wanted.upper() not in LEVELS:
            raise RequestError(404, f"invalid log level '{wanted[:50]}'.")
        name: str = request.path_params["logger"]
        if request.query_params.get("scope", "").lower() == "cluster":
            return await self._api.forward_or_call(
                request,
                lambda: self._api.herder.set_cluster_logger_level(name, wanted.upper()),
                lambda _: responses.empty(204),
                body,
            )
        return responses.json_response(self._levels.set_level(name, wanted, wall_ms(self._api.clock)))


def _shown(found: tuple[str, int | None]) -> responses.Json:
    level, modified = found
    return {"level": level, "last_modified": modified}
