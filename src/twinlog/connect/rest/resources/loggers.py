"""`/admin/loggers`: the present levels of this worker's loggers, and their change until a restart (KIP-495, KIP-976).

Loggers have the names of Connect's classes that correspond to a logger here, so that a runbook's
`org.apache.kafka.connect.mirror` sets the level of twinlog's logger. The loggers here also have their own names. Any
other name is a logger of Python.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.clock import wall_ms
from twinlog.connect.rest import bodies, responses
from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.levels import LEVELS
from twinlog.connect.rest.resource import resource
from twinlog.errors import RequestError


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
