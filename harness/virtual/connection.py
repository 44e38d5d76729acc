"""One connection to a virtual broker: requests in their bytes come in, answers in theirs go out, after faults."""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Protocol

from harness.virtual.faults import Fault, Faults
from harness.virtual.loop import VirtualLoop, VirtualSocket
from harness.virtual.requests import API_VERSIONS, FETCH, REQUESTS, topics_of

DELAY_S = 0.0005
"""How long a broker takes for any answer."""


class Broker(Protocol):
    """What a connection leads to."""

    loop: VirtualLoop
    asked: Counter[int]
    faults: Faults

    def serve(self, key: int, node: int, request: Any, code: int, client: str, answer: Callable[[Any], None]) -> None:
        """Carry a request out, or refuse it with a code; `answer` may be called later."""

    def fetch(self, node: int, request: Any, code: int, *, last: bool) -> Any | None:
        """The records asked for; None while there are none, unless this is the `last` look."""

    def on_news(self, look: Callable[[], None]) -> None:
        """Call this once there may be more records."""

    def closed(self, node: int, connection: Connection) -> None:
        """A connection has ended."""


class Connection:
    """One connection to a broker, which answers one request after the other."""

    def __init__(self, cluster: Broker, node: int, sock: VirtualSocket) -> None:
        self._cluster = cluster
        self._node = node
        self._sock = sock
        self._bytes = b""
        self._requests: deque[bytes] = deque()
        self._busy = False
        self._gone = False

    def received(self, _sock: VirtualSocket, data: bytes) -> None:
        self._bytes += data
        while len(self._bytes) >= 4:
            (size,) = struct.unpack_from(">i", self._bytes)
            if len(self._bytes) < 4 + size:
                return
            self._requests.append(self._bytes[4 : 4 + size])
            self._bytes = self._bytes[4 + size :]
            self._next()

    def lost(self, _sock: VirtualSocket) -> None:
        self._gone = True
        self._cluster.closed(self._node, self)

    def break_off(self) -> None:
        """Close it from the broker's side."""
        self._gone = True
        self._cluster.closed(self._node, self)
        self._sock.break_off()

    def _next(self) -> None:
        if self._busy or self._gone or not self._requests:
            return
        self._busy = True
        frame = self._requests.popleft()
        key, version, correlation, size = struct.unpack_from(">hhih", frame)
        client = frame[10 : 10 + max(0, size)].decode()
        kind = REQUESTS[key][0]
        at = 10 + max(0, size) + (1 if kind.flexible_version_q(version) else 0)
        request = kind.decode(memoryview(frame)[at:], version=version)
        self._cluster.asked[key] += 1
        fault = self._cluster.faults.next(key, topics_of(key, request))
        if fault.lost and not fault.done:
            self._later(fault.delay_s, self.break_off)
            return
        if key == FETCH and not fault.code:
            self._fetch(request, correlation, version, fault)
            return
        self._later(DELAY_S, lambda: self._serve(key, request, client, fault, correlation, version))

    def _serve(self, key: int, request: Any, client: str, fault: Fault, correlation: int, version: int) -> None:
        if self._gone:
            return

        def answer(response: Any) -> None:
            if fault.throttle_s:
                response.throttle_time_ms = int(fault.throttle_s * 1000)
            if fault.lost:
                self.break_off()
            else:
                self._later(fault.delay_s, lambda: self._answer(key, response, correlation, version))

        self._cluster.serve(key, self._node, request, fault.code, client, answer)

    def _fetch(self, request: Any, correlation: int, version: int, fault: Fault) -> None:
        done = False

        def look(*, last: bool = False) -> None:
            nonlocal done
            if done or self._gone:
                return
            response = self._cluster.fetch(self._node, request, 0, last=last)
            if response is None:
                self._cluster.on_news(look)
                return
            done = True
            if fault.lost:
                self.break_off()
                return
            response.throttle_time_ms = int(fault.throttle_s * 1000)
            self._later(fault.delay_s, lambda: self._answer(FETCH, response, correlation, version))

        self._later(DELAY_S, look)
        self._later(DELAY_S + request.max_wait_ms / 1000, lambda: look(last=True))

    def _answer(self, key: int, response: Any, correlation: int, version: int) -> None:
        if not self._gone:
            body = response.encode(version=version)
            flexible = response.flexible_version_q(version) and key != API_VERSIONS
            head = struct.pack(">i", correlation) + (b"\0" if flexible else b"")
            self._sock.deliver(struct.pack(">i", len(head) + len(body)) + head + bytes(body))
        self._busy = False
        self._next()

    def _later(self, seconds: float, step: Callable[[], None]) -> None:
        self._cluster.loop.net.call_later(seconds, step)
