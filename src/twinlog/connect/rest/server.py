"""The REST server of a worker: the routes of its API, and its listeners on an event loop in a thread of its own.

The server listens from `start` on, long before the herder has read its topics; until then requests for connectors wait.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import unquote, unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from twinlog.connect.rest import responses
from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.connectors import (
    ConnectorsResource,
    ConnectorStatesResource,
    InternalConnectResource,
    TasksResource,
)
from twinlog.connect.rest.metrics import MetricsResource
from twinlog.connect.rest.middleware import AccessLog, BesideConsole, CrossOrigin, ResponseHeaders
from twinlog.connect.rest.serving import BoundListener, ServerThread, bind, close, servers
from twinlog.connect.rest.topics import OffsetsResource, TopicControlResource, TopicsResource
from twinlog.connect.rest.worker import ConnectorPluginsResource, LoggingResource, RootResource
from twinlog.settings.worker import ListenerAddress

_ORIGIN = re.compile(r"^https?://[^/]*", re.IGNORECASE)
_BROKEN = re.compile(rb"%(?![0-9A-Fa-f]{2})")

_LOG = logging.getLogger(__name__)


class _Encoded(Convertor[str]):
    """A segment of percent-encoded UTF-8; a plus sign remains a plus sign."""

    regex = "[^/;][^/]*"

    def convert(self, value: str) -> str:
        """Decode a segment, and drop the parameters after a semicolon, as JAX-RS does."""
        return unquote(value.partition(";")[0], encoding="utf-8", errors="replace")

    def to_string(self, value: str) -> str:
        raise NotImplementedError("URLs of routes are not used")


def register_encoded_segments() -> None:
    """Make `{name:encoded}` known to routes."""
    register_url_convertor("encoded", _Encoded())


def normalize_path(raw_path: bytes) -> str | None:
    """The path, still encoded, after removal of its final slash and of the host that a proxy puts before it.

    None for an undecodable path.
    """
    if _BROKEN.search(raw_path):
        return None
    try:
        if b"\0" in unquote_to_bytes(raw_path) or not unquote(raw_path, errors="strict"):
            return None
    except UnicodeDecodeError:
        return None
    path = _ORIGIN.sub("", raw_path.decode("ascii", "replace"))
    return path.rstrip("/") or "/"


register_encoded_segments()


def public_app(api: RestApi, console: ASGIApp | None = None) -> ASGIApp:
    """The application of `listeners`: all paths; `/admin` only while `admin.listeners` is unset.

    `console` is the application for paths below `/ui`.
    """
    settings = api.settings
    internal = InternalConnectResource(api)
    routes = [
        *RootResource(api).routes(),
        *ConnectorsResource(api).routes(),
        *TasksResource(api, internal).routes(),
        *ConnectorStatesResource(api).routes(),
        *OffsetsResource(api).routes(),
        *TopicsResource(api).routes(),
        *TopicControlResource(api).routes(),
        *ConnectorPluginsResource(api).routes(),
        *internal.routes(),
    ]
    if api.metrics is not None:
        routes += MetricsResource(api, api.metrics).routes()
    if settings.admin_listeners is None:
        routes += LoggingResource(api).routes()
    app = _bounded(api, Router(routes, redirect_slashes=False, default=_unknown))
    if settings.response_headers:
        app = ResponseHeaders(app, settings.response_headers, api.clock)
    if settings.allow_origin.strip():
        app = CrossOrigin(app, settings.allow_origin, settings.allow_methods)
    app = AccessLog(app, api.clock)
    return app if console is None else BesideConsole(app, console)


def admin_app(api: RestApi) -> ASGIApp:
    """The application of `admin.listeners`. It requires the same login as the other paths; Connect lets everyone in."""
    router = Router(LoggingResource(api).routes(), redirect_slashes=False, default=_unknown)
    return AccessLog(_bounded(api, router), api.clock)


def _bounded(api: RestApi, router: Router) -> ASGIApp:
    """Pass valid HTTP requests on, with headers of a bounded size and the path as sent; refuse other requests."""
    most = api.limits.header_bytes

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        refused: Response | None = None
        path = normalize_path(scope["raw_path"])
        if len(scope["raw_path"]) + len(scope["query_string"]) > most:
            refused = responses.error(414, "HTTP 414 Request-URI Too Long")
        elif sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > most:
            refused = responses.error(431, f"The headers of the request are larger than {most} bytes.")
        elif path is None:
            refused = responses.error(400, "The path of the request must be percent-encoded UTF-8.")
        if refused is not None:
            await refused(scope, receive, send)
            return
        await router({**scope, "path": path}, receive, send)

    return app


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    await responses.error(404, "HTTP 404 Not Found")(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Tls:
    """The contexts of the https listeners: from `listeners.https.*` or `ssl.*`, and from `admin.listeners.https.*`.

    Each context says whether a client needs a certificate (`verify_mode`).
    """

    public: ssl.SSLContext | None = None
    admin: ssl.SSLContext | None = None


class RestServer:
    """Serves an Api; use as a context manager, or `start()` and `stop()`. May be started once."""

    def __init__(self, api: RestApi, tls: Tls | None = None) -> None:
        self._api = api
        self._console: ASGIApp | None = None
        self._tls = tls or Tls()
        self._public: list[BoundListener] = []
        self._admin: list[BoundListener] = []
        self._serving = ServerThread("rest-server")
        self._own_address = ""

    # -- life cycle

    def mount_console(self, console: ASGIApp) -> None:
        """Serve the application for paths below `/ui` from `start` on, at all but `admin.listeners`."""
        self._console = console

    def start(self) -> None:
        """Listen, and return once every address answers.

        Raises OSError that names the unavailable listener, and ValueError for an https listener that lacks a TLS
        context.
        """
        settings = self._api.settings
        admin = settings.admin_listeners or ()
        for listeners, context in ((settings.listeners, self._tls.public), (admin, self._tls.admin)):
            if context is None and any(listener.tls for listener in listeners):
                raise ValueError("an https listener needs a key store: ssl.keystore.location, or listeners.https.ssl.*")
        self._public = bind(settings.listeners, "listeners, or in --listen for a resource")
        try:
            self._admin = bind(admin, "admin.listeners")
        except OSError:
            close(self._public)
            raise
        self._own_address = _own_address()
        limits = self._api.limits
        found = [
            *servers(self._public, public_app(self._api, self._console), self._tls.public, limits),
            *servers(self._admin, admin_app(self._api), self._tls.admin, limits),
        ]
        if not self._serving.begin(found):
            self.stop()
            raise OSError("the REST API failed to start; the log has the reason")
        _LOG.info("the REST API listens at %s and is known to others as %s", ", ".join(self.urls), self.advertised_url)
        if self._admin:
            _LOG.info("its part for administrators listens at %s", ", ".join(self.admin_urls))

    def stop(self) -> None:
        """Refuse new connections, give present requests a moment, and close."""
        self._serving.end()
        self._api.pools.close()
        close([*self._public, *self._admin])

    def __enter__(self) -> RestServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- addresses

    @property
    def urls(self) -> list[str]:
        """The addresses of the server, with their real ports, in the order of `listeners`."""
        return [str(bound.listener) for bound in self._public]

    @property
    def admin_urls(self) -> list[str]:
        """The addresses of `admin.listeners`, with their real ports."""
        return [str(bound.listener) for bound in self._admin]

    @property
    def advertised(self) -> ListenerAddress:
        """The listener by which other workers and clients call this worker: the worker's id is its host and port."""
        listeners = [bound.listener for bound in self._public]
        return self._api.settings.find_advertised(listeners, self._own_address)

    @property
    def advertised_url(self) -> str:
        """The advertised listener as a URL, with a final slash, as Connect's workers send their URLs to each other."""
        return f"{self.advertised}/"


def _own_address() -> str:
    """The address by which this machine is known, for a listener on every interface."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
