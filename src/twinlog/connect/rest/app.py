"""The API as an application: its routes, the normal form of paths, and the steps that each request passes."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from twinlog.connect.rest import responses
from twinlog.connect.rest.access_log import AccessLog
from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.headers import CrossOrigin, ResponseHeaders
from twinlog.connect.rest.resources.connectors import ConnectorsResource, ConnectorStatesResource, TasksResource
from twinlog.connect.rest.resources.internal import InternalConnectResource
from twinlog.connect.rest.resources.loggers import LoggingResource
from twinlog.connect.rest.resources.metrics import MetricsResource
from twinlog.connect.rest.resources.offsets import OffsetsResource
from twinlog.connect.rest.resources.plugins import ConnectorPluginsResource
from twinlog.connect.rest.resources.root import RootResource
from twinlog.connect.rest.resources.topics import TopicControlResource, TopicsResource

_ORIGIN = re.compile(r"^https?://[^/]*", re.IGNORECASE)
_BROKEN = re.compile(rb"%(?![0-9A-Fa-f]{2})")


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


def public_app(api: RestApi) -> ASGIApp:
    """The application of `listeners`: all paths; `/admin` only while `admin.listeners` is unset."""
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
    return AccessLog(app, api.clock)


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
            refused = responses.error(400, "The path of the request is not percent-encoded UTF-8.")
        if refused is not None:
            await refused(scope, receive, send)
            return
        await router({**scope, "path": path}, receive, send)

    return app


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    await responses.error(404, "HTTP 404 Not Found")(scope, receive, send)
