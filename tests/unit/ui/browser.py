"""A browser without a network: it asks an application directly, keeps cookies, and sends forms."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.types import ASGIApp, Message

DEADLINE_S = 60.0
_TOKEN = re.compile(r'name="token" value="([^"]+)"')


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

    def post(self, url: str, form: Mapping[str, str] | bytes, **headers: str) -> Answer:
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
            "path": parts.path,
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
