"""A path of the API with its methods: the steps of JAX-RS for Connect before and after a resource's own code.

The order is: the method, the type of the content and of the answer, the login, and then the request itself. HEAD is
answered for every path with GET, OPTIONS for all paths.
"""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from twinlog.connect.rest import responses
from twinlog.connect.rest.access_log import USER
from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.headers import PREFLIGHT
from twinlog.connect.rest.users import credentials
from twinlog.connect.stage import timed_out
from twinlog.errors import RequestError, UnavailableError

_TYPE = re.compile(r"\s*([\w!#$&^.+*-]+/[\w!#$&^.+*-]+)\s*(?:;.*)?", re.ASCII | re.DOTALL)
_ACCEPTED = {"application/json", "application/*", "*/*"}


def is_json(content_type: str) -> bool:
    """Whether a body of this type is JSON."""
    match = _TYPE.fullmatch(content_type)
    return match is not None and match[1].lower() == "application/json"


def accepts_json(accept: str) -> bool:
    """Whether the client accepts an answer in JSON; quality values are ignored, as in Connect."""
    found = (_TYPE.fullmatch(part) for part in accept.split(","))
    return any(match is not None and match[1].lower() in _ACCEPTED for match in found)


_LOG = logging.getLogger(__name__)

_ORDER = ("HEAD", "POST", "DELETE", "GET", "OPTIONS", "PUT", "PATCH")

Handler = Callable[[Request], Awaitable[Response]]


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
            return responses.error(error.status, error.message, headers)
        except ClientDisconnect:
            raise
        except Exception as error:
            # The error's text is left out of the log and of the answer: it may contain a value of a configuration.
            what, where = type(error).__name__, "".join(traceback.format_tb(error.__traceback__))
            path = request.scope["raw_path"].decode("ascii", "replace")
            _LOG.error("an unexpected %s at %s %s:\n%s", what, request.method, path, where)
            return responses.error(500, f"The worker failed at this request with {what}; its log has the stack.")

    async def _in_time(self, request: Request, method: RestMethod) -> Response:
        try:
            async with asyncio.timeout(self._api.limits.request_s):
                return await method.handle(request)
        except TimeoutError:
            raise RequestError(500, timed_out(self._api.herder.stage())) from None

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
