"""Binds the sockets of listeners, and serves applications on them: on a single event loop, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import cast

from starlette.types import ASGIApp
from uvicorn import Config, Server

from twinlog.connect.rest.protocol import Limits, bounded
from twinlog.settings.metrics import ListenerAddress

_WAITING = 1024
"""The connections that the system holds until the server accepts them."""


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listener with its real port and its socket."""

    listener: ListenerAddress
    socket: socket.socket


def bind(listeners: Sequence[ListenerAddress]) -> list[BoundListener]:
    """A socket for each listener. Raises OSError with the listener in its text, after the close of all sockets."""
    bound: list[BoundListener] = []
    with ExitStack() as undo:
        for listener in listeners:
            one = _bind(listener)
            undo.callback(one.socket.close)
            bound.append(one)
        undo.pop_all()
    return bound


def close(bound: Sequence[BoundListener]) -> None:
    for one in bound:
        one.socket.close()


def _bind(listener: ListenerAddress) -> BoundListener:
    try:
        found = _socket(listener)
    except OSError as error:
        # Python adds the address to the system's words; the error of an unknown name has its own words.
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise OSError(error.errno, f"cannot listen at {listener}: {reason}") from None
    return BoundListener(replace(listener, port=found.getsockname()[1]), found)


def _socket(listener: ListenerAddress) -> socket.socket:
    if not listener.host:
        if socket.has_dualstack_ipv6():
            try:
                address = ("", listener.port)
                return socket.create_server(address, family=socket.AF_INET6, backlog=_WAITING, dualstack_ipv6=True)
            except OSError:
                # The system has IPv6 turned off, or the port is taken: the try with IPv4 shows the reason.
                pass
        return socket.create_server(("", listener.port), backlog=_WAITING)
    family, _, _, _, found = socket.getaddrinfo(listener.host, listener.port, type=socket.SOCK_STREAM)[0]
    return socket.create_server((str(found[0]), int(found[1])), family=family, backlog=_WAITING)


_LOG = logging.getLogger(__name__)
_GRACE_S = 3.0
"""How long requests may run after the server stops, in seconds; then they are answered with 503."""
_START_S = 60.0


class ServerThread:
    """A thread with servers.

    `begin` starts all servers, once; `end` refuses new connections and gives requests a moment.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.servers: list[Server] = []
        """The servers that have begun."""
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._ready = threading.Event()

    def begin(self, servers: Sequence[Server]) -> bool:
        """Return once every address answers; False when an address fails, and the log has the reason."""
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        # At its finest level this logger would log headers, and logins with them.
        logging.getLogger("uvicorn.asgi").setLevel(logging.INFO)
        self.servers = list(servers)
        self._thread.start()
        self._ready.wait(_START_S)
        return all(server.started for server in self.servers)

    def end(self) -> None:
        """Refuse new connections, and give present requests a moment."""
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


def servers(bound: Sequence[BoundListener], app: ASGIApp, tls: ssl.SSLContext | None, limits: Limits) -> list[Server]:
    """A server for the https listeners and a server for the http listeners, as far as each kind is present."""
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
        # uvicorn hands the value to asyncio, which takes fractions of a second.
        timeout_graceful_shutdown=cast(int, _GRACE_S),
    )
