"""Answers to pages of other origins: `access.control.allow.origin` and `.methods`, as Jetty's CrossOriginFilter.

An origin is a name or a pattern with `*`, several with commas between. What comes from another origin is answered like
any request, only without the headers that let a browser show it. Where every origin is allowed none may use the login
that a browser keeps.
"""

from __future__ import annotations

import re

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_DEFAULT_METHODS = "GET,POST,HEAD"
_HEADERS = b"X-Requested-With,Content-Type,Accept,Origin"
_SECONDS = b"1800"


class CrossOrigin:
    """Lets pages of `origins` use what `app` answers.

    A browser's question before a request, which never carries a login, is answered here; Connect asks it for one.
    """

    def __init__(self, app: ASGIApp, origins: str, methods: str) -> None:
        self._app = app
        named = [origin.strip() for origin in origins.split(",") if origin.strip()]
        self._any = "*" in named
        self._origins = [re.compile(re.escape(origin).replace(r"\*", ".*")) for origin in named]
        listed = [method.strip() for method in (methods.strip() or _DEFAULT_METHODS).split(",")]
        self._methods = ",".join(method for method in listed if method)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        origin: bytes = headers.get(b"origin", b"")
        more = [(b"vary", b"Origin")]
        allowed = bool(origin) and self._allows(origin.decode("latin-1"))
        if allowed:
            more.append((b"access-control-allow-origin", origin))
        if allowed and not self._any:
            more.append((b"access-control-allow-credentials", b"true"))
        if allowed and scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            answer = Response()
            answer.raw_headers += [
                *more,
                (b"access-control-max-age", _SECONDS),
                (b"access-control-allow-methods", self._methods.encode("latin-1", "replace")),
                (b"access-control-allow-headers", _HEADERS),
            ]
            await answer(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        await self._app(scope, receive, with_headers)

    def _allows(self, origins: str) -> bool:
        """Whether one of the request's origins is allowed: a browser may name several with blanks between."""
        return self._any or any(
            pattern.fullmatch(origin) for origin in origins.split() if origin != "null" for pattern in self._origins
        )
