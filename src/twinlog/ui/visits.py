"""A request of a browser or of a script: its login, its session, its form, and the answer to every failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from twinlog.connect.rest.bodies import read_body
from twinlog.connect.rest.users import credentials
from twinlog.errors import ConfigError, OptionError, PatternError, RefusedError, RequestError, TwinlogError
from twinlog.errors.message_ids import told
from twinlog.ui.assets import takes_gzip
from twinlog.ui.faults import log_fault
from twinlog.ui.guards import address_of, port_of, require_own_machine, require_same_origin
from twinlog.ui.login.sessions import COOKIE, SECURE_COOKIE, ConsoleSession, cookie_of, transient_session
from twinlog.ui.rendering import ConsolePage, PageFrame
from twinlog.ui.site import ConsoleSite

TOKEN_FIELD, TOKEN_HEADER = "token", "x-csrf-token"
LIVE_HEADER = "x-live"
"""Marks a request of a script that keeps a page up to date: the session ends at the same time as before."""

_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 5_000
"""A form of a migration has a box for each topic and each group."""

_OPEN_BYTES, _OPEN_FIELDS = 64 * 1024, 100
"""The bounds of a form that everyone may send."""
_TITLES = {
    400: "The request is wrong",
    401: "Please log in",
    403: "Refused",
    404: "Unknown",
    405: "Impossible",
    413: "Too large",
    429: "Too many tries",
    502: "A cluster is silent",
}


@dataclass(frozen=True, slots=True)
class Visit:
    """A request with its session; `form` has the fields of a form that was sent, `fields` all values of each field.

    `takes_json` says that the answer of a page is JSON.
    """

    request: Request
    session: ConsoleSession
    form: Mapping[str, str]
    fields: Sequence[tuple[str, str]] = ()
    takes_json: bool = False

    @property
    def user(self) -> str:
        return self.session.user

    @property
    def address(self) -> str:
        return address_of(self.request)

    def query(self, name: str, default: str = "") -> str:
        """A parameter of the URL."""
        return self.request.query_params.get(name, default)

    def ticked(self, name: str) -> tuple[str, ...]:
        """The values of the boxes of a form that the user ticked, each value once."""
        return tuple(dict.fromkeys(value for field, value in self.fields if field == name))

    @property
    def url(self) -> str:
        """The path and the query of the page."""
        return url_of(self.request)

    @property
    def secure(self) -> bool:
        """Whether the request came over TLS."""
        return is_secure(self.request)


Handler = Callable[[Visit], Awaitable[ConsolePage | Response]]


def page_routes(
    site: ConsoleSite, path: str, get: Handler | None = None, post: Handler | None = None, *, open_to_all: bool = False
) -> list[Route]:
    """The routes of a page: `/ui/PATH`, and its twin `/ui/api/PATH`, which always answers JSON."""
    page = ConsoleEndpoint(site, get, post, open_to_all=open_to_all)
    twin = ConsoleEndpoint(site, get, post, open_to_all=open_to_all, always_json=True)
    # Flows of Connect have any name, so names are parameters of the URL in place of parts of its path.
    return [Route(f"{site.root}{path}", page), Route(f"{site.root}/api{path.rstrip('/') or '/overview'}", twin)]


class ConsoleEndpoint:
    """Answers the requests for a page. Every failure gets an answer with a reason; only the log has stacks."""

    def __init__(
        self,
        site: ConsoleSite,
        get: Handler | None,
        post: Handler | None,
        *,
        open_to_all: bool = False,
        always_json: bool = False,
    ) -> None:
        """The page requires a login if there are users, except with `open_to_all`."""
        self._site = site
        self._handlers = {"GET": get, "HEAD": get, "POST": post}
        self._open = open_to_all
        self._always_json = always_json

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            response = await self._response(request)
        except ClientDisconnect:
            return
        except asyncio.CancelledError:
            response = self._problem(request, 503, "The console is stopping.")
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except TwinlogError as error:
            return self._problem(request, *answer_to(error))
        except ClientDisconnect:
            raise
        except Exception as error:
            return self._problem(request, 500, log_fault(error, f"{request.method} {request.scope['path']}"))

    async def _answer(self, request: Request) -> Response:
        handler = self._handlers.get(request.method)
        if handler is None:
            allow = ", ".join(name for name, one in self._handlers.items() if one is not None)
            return self._problem(request, 405, f"The page refuses {request.method}.", {"Allow": allow})
        if not self._site.settings.needs_login:
            require_own_machine(request)
        session, new = await self._session(request)
        if session is None:
            return self._ask_login(request)
        fields: Sequence[tuple[str, str]] = ()
        if request.method == "POST":
            require_same_origin(request)
            fields = await self._fields(request)
        form = dict(fields)
        if request.method == "POST" and not self._open and not self._is_own(request, session, form):
            raise RequestError(403, "The form is of an earlier session: go back, load the page again, and send it.")
        visit = Visit(request, session, form, fields, wants_json(request, always=self._always_json))
        response = await (self._share(visit, handler) if wants_part(visit) else self._make(visit, handler))
        if new:
            set_session(response, session, request)
        return response

    async def _make(self, visit: Visit, handler: Handler) -> Response:
        found = await handler(visit)
        return self._render(visit, found) if isinstance(found, ConsolePage) else found

    async def _share(self, visit: Visit, handler: Handler) -> Response:
        """The live part of a page, made once for all browsers if the page is shared."""
        parts, url = self._site.live_parts, visit.url
        versions = parts.versions(url)
        part = parts.find(url, versions)
        if part is not None:
            return part.answer(packs=takes_gzip(visit.request.headers.get("accept-encoding", "")))
        found = await handler(visit)
        if not isinstance(found, ConsolePage):
            return found
        response = self._render(visit, found)
        parts.keep(url, found, versions, response)
        return response

    async def _session(self, request: Request) -> tuple[ConsoleSession | None, bool]:
        """The session of a request, None if a login is missing; and whether the answer brings the browser its name."""
        site, needs_login = self._site, self._site.settings.needs_login
        found = site.sessions.find(session_name(request), uses=LIVE_HEADER not in request.headers)
        if found is not None and (bool(found.user) or not needs_login):
            return found, False
        if self._open:
            return transient_session(), False
        if needs_login:
            return await self._scripted(request), False
        if wants_json(request, always=self._always_json) or request.method == "POST":
            return transient_session(), False
        return site.sessions.begin(""), True

    async def _scripted(self, request: Request) -> ConsoleSession | None:
        """A session for a single request of a script with a login in its header. Forms need the session of a page."""
        login = credentials(request.headers.get("authorization"))
        if login is None or request.method == "POST" or not self._site.settings.has_passwords:
            return None
        await self._site.logins.check(login, address_of(request))
        session = transient_session()
        session.user = login.user
        session.authorization = login.authorization if self._site.settings.keeps_logins else None
        return session

    async def _fields(self, request: Request) -> Sequence[tuple[str, str]]:
        settings = self._site.settings
        content = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        most_bytes, most_fields = (_OPEN_BYTES, _OPEN_FIELDS) if self._open else (settings.body_bytes, _MOST_FIELDS)
        body = await read_body(request, most_bytes, settings.body_s)
        if body and content != _FORM:
            raise RequestError(415, f"A form is sent as {_FORM}.")
        try:
            return parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=most_fields)
        except ValueError:
            raise RequestError(400, "The form is malformed.") from None

    def _is_own(self, request: Request, session: ConsoleSession, form: Mapping[str, str]) -> bool:
        token = request.headers.get(TOKEN_HEADER) or form.get(TOKEN_FIELD, "")
        return self._site.sessions.is_token(session.name, token)

    def _ask_login(self, request: Request) -> Response:
        page = quote(url_of(request), safe="/", errors="replace")
        login = f"{self._site.root}/login?next={page}"
        if "hx-request" in request.headers:
            return Response(status_code=401, headers={"HX-Redirect": login})
        if wants_json(request, always=self._always_json) or request.method == "POST":
            return self._problem(request, 401, "A login is missing, or the session has ended.")
        return RedirectResponse(login, 303)

    def _render(self, visit: Visit, page: ConsolePage) -> Response:
        if visit.takes_json:
            return self._site.renderer.json(page)
        return render(self._site, visit, page)

    def _problem(self, request: Request, status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
        title = _TITLES.get(status, "It failed" if status >= 500 else "The request is wrong")
        data = {"error_code": status, "message": text}
        page = ConsolePage("error.html", "", title, data, status, headers=headers or {})
        if wants_json(request, always=self._always_json):
            return self._site.renderer.json(page)
        session = self._site.sessions.find(session_name(request), uses=False) or transient_session()
        return render(self._site, Visit(request, session, {}), page)


def answer_to(error: TwinlogError) -> tuple[int, str]:
    """The status and the text of the answer to a request that failed."""
    if isinstance(error, RequestError):
        return error.status, error.message
    if isinstance(error, OptionError | PatternError | ConfigError):
        return 400, told(error)
    return (403 if isinstance(error, RefusedError) else 502), told(error)


def with_mistake(page: ConsolePage, error: TwinlogError) -> ConsolePage:
    """The page of a form as the answer to this form with a mistake; as JSON it has the fields of every failure."""
    status, text = answer_to(error)
    return replace(page, data={**page.data, "mistake": text, "error_code": status, "message": text}, status=status)


def render(site: ConsoleSite, visit: Visit, page: ConsolePage) -> Response:
    """The page as HTML, or only its live part, as the browser asks for."""
    token, version = site.sessions.token(visit.session.name), site.live.versions(page.live)
    frame = PageFrame(visit.user, token, visit.url, site.settings.needs_login, version)
    return site.renderer.html(page, frame, partial=wants_part(visit))


def wants_part(visit: Visit) -> bool:
    """Whether the answer is only the live part of a page, as HTML."""
    headers = visit.request.headers
    asks = visit.request.method == "GET" and "hx-request" in headers and not visit.takes_json
    return asks and headers.get("hx-target", "").endswith("#live")


def wants_json(request: Request, *, always: bool = False) -> bool:
    """Whether the answer is JSON: the path says so, or the client accepts JSON alone."""
    accept = request.headers.get("accept", "").lower()
    return always or ("application/json" in accept and "text/html" not in accept)


def session_name(request: Request) -> str:
    """The name of the session that the browser sends, "" if it is missing."""
    return request.cookies.get(session_cookie(request), "")


def session_cookie(request: Request) -> str:
    """The name of the cookie with the name of the session."""
    return cookie_of(SECURE_COOKIE if is_secure(request) else COOKIE, port_of(request))


def url_of(request: Request) -> str:
    """The path and the query of a request. A URL of Starlette would begin with the host that the client names."""
    path, query = str(request.scope["path"]), request.scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


def is_secure(request: Request) -> bool:
    """Whether a request came over TLS."""
    return bool(request.scope.get("scheme", "http") == "https")


def set_session(response: Response, session: ConsoleSession, request: Request, *, behind_tls: bool = False) -> None:
    """Bring the browser the name of its session; the browser forgets it at its end. With `behind_tls` a proxy ends the
    TLS of the browser."""
    name, secure = session_cookie(request), is_secure(request)
    path = "/" if secure else "/ui"
    response.set_cookie(name, session.name, path=path, secure=secure or behind_tls, httponly=True, samesite="strict")


def drop_session(response: Response, request: Request) -> None:
    """Let the browser forget its session."""
    name, secure = session_cookie(request), is_secure(request)
    path = "/" if secure else "/ui"
    response.delete_cookie(name, path=path, secure=secure, httponly=True, samesite="strict")
