"""The console as an application for a server: every page below `/ui`, with its guards around it."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from twinlog.clock import SYSTEM, Clock
from twinlog.errors import RequestError
from twinlog.ui.assets import takes_gzip
from twinlog.ui.events import EventStreams
from twinlog.ui.guards import SecurityHeaders
from twinlog.ui.live.parts import LEVEL, PACKED_FROM
from twinlog.ui.pages.connectors.connectors import ConnectorsPages
from twinlog.ui.pages.connectors.forms import ConnectorFormPages
from twinlog.ui.pages.connectors.offsets import ConnectorOffsetsPages
from twinlog.ui.pages.flow import FlowPage
from twinlog.ui.pages.groups import GroupsPages
from twinlog.ui.pages.login import LoginPages
from twinlog.ui.pages.migration import MigrationPages
from twinlog.ui.pages.overview import OverviewPage
from twinlog.ui.pages.readiness import ReadinessPage
from twinlog.ui.pages.switchover import SwitchoverPages
from twinlog.ui.pages.topics.actions import TopicActionPages
from twinlog.ui.pages.topics.records import RecordsPages
from twinlog.ui.pages.topics.topic import TopicPage
from twinlog.ui.pages.topics.topics import TopicsPage
from twinlog.ui.rendering import ConsolePage
from twinlog.ui.site import ConsoleSettings, ConsoleSite
from twinlog.ui.sources import ConsoleSources
from twinlog.ui.visits import ConsoleEndpoint, Visit

_MOST_URL, _MOST_HEADERS = 8 * 1024, 32 * 1024


class ConsoleApp:
    """An application for paths below `/ui`; `close` ends its threads and the streams of browsers."""

    def __init__(self, site: ConsoleSite) -> None:
        self.site = site
        unknown = ConsoleEndpoint(site, self._unknown, self._unknown)
        routes = [
            Route("/", RedirectResponse(f"{site.root}/", 307)),
            Route(site.root, RedirectResponse(f"{site.root}/", 307)),
            Route(site.assets.path, ConsoleEndpoint(site, self._asset, None, open_to_all=True)),
            *OverviewPage(site).routes(),
            *FlowPage(site).routes(),
            *TopicsPage(site).routes(),
            *TopicPage(site).routes(),
            *TopicActionPages(site).routes(),
            *GroupsPages(site).routes(),
            *ReadinessPage(site).routes(),
            *SwitchoverPages(site).routes(),
            *RecordsPages(site).routes(),
            *MigrationPages(site).routes(),
            *ConnectorsPages(site).routes(),
            *ConnectorFormPages(site).routes(),
            *ConnectorOffsetsPages(site).routes(),
            *LoginPages(site).routes(),
            *EventStreams(site).routes(),
        ]
        self.routes: Sequence[Route] = tuple(routes)
        """Every path of the console; all other paths are unknown."""
        router = Router(routes, redirect_slashes=False, default=unknown)
        self._app: ASGIApp = SecurityHeaders(_BoundedRequests(_PackedAnswers(router)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def close(self) -> None:
        """End the threads and the streams; a request after that may fail."""
        self.site.close()

    async def _asset(self, visit: Visit) -> Response:
        """A file of the pages. The page of the login has it, too, so everyone may read it."""
        return self.site.assets.answer(visit.request)

    async def _unknown(self, visit: Visit) -> ConsolePage | Response:
        raise RequestError(404, "The page is unknown.")


def console_app(sources: ConsoleSources, settings: ConsoleSettings | None = None, clock: Clock = SYSTEM) -> ConsoleApp:
    """The console of these flows."""
    return ConsoleApp(ConsoleSite(sources, settings or ConsoleSettings(), clock))


class _PackedAnswers:
    """Compresses large answers for clients that take gzip; Starlette compresses also for `gzip;q=0`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = GZipMiddleware(app, PACKED_FROM, LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not takes_gzip(Headers(scope=scope).get("accept-encoding", "")):
            headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"accept-encoding"]
            scope = {**scope, "headers": headers}
        await self._app(scope, receive, send)


class _BoundedRequests:
    """Refuses requests with a long URL or large headers, and ignores all but HTTP."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if size > _MOST_URL:
            await Response("The URL is too long.", 414)(scope, receive, send)
        elif sum(len(name) + len(value) for name, value in scope["headers"]) > _MOST_HEADERS:
            await Response("The headers are too large.", 431)(scope, receive, send)
        else:
            await self._app(scope, receive, send)
