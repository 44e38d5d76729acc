"""A REST server over real sockets, and a client that sends what it is given and nothing else."""

from __future__ import annotations

import http.client
import json
import logging
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.unit.connect.fake_herder import FakeHerder
from twinlog.clock import SYSTEM, Clock
from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.server import RestServer, Tls
from twinlog.connect.rest.users import Users
from twinlog.settings.worker import ListenerAddress, RestSettings

LOOPBACK = (ListenerAddress("http", "127.0.0.1", 0),)
DEADLINE_S = 120.0
GETS = [
    "/",
    "/health",
    "/connectors",
    "/connectors?expand=status",
    "/connectors/c",
    "/connectors/c/config",
    "/connectors/c/status",
    "/connectors/c/tasks",
    "/connectors/c/tasks/0/status",
    "/connectors/c/topics",
    "/connectors/c/offsets",
    "/connector-plugins",
    "/admin/loggers",
    "/admin/loggers/root",
    "/connectors/x",
]
"""Paths that can be read once there is a connector `c`, and one that is none."""


@dataclass(frozen=True)
class Response:
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def message(self) -> str:
        """Of an error, whose body is checked on the way."""
        body = self.json
        assert list(body) == ["error_code", "message"]
        assert body["error_code"] == self.status
        return str(body["message"])


@dataclass(frozen=True)
class Client:
    """Asks one server, with a connection for each request."""

    url: str
    herder: FakeHerder
    server: RestServer
    tls: ssl.SSLContext | None = None

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, **more: str
    ) -> Response:
        """`body` is JSON, or bytes as they are; with one the content is JSON unless `headers` are given."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = dict(headers if headers is not None else {"Content-Type": "application/json"} if content else {})
        parts = urlsplit(more.get("url", self.url))
        host, port = parts.hostname or "", parts.port or 0
        connection = (
            http.client.HTTPSConnection(host, port, timeout=DEADLINE_S, context=self.tls)
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=DEADLINE_S)
        )
        try:
            connection.request(method, path, content, sent)
            response = connection.getresponse()
            return Response(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Response:
        return self.ask("GET", path, headers=headers or None)


@contextmanager
def kept_levels() -> Iterator[None]:
    """Every logger has the level it had before, whatever is asked of `/admin/loggers` meanwhile."""

    def loggers() -> list[logging.Logger]:
        known = list(logging.root.manager.loggerDict.values())
        return [logging.root, *(one for one in known if isinstance(one, logging.Logger))]

    before = {one.name: one.level for one in loggers()}
    try:
        yield
    finally:
        for one in loggers():
            one.setLevel(before.get(one.name, logging.NOTSET))


@contextmanager
def serving(
    settings: RestSettings | None = None,
    *,
    herder: FakeHerder | None = None,
    users: Users | None = None,
    clock: Clock = SYSTEM,
    tls: Tls | None = None,
    client_tls: ssl.SSLContext | None = None,
    **more: Any,
) -> Iterator[Client]:
    """A server on a free port of loopback, stopped after the test."""
    herder = herder or FakeHerder()
    api = RestApi(herder, settings or RestSettings(LOOPBACK), clock, users, **more)
    with RestServer(api, tls) as server:
        yield Client(server.urls[0], herder, server, client_tls)


def afresh(client: Client, config: Mapping[str, str] | None = None) -> Client:
    """The same, with nothing in its herder but the connector `c`."""
    client.herder.__dict__.update(FakeHerder().__dict__)
    assert client.ask("PUT", "/connectors/c/config", config or {"a": "b"}).status == 201
    client.herder.calls.clear()
    return client
