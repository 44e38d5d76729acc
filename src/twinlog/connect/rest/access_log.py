"""A line for each request, in NCSA's extended form with the duration in milliseconds at its end, as Connect's."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinlog.clock import Clock

_LOG = logging.getLogger(__name__)
_NOT_SHOWN = re.compile(rb'[^\x20-\x7e]|["\\]')
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

USER = "twinlog.user"
"""The key of a request's state with the name of the logged-in user."""


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
