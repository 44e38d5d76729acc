"""Headers that `response.http.headers.config` adds to every answer (Jetty's class HeaderFilter).

What an answer has of its own, such as its length, is never replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import formatdate

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinlog.clock import Clock


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """One header: `adds` beside others of its name, and `dates` for a value that is milliseconds from now."""

    name: str
    value: str
    adds: bool
    dates: bool

    def at(self, now: float) -> str:
        """The value of an answer that is sent `now`, in seconds since 1970."""
        return formatdate(now + int(self.value) / 1000, usegmt=True) if self.dates else self.value


class ResponseHeaders:
    """Adds the headers of `rules` to what `app` answers."""

    def __init__(self, app: ASGIApp, rules: tuple[HeaderRule, ...], clock: Clock) -> None:
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
            ours.append((name, rule.at(now).encode()))
        return [*ours, *own]
