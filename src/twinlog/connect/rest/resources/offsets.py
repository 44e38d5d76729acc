"""`/connectors/{name}/offsets`: read, alter and reset the stored offsets of a connector (KIP-875)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.connect.rest import bodies, responses
from twinlog.connect.rest.api import RestApi, connector_of
from twinlog.connect.rest.resource import resource


class OffsetsResource:
    """The stored offsets of a connector; only offsets of a stopped connector may be changed."""

    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._herder = api.herder

    def routes(self) -> list[Route]:
        methods = {"GET": self.read, "PATCH": self.alter, "DELETE": self.reset}
        return [resource(self._api, "/connectors/{connector:encoded}/offsets", methods)]

    async def read(self, request: Request) -> Response:
        name = connector_of(request)
        # The herder reads the topic to its end, which may take a while.
        return await self._api.forward_or_call(
            request,
            lambda: self._herder.offsets(name),
            lambda stored: responses.json_response(responses.offsets(stored)),
        )

    async def alter(self, request: Request) -> Response:
        name = connector_of(request)
        body, value = await self._api.json(request)
        offsets = bodies.offsets_request(value)
        return await self._api.forward_or_call(
            request, lambda: self._herder.alter_offsets(name, offsets), _message, body
        )

    async def reset(self, request: Request) -> Response:
        name = connector_of(request)
        return await self._api.forward_or_call(request, lambda: self._herder.reset_offsets(name), _message)


def _message(text: str) -> Response:
    return responses.json_response({"message": text})
