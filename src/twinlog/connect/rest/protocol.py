"""HTTP over a connection: uvicorn's protocol, with bounds on the resources of a client between requests.

A client that sends a request byte by byte, or is silent, is disconnected after a while. Beyond a number of connections,
the connection with the longest idle time makes room. Input other than HTTP is answered with the body of every error.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

_LINGER_S = 1.0


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
        if not self._refused:
            super().data_received(data)

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

    def _becomes_idle(self) -> None:
        self.idle_since = self.loop.time()
        if self._idle is not None:
            self._idle.cancel()
        self._idle = self.loop.call_later(self.limits.idle_s, self._hang_up)

    def _hang_up(self) -> None:
        if self.waits and not self.transport.is_closing():
            self.transport.close()

    def _make_room(self) -> None:
        if len(self.connections) < self.limits.connections:
            return
        idle = [one for one in self.connections if isinstance(one, _Bounded) and one.waits]
        if idle:
            min(idle, key=lambda one: one.idle_since).transport.abort()
