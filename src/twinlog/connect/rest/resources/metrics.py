"""`GET /metrics` and `GET /metrics.json`: the metrics for Prometheus, and by the names of MBeans.

Connect's workers lack both paths; an agent in the JVM serves their metrics.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.metric_pages import MetricPages
from twinlog.connect.rest.resource import RestMethod, resource

TEXT, JSON = "/metrics", "/metrics.json"


class MetricsResource:
    """The pages among the other resources of a worker, with the login of the worker."""

    def __init__(self, api: RestApi, pages: MetricPages) -> None:
        self._api = api
        self._pages = pages

    def routes(self) -> list[Route]:
        return [
            resource(self._api, TEXT, {"GET": RestMethod(self.text, json=False, accepts_all=True)}),
            resource(self._api, JSON, {"GET": RestMethod(self.json, json=False)}),
        ]

    async def text(self, request: Request) -> Response:
        return await self._api.pools.metrics.run(lambda: text_page(self._pages, request))

    async def json(self, request: Request) -> Response:
        return await self._api.pools.metrics.run(lambda: json_page(self._pages))


def text_page(pages: MetricPages, request: Request) -> Response:
    """The page for Prometheus."""
    content_type, body = pages.text(request.headers.get("accept", ""))
    return Response(body, media_type=None, headers={"Content-Type": content_type})


def json_page(pages: MetricPages) -> Response:
    """The page by the names of MBeans."""
    return Response(pages.json(), media_type="application/json")
