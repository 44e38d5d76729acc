"""`GET /` and `GET /health`: the identity and the health of this worker (KIP-1017)."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.connect.rest import responses
from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.resource import RestMethod, resource
from twinlog.connectors.model import Health, HealthStatus

HEALTH = "/health"
_STATUS = {Health.HEALTHY: 200, Health.STARTING: 503, Health.UNHEALTHY: 500}
_SILENT = "Worker did not answer in time, and may not answer other requests either."


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
            message = f"{_SILENT} {self._api.herder.stage()}".rstrip()
            found = HealthStatus(Health.UNHEALTHY, message)
        return health_response(found)


def health_response(found: HealthStatus) -> Response:
    """A worker's health as an answer: 200, 503 while it starts, or 500."""
    return responses.json_response({"status": found.health.value, "message": found.message}, _STATUS[found.health])
