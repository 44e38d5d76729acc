"""A browser without a network: it asks an application directly, keeps cookies, and sends forms."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from starlette.types import ASGIApp, Message

DEADLINE_S = 60.0
SESSION_COOKIE, FORM_COOKIE = "twinlog-console-8081", "twinlog-console-form-8081"
"""The cookies of a console at the port of `Browser.host`."""

_TOKEN = re.compile(r'name="token" value="([^"]+)"')


class _FormFields(HTMLParser):
    """The fields of all forms of a page as a browser sends them, without its buttons."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[str]] = {}
        self._name = ""
        self._chosen: str | None = None
        self._option: str | None = None
        self._selected = False
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "input" and (given.get("type") not in ("checkbox", "radio") or "checked" in given):
            self._add(given.get("name") or "", given.get("value") or "")
        elif tag in ("select", "textarea"):
            self._name, self._chosen, self._text = given.get("name") or "", None, ""
        elif tag == "option":
            self._option, self._selected, self._text = given.get("value"), "selected" in given, ""

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "option" and (self._chosen is None or self._selected):
            self._chosen = self._text if self._option is None else self._option
        elif tag == "select":
            self._add(self._name, self._chosen or "")
        elif tag == "textarea":
            self._add(self._name, self._text)

    def _add(self, name: str, value: str) -> None:
        self.found.setdefault(name, []).append(value)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    cookies: tuple[str, ...]
    content: bytes

    @property
    def text(self) -> str:
        content = gzip.decompress(self.content) if self.headers.get("content-encoding") == "gzip" else self.content
        return content.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def fields(self) -> dict[str, list[str]]:
        """The values of the fields of its forms: the typed values, the ticked boxes and the chosen options."""
        found = _FormFields()
        found.feed(self.text)
        return found.found

    @property
    def token(self) -> str:
        """The token of the first form of the page."""
        found = _TOKEN.search(self.text)
        assert found is not None, self.text
        return found[1]


@dataclass
class Browser:
    app: ASGIApp
    host: str = "localhost:8081"
    client: str = "127.0.0.1"
    scheme: str = "http"
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, url: str, **headers: str) -> Answer:
        return self.ask("GET", url, **headers)

    def json(self, url: str) -> Any:
        answer = self.get(url, accept="application/json")
        assert answer.headers["content-type"] == "application/json"
        return answer.json

    def post(self, url: str, form: Mapping[str, str] | Sequence[tuple[str, str]] | bytes, **headers: str) -> Answer:
        body = form if isinstance(form, bytes) else urlencode(form).encode()
        return self.ask("POST", url, body, **{"content_type": "application/x-www-form-urlencoded", **headers})

    def ask(self, method: str, url: str, body: bytes = b"", **headers: str) -> Answer:
        """`headers` have underscores in place of dashes."""
        return asyncio.run(asyncio.wait_for(self._ask(method, url, body, headers), DEADLINE_S))

    def scope(self, method: str, url: str, headers: Mapping[str, str]) -> dict[str, Any]:
        parts = urlsplit(url)
        sent = {"host": self.host, "accept": "text/html,*/*", **{k.replace("_", "-"): v for k, v in headers.items()}}
        if self.cookies:
            sent.setdefault("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": self.scheme,
            "path": unquote(parts.path),
            "raw_path": parts.path.encode(),
            "root_path": "",
            "query_string": parts.query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
            "client": (self.client, 50000),
            "server": ("127.0.0.1", 8081),
            "state": {},
        }

    async def _ask(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        sent = [{"type": "http.request", "body": body, "more_body": False}]
        got: list[Message] = []

        async def receive() -> Message:
            if sent:
                return sent.pop()
            await asyncio.sleep(DEADLINE_S)
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            got.append(message)

        await self.app(self.scope(method, url, headers), receive, send)
        start = got[0]
        pairs = [(name.decode().lower(), value.decode("latin-1")) for name, value in start["headers"]]
        cookies = tuple(value for name, value in pairs if name == "set-cookie")
        self._keep(cookies)
        content = b"".join(one.get("body", b"") for one in got[1:])
        return Answer(start["status"], dict(pairs), cookies, content)

    def _keep(self, cookies: tuple[str, ...]) -> None:
        for text in cookies:
            for name, morsel in SimpleCookie(text).items():
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
