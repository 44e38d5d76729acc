"""`/connectors/{name}/topics`: the topics that a connector has used (KIP-558)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.connect.rest import responses
from twinlog.connect.rest.api import Api, connector_of
from twinlog.connect.rest.resource import resource
from twinlog.errors import RequestError


class Topics:
    """The topics of a connector since the last reset. An unknown connector has none, as in Connect."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._herder = api.herder

    def routes(self) -> list[Route]:
        one = "/connectors/{connector:encoded}/topics"
        return [
            resource(self._api, one, {"GET": self.active}),
            resource(self._api, f"{one}/reset", {"PUT": self.reset}),
        ]

    async def active(self, request: Request) -> Response:
        self._need_tracking()
        name = connector_of(request)
        return await self._api.look(
            lambda: self._herder.active_topics(name), lambda topics: {name: {"topics": list(topics)}}
        )

    async def reset(self, request: Request) -> Response:
        self._need_tracking()
        if not self._api.settings.topic_tracking_reset:
            raise RequestError(403, "Topic tracking reset is disabled.")
        name = connector_of(request)
        return await self._api.change(
            request, lambda: self._herder.reset_active_topics(name), lambda _: responses.empty(202)
        )

    def _need_tracking(self) -> None:
        if not self._api.settings.topic_tracking:
            raise RequestError(403, "Topic tracking is disabled.")
