"""A server of metrics and of a worker's health for everyone, at the addresses of `twinlog.metrics.listeners`.

Probes of a pod and scrapes are unable to log in.
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
from starlette.types import Receive, Scope, Send

from twinlog.connect.rest.metric_pages import MetricPages
from twinlog.connect.rest.protocol import Limits
from twinlog.connect.rest.resources.metrics import JSON, TEXT, json_page, text_page
from twinlog.connect.rest.resources.root import HEALTH, health_response
from twinlog.connect.rest.serving import BoundListener, ServerThread, bind, close, servers
from twinlog.connectors.model import Health, HealthStatus
from twinlog.settings.metrics import ListenerAddress

_LOG = logging.getLogger(__name__)
LIVE = "/live"
_HEALTH_S = 10.0


class MetricsServer:
    """Serves the pages from `start` to `stop`; may be started once."""

    def __init__(
        self,
        pages: MetricPages,
        listeners: Sequence[ListenerAddress],
        tls: ssl.SSLContext | None = None,
        health: Callable[[], HealthStatus] | None = None,
    ) -> None:
        """With `health` the server also serves the health of a worker."""
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
        self._bound = bind(self._listeners)
        routes = [Route(TEXT, self._text), Route(JSON, self._json)]
        if self._asked_health is not None:
            routes += [Route(HEALTH, self._health), Route(LIVE, self._live)]
        router = Router(routes, redirect_slashes=False, default=_unknown)
        if not self._serving.begin(servers(self._bound, router, self._tls, Limits())):
            self.stop()
            raise OSError("the metrics are not served; the log has the reason")
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
            found = HealthStatus(Health.UNHEALTHY, "Worker did not answer in time.")
        return health_response(found)


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    answer = PlainTextResponse(f"There are {TEXT} for Prometheus and {JSON} by the names of MBeans.\n", 404)
    await answer(scope, receive, send)
