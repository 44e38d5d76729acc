"""What a connector is to be: `restart`, `pause`, `resume` and `stop`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.connect.rest import responses
from twinlog.connect.rest.api import Api, connector_of, flag
from twinlog.connect.rest.resource import Handler, resource
from twinlog.connectors.model import Restart, TargetState


class States:
    """Changes of a connector's state. Their effect shows in its status a moment later."""

    def __init__(self, api: Api) -> None:
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
        """204 for the connector's own instance; 202 with the states when its tasks may be meant (KIP-745)."""
        wanted = Restart(connector_of(request), flag(request, "includeTasks"), flag(request, "onlyFailed"))
        return await self._api.change(
            request,
            lambda: self._herder.restart(wanted),
            lambda status: (
                responses.json_response(responses.connector_status(status), 202)
                if wanted.whole
                else responses.empty(204)
            ),
        )

    def _to(self, state: TargetState, done: int) -> Handler:
        async def change(request: Request) -> Response:
            name = connector_of(request)
            return await self._api.change(
                request, lambda: self._herder.set_target_state(name, state), lambda _: responses.empty(done)
            )

        return change
