"""Headers that `response.http.headers.config` adds to every answer.

The grammar is that of Jetty's class HeaderFilter: rules in a row with commas between, each `action name: value`, in
double quotes where it holds a comma. `set` replaces, `add` goes beside; `setDate` and `addDate` take milliseconds from
now on. What an answer has of its own, such as its length, is never replaced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import formatdate

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinlog.clock import Clock

_ACTIONS = {"set": (False, False), "add": (True, False), "setdate": (False, True), "adddate": (True, True)}
_RULE = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^,"]*))\s*(?:,|$)')
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")


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


def parse_header_rules(text: str) -> tuple[HeaderRule, ...]:
    """The rules of the key's value, none of a blank one. Raises ValueError."""
    rules: list[HeaderRule] = []
    at = 0
    while at < len(text.strip()):
        match = _RULE.match(text.strip(), at)
        if match is None:
            raise ValueError(f"Invalid header config {text!r}: a quote stands inside of a rule or is never closed.")
        quoted, bare = match.groups()
        rules.append(_rule(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare.strip()))
        at = match.end()
    return tuple(rules)


def _rule(text: str) -> HeaderRule:
    action, _, header = text.strip().partition(" ")
    name, colon, value = header.strip().partition(":")
    if not colon:
        raise ValueError(f"Invalid format of header config {text!r}. Expected: '[action] [header name]:[header value]'")
    if action.lower() not in _ACTIONS:
        raise ValueError(f"Invalid header config action: {action!r}. Expected one of [set, add, setDate, addDate]")
    adds, dates = _ACTIONS[action.lower()]
    name, value = name.strip(), value.strip()
    if not _NAME.fullmatch(name):
        raise ValueError(f"Invalid header name {name!r}. The '[header name]' cannot contain whitespace")
    if not _VALUE.fullmatch(value):
        raise ValueError(f"Invalid value of the header {name!r}: it holds other characters than printable ASCII.")
    if dates and not re.fullmatch(r"[+-]?\d{1,15}", value, re.ASCII):
        raise ValueError(f"Invalid value of the header {name!r}: a date is given in milliseconds from now.")
    return HeaderRule(name, value, adds, dates)


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
