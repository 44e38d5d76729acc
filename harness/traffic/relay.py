"""Distance between a cluster and its clients: a relay that delays bytes each way and bounds how many are on their way.

It runs as a program of its own, so that it shares no interpreter with what is measured behind it.
"""

from __future__ import annotations

import argparse
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

CHUNK = 256 * 1024
BUFFER = 64 * 1024
"""Of a socket: bytes there are neither delayed nor counted."""
_CLOSED = b""


@dataclass(frozen=True, slots=True)
class Distance:
    """Each byte takes `delay_ms`; a connection has at most `window` bytes on their way in each direction.

    One connection so carries `window / delay` at most: 100 MB/s with the values here.
    """

    delay_ms: float = 40.0
    window: int = 4_000_000


def relay_command(distance: Distance, routes: Iterable[tuple[int, int]]) -> list[str]:
    """Command line of a relay; a route is the port it listens on and that of the broker, both on 127.0.0.1."""
    wanted = [f"{near}:{far}" for near, far in routes]
    return [sys.executable, "-I", __file__, str(distance.delay_ms), str(distance.window), *wanted]


class Way:
    """One direction of one connection: bytes arrive in order, each `delay_s` after it was taken, none before `opens`.

    A thread takes while less than `window` bytes are on their way; another one hands over what is due.
    """

    def __init__(
        self, source: socket.socket, target: socket.socket, delay_s: float, window: int, opens: float = 0
    ) -> None:
        self._source = source
        self._target = target
        self._delay_s = delay_s
        self._window = window
        # Less room is left alone: filled as soon as it opens, it would let the pieces become smaller and smaller.
        self._step = min(BUFFER, window)
        self._opens = opens
        self._changed = threading.Condition()
        self._queue: deque[tuple[float, bytes]] = deque()
        self._under_way = 0
        self._broken = False
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self._take, self._give)]
        for thread in self.threads:
            thread.start()

    def _take(self) -> None:
        data = b"-"
        while data != _CLOSED:
            with self._changed:
                while (room := self._window - self._under_way) < self._step and not self._broken:
                    self._changed.wait()
                if self._broken:
                    return
            try:
                data = self._source.recv(min(room, CHUNK))
            except OSError:
                data = _CLOSED
            with self._changed:
                self._queue.append((max(time.monotonic(), self._opens) + self._delay_s, data))
                self._under_way += len(data)
                self._changed.notify_all()

    def _give(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    self._changed.wait()
                due, data = self._queue[0]
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if data == _CLOSED:
                    self._target.shutdown(socket.SHUT_WR)
                    return
                self._target.sendall(data)
            except OSError:
                # Nobody is there to take it. The other direction ends when its own reader sees the end.
                self._broken = True
                with suppress(OSError):
                    self._source.shutdown(socket.SHUT_RD)
                return
            finally:
                with self._changed:
                    self._queue.popleft()
                    self._under_way -= len(data)
                    self._changed.notify_all()


def carry(client: socket.socket, port: int, delay_s: float, window: int) -> None:
    """Serve one connection until both sides have closed it; one that the broker refuses is closed."""
    # A handshake goes there and back before the first byte: the client has been connected at once.
    opens = time.monotonic() + 2 * delay_s
    with client:
        try:
            server = socket.create_connection(("127.0.0.1", port), timeout=60)
        except OSError:
            time.sleep(2 * delay_s)
            return
        with server:
            for one in (client, server):
                one.settimeout(None)
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            ways = Way(client, server, delay_s, window, opens), Way(server, client, delay_s, window)
            for thread in (thread for way in ways for thread in way.threads):
                thread.join()


def listen(near: int, far: int, delay_s: float, window: int) -> None:
    """Accept connections on one port for ever."""
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        door.bind(("127.0.0.1", near))
        door.listen(128)
        while True:
            client, _ = door.accept()
            threading.Thread(target=carry, args=(client, far, delay_s, window), daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("delay_ms", type=float)
    parser.add_argument("window", type=int)
    parser.add_argument("routes", nargs="+", metavar="PORT:PORT")
    asked = parser.parse_args()
    doors = []
    for near, far in (map(int, route.split(":")) for route in asked.routes):
        doors.append(threading.Thread(target=listen, args=(near, far, asked.delay_ms / 1000, asked.window)))
        doors[-1].start()
    for door in doors:
        door.join()


if __name__ == "__main__":
    main()
