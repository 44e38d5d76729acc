"""Headers of answers: `response.http.headers.config` (Jetty class HeaderFilter), and CORS (class CrossOriginFilter).

An answer's own header, as its length, is never replaced.

An allowed origin is a name or a pattern with `*`. A request from another origin gets its answer without the headers
that let a browser show it. With all origins allowed, no page may use the login that a browser keeps.
"""

from __future__ import annotations

import re
from email.utils import formatdate

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinlog.clock import Clock
from twinlog.settings.worker import HeaderSettings

_DEFAULT_METHODS = "GET,POST,HEAD"
_HEADERS = ("X-Requested-With", "Content-Type", "Accept", "Origin")
_SECONDS = b"1800"

PREFLIGHT = "twinlog.preflight"
"""The key of a request's state that marks a browser's preflight request from an allowed origin.

A preflight request never has a login.
"""


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
