"""A server of metrics alone, at addresses of its own and for everyone: `twinlog.metrics.listeners`."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from twinlog.connect.rest.listening import Bound, bind, close
from twinlog.connect.rest.metric_pages import MetricPages
from twinlog.connect.rest.metrics import JSON, TEXT, json_page, text_page
from twinlog.connect.rest.serving import Serving, servers
from twinlog.connect.rest.settings import Limits, Listener

_LOG = logging.getLogger(__name__)


class MetricsServer:
    """Serves the pages from `start` to `stop`; it cannot be started twice."""

    def __init__(self, pages: MetricPages, listeners: Sequence[Listener], tls: ssl.SSLContext | None = None) -> None:
        self._pages = pages
        self._listeners = listeners
        self._tls = tls
        self._bound: list[Bound] = []
        self._serving = Serving("metrics-server")

    @property
    def urls(self) -> list[str]:
        """Where it listens, with the ports it got."""
        return [str(one.listener) for one in self._bound]

    def start(self) -> None:
        """Listen, and return once every address answers. Raises OSError that names the one which cannot be had."""
        self._bound = bind(self._listeners)
        router = Router([Route(TEXT, self._text), Route(JSON, self._json)], redirect_slashes=False, default=_unknown)
        if not self._serving.begin(servers(self._bound, router, self._tls, Limits())):
            self.stop()
            raise OSError("the metrics are not served; the log has the reason")
        _LOG.info("metrics are served at %s", ", ".join(f"{url}{TEXT}" for url in self.urls))

    def stop(self) -> None:
        """Take no more connections, and close."""
        self._serving.end()
        close(self._bound)

    async def _text(self, request: Request) -> Response:
        return await run_in_threadpool(text_page, self._pages, request)

    async def _json(self, request: Request) -> Response:
        return await run_in_threadpool(json_page, self._pages)


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    answer = PlainTextResponse(f"There are {TEXT} for Prometheus and {JSON} by the names of MBeans.\n", 404)
    await answer(scope, receive, send)
