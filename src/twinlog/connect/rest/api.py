"""The common parts of the API: the herder, the threads of its calls, the way to other workers, and paths.

A path passes the steps of JAX-RS for Connect before and after the code of its resource. The order is: the method, the
type of the content and of the answer, the login, and then the request itself. HEAD is answered for every path with GET,
OPTIONS for all paths.
"""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from twinlog.clock import Clock
from twinlog.connect.herder import Herder
from twinlog.connect.rest import bodies, responses
from twinlog.connect.rest.forward import Forwarder
from twinlog.connect.rest.levels import Levels
from twinlog.connect.rest.middleware import PREFLIGHT, USER
from twinlog.connect.rest.serving import Limits
from twinlog.connect.rest.thread_pools import ThreadPool, ThreadPools
from twinlog.connect.rest.users import Users, credentials
from twinlog.connect.stage import timed_out
from twinlog.errors import NotOwnerError, RequestError, UnavailableError, UndeliveredError
from twinlog.errors.message_ids import id_first, told
from twinlog.settings.worker import RestSettings
from twinlog.worker.connectors.model import ConnectorName
from twinlog.worker.metrics.exposition import Pages

T = TypeVar("T")

AGAIN_S = 0.25
LOOK_S = (0.05, 0.5)
"""The first and the longest pause between two checks whether the worker has started."""

_TYPE = re.compile(r"\s*([\w!#$&^.+*-]+/[\w!#$&^.+*-]+)\s*(?:;.*)?", re.ASCII | re.DOTALL)
_ACCEPTED = {"application/json", "application/*", "*/*"}
_LOG = logging.getLogger(__name__)
_ORDER = ("HEAD", "POST", "DELETE", "GET", "OPTIONS", "PUT", "PATCH")
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class RestApi:
    """The API of a worker.

    `users` is None for an API that is open to everyone. `signatures` are the algorithms of signed requests between
    workers (KIP-507), None for unsigned requests. `topic_tracking` and `topic_tracking_reset` allow requests about the
    topics of a connector. After `takeover_s` seconds another worker has replaced a killed worker.
    """

    herder: Herder
    settings: RestSettings
    clock: Clock
    users: Users | None = None
    forwarder: Forwarder = field(default_factory=Forwarder)
    pools: ThreadPools = field(default_factory=ThreadPools)
    levels: Levels = field(default_factory=Levels)
    metrics: Pages | None = None
    signatures: tuple[str, ...] | None = ("HmacSHA256",)
    topic_tracking: bool = True
    topic_tracking_reset: bool = True
    takeover_s: float = 15.0
    limits: Limits = field(default_factory=Limits)

    async def wait_started(self) -> None:
        """Wait on the event loop until this worker has read the state of the connectors.

        An early request waits as in Connect, up to the time limit of every request. Raises UnavailableError once this
        worker stops.
        """
        pause_s = LOOK_S[0]
        while not self.herder.started:
            if self.herder.left:
                raise UnavailableError("This worker is stopping.")
            await asyncio.sleep(pause_s)
            pause_s = min(1.2 * pause_s, LOOK_S[1])

    async def read_state(self, call: Callable[[], T], shape: Callable[[T], Any]) -> Response:
        """Read as `read` does, after this worker has read the state of the connectors.

        A herder's method that asks a cluster is called by `forward_or_call`, whose threads may wait.
        """
        await self.wait_started()
        return await self.read(call, shape)

    async def read(self, call: Callable[[], T], shape: Callable[[T], Any], status: int = 200) -> Response:
        """Read from this worker's memory, and build the answer in the same thread."""
        return await self.pools.read.run(lambda: responses.json_response(shape(call()), status))

    async def forward_or_call(
        self,
        request: Request,
        call: Callable[[], T],
        respond: Callable[[T], Response],
        body: bytes = b"",
        pool: ThreadPool | None = None,
        *,
        starting: bool = False,
    ) -> Response:
        """Call a herder's method that may wait; forward the same request when another worker must answer.

        An unreachable worker is looked up again, until the group has noticed its end and another worker has replaced
        it, `takeover_s` after the first failure at the latest. The same holds while the workers disagree during a
        rebalance. With `starting` a worker can answer before it has started.
        """
        if not starting:
            await self.wait_started()
        until: float | None = None
        while True:
            try:
                return await (pool or self.pools.change).run(lambda: respond(call()))
            except NotOwnerError as owner:
                try:
                    return await self.pools.forward.run(self.forwarder.sending(request, owner, body))
                except UndeliveredError:
                    now = self.clock.monotonic()
                    # The other worker may have waited for long before it refused the request.
                    until = now + self.takeover_s if until is None else until
                    if now >= until:
                        raise
            await asyncio.sleep(AGAIN_S)

    async def body(self, request: Request) -> bytes:
        """The bytes of a request, within the limits."""
        limits = self.limits
        return await bodies.read_body(request, limits.body_bytes, limits.body_s)

    async def json(self, request: Request) -> tuple[bytes, Any]:
        """The bytes of a request, and the parsed content. The request must declare a body as JSON."""
        body = await self.body(request)
        if body and "content-type" not in request.headers:
            raise RequestError(415, "HTTP 415 Unsupported Media Type")
        return body, bodies.parse(body)


def connector_of(request: Request) -> ConnectorName:
    """The connector that a path names."""
    return ConnectorName(request.path_params["connector"])


def flag(request: Request, name: str, default: bool = False) -> bool:
    """A query parameter as Java's Boolean: only `true`, in any case, is true."""
    value = request.query_params.get(name)
    return default if value is None else value.lower() == "true"


def is_json(content_type: str) -> bool:
    """Whether a body of this type is JSON."""
    match = _TYPE.fullmatch(content_type)
    return match is not None and match[1].lower() == "application/json"


def accepts_json(accept: str) -> bool:
    """Whether the client accepts an answer in JSON; quality values are ignored, as in Connect."""
    found = (_TYPE.fullmatch(part) for part in accept.split(","))
    return any(match is not None and match[1].lower() in _ACCEPTED for match in found)


@dataclass(frozen=True, slots=True)
class RestMethod:
    """A method of a path, with its handler.

    With `json` the method refuses other content than JSON, with `login` it requires a login. With `accepts_all` the
    handler chooses the type of its answer.
    """

    handle: Handler
    json: bool = True
    login: bool = True
    accepts_all: bool = False


def resource(api: RestApi, path: str, methods: Mapping[str, RestMethod | Handler]) -> Route:
    """A route for every method of a path; `{name:encoded}` in it is a segment, percent-decoded."""
    full = {name: given if isinstance(given, RestMethod) else RestMethod(given) for name, given in methods.items()}
    return Route(path, RestResource(api, full))


class RestResource:
    """Answers the requests for a path. Every failure gives the client an answer with a reason."""

    def __init__(self, api: RestApi, methods: Mapping[str, RestMethod]) -> None:
        self._api = api
        self._methods = {**methods, "HEAD": methods["GET"]} if "GET" in methods else dict(methods)
        self._allow = [name for name in _ORDER if name in self._methods or name == "OPTIONS"]
        self._options = RestMethod(self._allowed, json=all(method.json for method in methods.values()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            response = await self._response(request)
        except ClientDisconnect:
            return
        except asyncio.CancelledError:
            # The server stops, and cancels the open requests.
            response = responses.error(503, "The worker is stopping.")
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        try:
            method = self._methods.get(request.method)
            if request.method == "OPTIONS":
                method = self._options
            if method is None:
                return responses.error(405, "HTTP 405 Method Not Allowed", {"Allow": ",".join(self._allow)})
            refused = _refused(request, method) or await self._stranger(request, method)
            return refused or await self._in_time(request, method)
        except RequestError as error:
            headers = {"Retry-After": "1"} if isinstance(error, UnavailableError) else None
            return responses.error(error.status, told(error), headers)
        except ClientDisconnect:
            raise
        except Exception as error:
            # The error's text is left out of the log and of the answer: it may contain a value of a configuration.
            what, where = type(error).__name__, "".join(traceback.format_tb(error.__traceback__))
            path = request.scope["raw_path"].decode("ascii", "replace")
            _LOG.error("TW-FAULT-04: an unexpected %s at %s %s:\n%s", what, request.method, path, where)
            text = f"TW-FAULT-04: The worker failed at this request with {what}; its log has the stack."
            return responses.error(500, text)

    async def _in_time(self, request: Request, method: RestMethod) -> Response:
        try:
            async with asyncio.timeout(self._api.limits.request_s):
                return await method.handle(request)
        except TimeoutError:
            raise RequestError(500, id_first(timed_out(self._api.herder.stage()))) from None

    async def _stranger(self, request: Request, method: RestMethod) -> Response | None:
        """The response to a request with a missing or wrong login; None for an allowed request."""
        users = self._api.users
        if users is None or users.everyone or not method.login or request.scope["state"].get(PREFLIGHT):
            return None
        login = credentials(request.headers.get("authorization"))
        if login is not None:
            good = users.known(login)
            if good is None:
                good = await self._api.pools.login.run(lambda: users.compare(login))
            if good:
                request.scope["state"][USER] = login.user
                return None
        ask = {"WWW-Authenticate": 'Basic realm="Kafka Connect", charset="UTF-8"'}
        return PlainTextResponse("User cannot access the resource.", 401, ask)

    async def _allowed(self, request: Request) -> Response:
        allow = {"Allow": ",".join(self._allow)}
        if "application/json" in request.headers.get("accept", "").lower():
            return Response(headers=allow, media_type="application/json")
        return Response(", ".join(self._allow), headers=allow, media_type="text/plain")


def _refused(request: Request, method: RestMethod) -> Response | None:
    """The answer to content of another type, or to a request for an answer of another type."""
    content = request.headers.get("content-type")
    if method.json and content is not None and not is_json(content):
        return responses.error(415, "HTTP 415 Unsupported Media Type")
    accepted = "" if method.accepts_all else ",".join(request.headers.getlist("accept"))
    if request.method != "OPTIONS" and accepted.strip() and not accepts_json(accepted):
        return responses.error(406, "HTTP 406 Not Acceptable")
    return None
