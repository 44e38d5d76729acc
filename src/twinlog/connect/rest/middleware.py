"""The steps around each request: its line in the access log, and the headers of its answer.

The line has the extended form of NCSA with the duration in milliseconds at its end, as in Connect.

The headers are those of `response.http.headers.config` (Jetty class HeaderFilter), and of CORS (class
CrossOriginFilter). An answer keeps its own headers, as its length. An allowed origin is a name or a pattern with `*`.
An answer to any other origin lacks the headers that let a browser show it. With all origins allowed, no page may use
the login that a browser keeps.
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from email.utils import formatdate

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinlog.clock import Clock
from twinlog.settings.worker import HeaderSettings

_LOG = logging.getLogger("twinlog.connect.rest.access_log")
_NOT_SHOWN = re.compile(rb'[^\x20-\x7e]|["\\]')
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

USER = "twinlog.user"
"""The key of a request's state with the name of the logged-in user."""

_DEFAULT_METHODS = "GET,POST,HEAD"
_HEADERS = ("X-Requested-With", "Content-Type", "Accept", "Origin")
_SECONDS = b"1800"
PREFLIGHT = "twinlog.preflight"
"""The key of a request's state that marks a browser's preflight request from an allowed origin.

A preflight request never has a login.
"""


CONSOLE_ROOT = "/ui"


class BesideConsole:
    """Passes requests for `/ui`, and below it, to `console`, and all others to `app`."""

    def __init__(self, app: ASGIApp, console: ASGIApp) -> None:
        self._app = app
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        below = path == CONSOLE_ROOT or path.startswith(f"{CONSOLE_ROOT}/")
        await (self._console if below else self._app)(scope, receive, send)


class AccessLog:
    """Logs the answers of `app`: user, request, status, bytes of the body, and duration."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _LOG.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        began = self._clock.monotonic()
        status = size = 0

        async def counted(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            elif scope["method"] != "HEAD":
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            milliseconds = int((self._clock.monotonic() - began) * 1000)
            _LOG.info("%s %d", _line(scope, self._clock.wall(), status, size), milliseconds)


def _line(scope: Scope, now: float, status: int, size: int) -> str:
    client = scope.get("client")
    headers = dict(scope["headers"])
    path: bytes = scope["raw_path"]
    if scope["query_string"]:
        path += b"?" + scope["query_string"]
    return (
        f"{client[0] if client else '-'} - {_shown(scope['state'].get(USER, '').encode())} [{_date(now)}] "
        f'"{_shown(scope["method"].encode())} {_shown(path)} HTTP/{scope["http_version"]}" {status or "-"} {size} '
        f'"{_shown(headers.get(b"referer", b""))}" "{_shown(headers.get(b"user-agent", b""))}"'
    )


def _shown(text: bytes) -> str:
    """A client's text on a single line, with a bound."""
    return _NOT_SHOWN.sub(lambda found: b"\\x%02x" % ord(found[0]), text[:2000]).decode("ascii") or "-"


def _date(now: float) -> str:
    moment = datetime.fromtimestamp(now, UTC)
    return moment.strftime(f"%d/{_MONTHS[moment.month - 1]}/%Y:%H:%M:%S +0000")


class CrossOrigin:
    """Lets pages of `origins` use the answers of `app`."""

    def __init__(self, app: ASGIApp, origins: str, methods: str) -> None:
        self._app = app
        named = _listed(origins)
        self._any = "*" in named
        self._origins = [re.compile(re.escape(origin).replace(r"\*", ".*")) for origin in named]
        self._methods = _listed(methods) or _listed(_DEFAULT_METHODS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        method = headers.get(b"access-control-request-method", "")
        preflight = scope["method"] == "OPTIONS" and bool(method)
        more = [(b"vary", b"Origin")]
        if self._allows(headers.get(b"origin", "")):
            wanted = headers.get(b"access-control-request-headers", "")
            if preflight and self._takes(method, wanted):
                scope["state"][PREFLIGHT] = True
                more += [*self._let(headers[b"origin"]), *self._exposed()]
            elif not preflight:
                more += self._let(headers[b"origin"])

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        await self._app(scope, receive, with_headers)

    def _allows(self, origins: str) -> bool:
        """Whether an origin of the request is allowed: a browser may name several origins, separated by blanks."""
        named = [origin for origin in origins.split() if origin != "null"]
        return bool(named) and (
            self._any or any(pattern.fullmatch(origin) for origin in named for pattern in self._origins)
        )

    def _takes(self, method: str, headers: str) -> bool:
        """Whether a page may send this method with these headers."""
        known = {header.lower() for header in _HEADERS}
        return method in self._methods and all(header.lower() in known for header in _listed(headers))

    def _let(self, origin: str) -> list[tuple[bytes, bytes]]:
        let = [(b"access-control-allow-origin", origin.encode("latin-1"))]
        return let if self._any else [*let, (b"access-control-allow-credentials", b"true")]

    def _exposed(self) -> list[tuple[bytes, bytes]]:
        """The parts of the answer that a browser keeps, and for how many seconds."""
        return [
            (b"access-control-max-age", _SECONDS),
            (b"access-control-allow-methods", ",".join(self._methods).encode("latin-1", "replace")),
            (b"access-control-allow-headers", ",".join(_HEADERS).encode()),
        ]


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


class ResponseHeaders:
    """Adds the headers of `rules` to the answers of `app`."""

    def __init__(self, app: ASGIApp, rules: tuple[HeaderSettings, ...], clock: Clock) -> None:
        self._app = app
        self._rules = rules
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = self._ours(list(message.get("headers", [])))
            await send(message)

        await self._app(scope, receive, with_headers)

    def _ours(self, own: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        theirs = {name.lower() for name, _ in own}
        now = self._clock.wall()
        ours: list[tuple[bytes, bytes]] = []
        for rule in self._rules:
            name = rule.name.lower().encode()
            if name in theirs:
                continue
            if not rule.adds:
                ours = [header for header in ours if header[0] != name]
            value = formatdate(now + int(rule.value) / 1000, usegmt=True) if rule.dates else rule.value
            ours.append((name, value.encode()))
        return [*ours, *own]
