"""Serves applications at listeners: their sockets, the thread of the event loop, and HTTP over a connection.

The protocol is that of uvicorn, with bounds on the resources of a client between requests. A client that sends a
request byte by byte, or is silent, is disconnected after a while. Beyond a number of connections, the connection with
the longest idle time makes room. Input other than HTTP is answered with the body of every error.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, cast

import h11
from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from twinlog.errors import ListenError
from twinlog.settings.worker import ListenerAddress

_LINGER_S = 1.0

_WAITING = 1024
"""The connections that the system holds until the server accepts them."""

_LOG = logging.getLogger(__name__)
_GRACE_S = 3.0
"""How long requests may run after the server stops, in seconds; then they are answered with 503."""

_FIRST_S = 2.0
"""How long after its beginning a connection may bring its first request while the server stops, in seconds."""

_ACCEPTED_S = 0.05
"""From the last accept to the shutdown of all connections, in seconds."""

_START_S = 60.0

_DATE_S = 1.0

_WAYS_OUT = {
    errno.EADDRINUSE: "end the process that has the address, or write another address in",
    errno.EACCES: "write a port above 1023 in",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a client may take of this worker: bytes, seconds, connections.

    A connection may be `idle_s` without a whole request, and a body may take `body_s` to arrive. A request is answered
    within `request_s`, `/health` within `health_s` (Kafka class ConnectResource).
    """

    header_bytes: int = 8 * 1024
    body_bytes: int = 8 * 1024 * 1024
    idle_s: float = 30.0
    body_s: float = 30.0
    connections: int = 512
    request_s: float = 90.0
    health_s: float = 10.0


def bounded(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol of a server with these limits."""
    return type("Bounded", (_Bounded,), {"limits": limits})


class _Bounded(H11Protocol):
    limits: Limits

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.idle_since = self.loop.time()
        self._idle: asyncio.TimerHandle | None = None
        self._refused = False
        self._ending = False

    @property
    def waits(self) -> bool:
        """Whether all its requests are answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._make_room()
        # asyncio sets the option only for sockets that name their protocol. Headers and body are two writes, and the
        # second write would wait 40 ms for the client's acknowledgement of the first.
        accepted = transport.get_extra_info("socket")
        if accepted is not None:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)  # type: ignore[arg-type]
        self._becomes_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._idle is not None:
            self._idle.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        if self._ending and self.cycle is not None:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """Close after the answer to the request under way; a young connection may still bring its first request.

        The client of such a connection sends its request all the same. After a reset the client is unable to tell
        whether the request was fulfilled.
        """
        left_s = self.idle_since + _FIRST_S - self.loop.time()
        if cast(Any, self.cycle) is None and left_s > 0:
            self._ending = True
            self._hang_up_in(left_s)
        else:
            super().shutdown()

    def on_response_complete(self) -> None:
        self._becomes_idle()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer input other than HTTP, or too large headers, and hang up."""
        reason = sys.exc_info()[1]
        status = getattr(reason, "error_status_hint", 400)
        body = json.dumps({"error_code": status, "message": f"HTTP {status} {HTTPStatus(status).phrase}"}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        try:
            events = (
                h11.Response(status_code=status, headers=[*headers, (b"connection", b"close")]),
                h11.Data(data=body),
                h11.EndOfMessage(),
            )
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            # The response was sent already.
            pass
        # The client's further bytes are read and dropped for a moment: an immediate close would reset the connection,
        # and the response would be lost.
        self._refused = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.close)

    def _should_upgrade(self) -> bool:
        # Java's HTTP client, and Strimzi's operator with it, offers HTTP/2 in each first request of a connection. HTTP
        # lets a server ignore the offer; uvicorn would log two lines each time.
        return False

    def _becomes_idle(self) -> None:
        self.idle_since = self.loop.time()
        self._hang_up_in(self.limits.idle_s)

    def _hang_up_in(self, seconds: float) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = self.loop.call_later(seconds, self._hang_up)

    def _hang_up(self) -> None:
        if self.waits and not self.transport.is_closing():
            self.transport.close()

    def _make_room(self) -> None:
        if len(self.connections) < self.limits.connections:
            return
        idle = [one for one in self.connections if isinstance(one, _Bounded) and one.waits]
        if idle:
            min(idle, key=lambda one: one.idle_since).transport.abort()


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listener with its real port and its socket."""

    listener: ListenerAddress
    socket: socket.socket


def bind(listeners: Sequence[ListenerAddress], setting: str = "listeners") -> list[BoundListener]:
    """A socket for each listener of a `setting`, a key or an option. Raises ListenError, after the close of all
    sockets."""
    bound: list[BoundListener] = []
    with ExitStack() as undo:
        for listener in listeners:
            one = _bind(listener, setting)
            undo.callback(one.socket.close)
            bound.append(one)
        undo.pop_all()
    return bound


def close(bound: Sequence[BoundListener]) -> None:
    for one in bound:
        one.socket.close()


def _bind(listener: ListenerAddress, setting: str) -> BoundListener:
    try:
        found = _socket(listener)
    except OSError as error:
        # Python adds the address to the system's words; the error of an unknown name has its own words.
        unknown = isinstance(error, socket.gaierror)
        reason = error.strerror if unknown else os.strerror(error.errno or 0)
        way_out = None if unknown else _WAYS_OUT.get(error.errno or 0)
        way_out = f"{way_out or 'write an address of this machine in'} {setting}"
        text = f"cannot listen at {listener}: {reason}"
        raise ListenError(text, way_out=way_out, message_id="TW-REST-01") from None
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


class ServerThread:
    """A thread with servers.

    `begin` starts all servers, once; `end` refuses new connections and gives requests a moment.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.servers: Sequence[BoundServer] = ()
        """The servers that have begun."""
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._ready = threading.Event()

    def begin(self, servers: Sequence[BoundServer]) -> bool:
        """Return once every address answers; False when an address fails, and the log has the reason."""
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        # At its finest level this logger would log headers, and logins with them.
        logging.getLogger("uvicorn.asgi").setLevel(logging.INFO)
        self.servers = tuple(servers)
        self._thread.start()
        self._ready.wait(_START_S)
        return all(server.started for server in self.servers)

    def end(self) -> None:
        """Refuse new connections, and give present requests a moment."""
        for server in self.servers:
            server.ask_to_end()
        if self._thread.ident is not None:
            self._thread.join()

    def _serve(self) -> None:
        try:
            asyncio.run(self._run())
        except Exception:
            _LOG.exception("TW-FAULT-03: %s has ended", self._name)
        finally:
            self._ready.set()

    async def _run(self) -> None:
        serving = [asyncio.ensure_future(server.serve()) for server in self.servers]
        while not all(server.started or task.done() for server, task in zip(self.servers, serving, strict=True)):
            await asyncio.sleep(0.005)
        self._ready.set()
        await asyncio.gather(*serving)


def servers(
    bound: Sequence[BoundListener], app: ASGIApp, tls: ssl.SSLContext | None, limits: Limits
) -> list[BoundServer]:
    """A server for the https listeners and a server for the http listeners, as far as each kind is present."""
    found: list[BoundServer] = []
    for secure in (False, True):
        sockets = [one.socket for one in bound if one.listener.tls == secure]
        if sockets:
            found.append(BoundServer(_config(app, tls if secure else None, limits), sockets))
    return found


class BoundServer(Server):
    """A server of sockets that are bound already."""

    def __init__(self, config: Config, sockets: list[socket.socket]) -> None:
        super().__init__(config)
        self._sockets = sockets
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked = asyncio.Event()

    def ask_to_end(self) -> None:
        """Have the server end; any thread may call this method."""
        self.should_exit = True
        if self._loop is not None:
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._asked.set)

    async def main_loop(self) -> None:
        """Update the date of the answers each second until the end; uvicorn wakes up ten times a second."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), _DATE_S)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        await super().serve(sockets or self._sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listeners, and answer the clients that had connected before.

        At the close of a listener the system resets the connections that it still holds for the server.
        """
        loop = asyncio.get_running_loop()
        held = [connection for listener in self._sockets for connection in _accept_held(listener)]
        for server in self.servers:
            server.close()
        if held:
            await asyncio.wait([loop.create_task(self._serve_held(one)) for one in held], timeout=_FIRST_S)
        # asyncio tells the server of an accepted connection some turns of the loop later.
        await asyncio.sleep(_ACCEPTED_S)
        await super().shutdown(sockets)

    async def _serve_held(self, connection: socket.socket) -> None:
        loop, config = asyncio.get_running_loop(), self.config

        def protocol() -> asyncio.Protocol:
            return config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state=self.lifespan.state, _loop=loop
            )

        # The client may be gone, or fail in the handshake of TLS.
        with suppress(OSError):
            await loop.connect_accepted_socket(protocol, connection, ssl=config.ssl)


def _accept_held(listener: socket.socket) -> Iterator[socket.socket]:
    """Accept the connections that the system holds for a listener that never blocks."""
    with suppress(OSError):
        while True:
            yield listener.accept()[0]


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
