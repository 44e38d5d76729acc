"""Serves applications on sockets that are bound already: all on one event loop, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import cast

from starlette.types import ASGIApp
from uvicorn import Config, Server

from twinlog.connect.rest.listening import Bound
from twinlog.connect.rest.protocol import bounded
from twinlog.connect.rest.settings import Limits

_LOG = logging.getLogger(__name__)
_GRACE_S = 3.0
"""How long requests may go on once the server stops; then they are answered with 503."""
_START_S = 60.0


class Serving:
    """`begin` once, with all servers; `end` takes no more connections and gives requests a moment."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.servers: list[Server] = []
        """Those that were begun."""
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._ready = threading.Event()

    def begin(self, servers: Sequence[Server]) -> bool:
        """Return once every address answers; False when one does not, and the log has the reason."""
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        # At its finest level it would log headers, and with them logins.
        logging.getLogger("uvicorn.asgi").setLevel(logging.INFO)
        self.servers = list(servers)
        self._thread.start()
        self._ready.wait(_START_S)
        return all(server.started for server in self.servers)

    def end(self) -> None:
        """Take no more connections, and give requests that are under way a moment."""
        for server in self.servers:
            server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()

    def _serve(self) -> None:
        try:
            asyncio.run(self._run())
        except Exception:
            _LOG.exception("%s has ended", self._name)
        finally:
            self._ready.set()

    async def _run(self) -> None:
        serving = [asyncio.ensure_future(server.serve()) for server in self.servers]
        while not all(server.started or task.done() for server, task in zip(self.servers, serving, strict=True)):
            await asyncio.sleep(0.005)
        self._ready.set()
        await asyncio.gather(*serving)


def servers(bound: Sequence[Bound], app: ASGIApp, tls: ssl.SSLContext | None, limits: Limits) -> list[Server]:
    """A server for the listeners with TLS and one for those without, as far as there are any."""
    found: list[Server] = []
    for secure in (False, True):
        sockets = [one.socket for one in bound if one.listener.tls == secure]
        if sockets:
            found.append(_Listening(_config(app, tls if secure else None, limits), sockets))
    return found


class _Listening(Server):
    """A server of sockets that are bound already."""

    def __init__(self, config: Config, sockets: list[socket.socket]) -> None:
        super().__init__(config)
        self._sockets = sockets

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        await super().serve(sockets or self._sockets)


def _config(app: ASGIApp, tls: ssl.SSLContext | None, limits: Limits) -> Config:
    own: Callable[[Config, Callable[[], ssl.SSLContext]], ssl.SSLContext] | None = None
    if tls is not None:
        context = tls

        def own(_: Config, __: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
            return context

    return Config(
        app,
        http=bounded(limits),
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ssl_context_factory=own,
        h11_max_incomplete_event_size=limits.header_bytes,
        timeout_keep_alive=max(1, round(limits.idle_s)),
        # It is given to asyncio, which takes parts of a second.
        timeout_graceful_shutdown=cast(int, _GRACE_S),
    )
