"""A browser without scripts, for the pages of a console."""

from __future__ import annotations

import html
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from http.cookiejar import CookieJar
from typing import Any

FIELD = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')


class Visitor:
    """Asks a console at a port of this machine."""

    def __init__(self, port: int) -> None:
        self._root = f"http://127.0.0.1:{port}/ui"
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def open(self, path: str, form: Sequence[tuple[str, str]] | Mapping[str, str] | None = None, **query: str) -> Any:
        url = f"{self._root}{path}?{urllib.parse.urlencode(query)}"
        body = None if form is None else urllib.parse.urlencode(form).encode()
        return self._opener.open(urllib.request.Request(url, body), timeout=120)

    def page(self, path: str, **query: str) -> str:
        with self.open(path, **query) as answer:
            return str(answer.read().decode())

    def json(self, path: str, **query: str) -> Any:
        with self.open(f"/api{path}", **query) as answer:
            return json.loads(answer.read())

    def hidden(self, path: str, **query: str) -> dict[str, str]:
        """The hidden fields of the last form of a page, with its token."""
        return {name: html.unescape(value) for name, value in FIELD.findall(self.page(path, **query))}

    def is_served(self) -> bool:
        try:
            return "Overview" in self.page("/")
        except OSError:
            return False
