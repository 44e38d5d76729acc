"""A broker of a few lines: it answers what it supports and which brokers there are, or is silent."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType

API_VERSIONS, SASL_HANDSHAKE, METADATA = 18, 17, 3
UNSUPPORTED_SASL_MECHANISM = 33
KNOWN = {0: 9, 1: 13, METADATA: 8, SASL_HANDSHAKE: 1, API_VERSIONS: 3}
"""The newest version that it knows of each request; Metadata before versions with tags, which are longer to write."""


class FakeBroker:
    """Listens on a port of its own. `brokers` are {node id: port} that it names, on 127.0.0.1.

    `silent` leaves questions for metadata without an answer, `mute` every question; `drop` closes the connection that
    the next so many questions for metadata come by. `pause_s` is how long it thinks about each of them.
    """

    def __init__(self, brokers: Mapping[int, int] | None = None) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self.brokers = dict(brokers or {})
        self.silent = self.mute = False
        self.knows = dict(KNOWN)
        self.drop = 0
        self.pause_s = 0.0
        self.mechanisms: tuple[bytes, ...] = ()
        """What it says one may log in with; every login is refused."""
        self.asked = 0
        """Questions for metadata so far."""
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def connected(self) -> int:
        """How many connections are open."""
        return len(self._open)

    def close(self) -> None:
        """Be gone: nobody listens at the port any more."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(60)
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> FakeBroker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self.close()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._open.add(one)
            threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        with one:
            try:
                while True:
                    (size,) = struct.unpack(">i", _receive(one, 4))
                    key, version, correlation = struct.unpack_from(">hhi", _receive(one, size))
                    answer = self._answer(key, version)
                    if answer is not None:
                        one.sendall(struct.pack(">ii", len(answer) + 4, correlation) + answer)
            except (OSError, EOFError):
                pass
            finally:
                self._open.discard(one)

    def _answer(self, key: int, version: int) -> bytes | None:
        if self.mute:
            return None
        if key == API_VERSIONS:
            assert version >= 3
            entries = b"".join(struct.pack(">hhhb", known, 0, newest, 0) for known, newest in self.knows.items())
            return struct.pack(">hb", 0, len(self.knows) + 1) + entries + struct.pack(">ib", 0, 0)
        if key == SASL_HANDSHAKE:
            names = b"".join(struct.pack(f">h{len(name)}s", len(name), name) for name in self.mechanisms)
            return struct.pack(">hi", UNSUPPORTED_SASL_MECHANISM, len(self.mechanisms)) + names
        assert (key, version) == (METADATA, 8)
        self.asked += 1
        time.sleep(self.pause_s)
        if self.drop:
            self.drop -= 1
            raise EOFError
        return None if self.silent else self._metadata()

    def _metadata(self) -> bytes:
        host = b"127.0.0.1"
        brokers = b"".join(
            struct.pack(f">ih{len(host)}sih", node, len(host), host, port, -1) for node, port in self.brokers.items()
        )
        first = min(self.brokers, default=-1)
        return struct.pack(">ii", 0, len(self.brokers)) + brokers + struct.pack(">hiii", -1, first, 0, -(2**31))


def _receive(one: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = one.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
