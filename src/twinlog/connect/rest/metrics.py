"""`GET /metrics` and `GET /metrics.json`: the metrics for Prometheus, and by the names of MBeans.

Workers of Connect lack both paths; an agent in the JVM serves their metrics. A worker has the paths among its other
paths. A server of metrics and of the health of a worker has them at the addresses of `twinlog.metrics.listeners`, for
everyone: probes of a pod and scrapes are unable to log in.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from twinlog.connect.rest.api import RestApi, RestMethod, resource
from twinlog.connect.rest.middleware import BesideConsole
from twinlog.connect.rest.serving import BoundListener, Limits, ServerThread, bind, close, servers
from twinlog.connect.rest.worker import HEALTH, health_response
from twinlog.settings.tls import server_context
from twinlog.settings.worker import ListenerAddress, MetricsSettings
from twinlog.worker.connectors.model import Health, HealthStatus
from twinlog.worker.metrics.exposition import Pages

TEXT, JSON = "/metrics", "/metrics.json"

_LOG = logging.getLogger(__name__)
LIVE = "/live"
_HEALTH_S = 10.0


class MetricsResource:
    """The pages among the other resources of a worker, with the login of the worker."""

    def __init__(self, api: RestApi, pages: Pages) -> None:
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


def text_page(pages: Pages, request: Request) -> Response:
    """The page for Prometheus."""
    content_type, body = pages.text(request.headers.get("accept", ""))
    return Response(body, media_type=None, headers={"Content-Type": content_type})


def json_page(pages: Pages) -> Response:
    """The page by the names of MBeans."""
    return Response(pages.json(), media_type="application/json")


class MetricsServer:
    """Serves the pages from `start` to `stop`; may be started once."""

    def __init__(
        self,
        pages: Pages,
        listeners: Sequence[ListenerAddress],
        tls: ssl.SSLContext | None = None,
        health: Callable[[], HealthStatus] | None = None,
        console: ASGIApp | None = None,
    ) -> None:
        """With `health` the server also serves the health of a worker; `console` serves paths below `/ui`."""
        self._console = console
        self._pages = pages
        self._listeners = listeners
        self._tls = tls
        self._asked_health = health
        self._bound: list[BoundListener] = []
        self._serving = ServerThread("metrics-server")

    @property
    def urls(self) -> list[str]:
        """The addresses of the server, with their real ports."""
        return [str(one.listener) for one in self._bound]

    def start(self) -> None:
        """Listen, and return once every address answers. Raises OSError that names the unavailable address."""
        self._bound = bind(self._listeners, "twinlog.metrics.listeners or --metrics-listener")
        routes = [Route(TEXT, self._text), Route(JSON, self._json)]
        if self._asked_health is not None:
            routes += [Route(HEALTH, self._health), Route(LIVE, self._live)]
        app: ASGIApp = Router(routes, redirect_slashes=False, default=_unknown)
        if self._console is not None:
            app = BesideConsole(app, self._console)
        if not self._serving.begin(servers(self._bound, app, self._tls, Limits())):
            self.stop()
            raise OSError("the server of the metrics failed to start; the log has the reason")
        _LOG.info("metrics are served at %s", ", ".join(f"{url}{TEXT}" for url in self.urls))

    def stop(self) -> None:
        """Refuse new connections, and close."""
        self._serving.end()
        close(self._bound)

    async def _text(self, request: Request) -> Response:
        return await run_in_threadpool(text_page, self._pages, request)

    async def _json(self, request: Request) -> Response:
        return await run_in_threadpool(json_page, self._pages)

    async def _live(self, request: Request) -> Response:
        """Answer that this process is alive; a restart would leave an unreachable cluster as it is."""
        return PlainTextResponse("live\n")

    async def _health(self, request: Request) -> Response:
        assert self._asked_health is not None
        try:
            async with asyncio.timeout(_HEALTH_S):
                found = await asyncio.to_thread(self._asked_health)
        except TimeoutError:
            found = HealthStatus(Health.UNHEALTHY, "TW-REST-07: Worker did not answer in time.")
        return health_response(found)


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    answer = PlainTextResponse(f"There are {TEXT} for Prometheus and {JSON} by the names of MBeans.\n", 404)
    await answer(scope, receive, send)


def metrics_server(
    settings: MetricsSettings,
    pages: Pages,
    health: Callable[[], HealthStatus] | None = None,
    console: ASGIApp | None = None,
) -> MetricsServer:
    """Build the server for `twinlog.metrics.listeners`, also of a worker's `health`, and of a console.

    Raises ssl.SSLError for invalid certificates.
    """
    tls = None if settings.https is None else server_context(settings.https, settings.client_auth)
    return MetricsServer(pages, settings.listeners, tls, health, console)
