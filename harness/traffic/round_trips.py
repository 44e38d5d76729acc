"""A relay that notes when a client asks and is answered, for tests that count how often it waited for a far cluster."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Queue

_HEAD = struct.Struct(">ihhih")
PRODUCE, FETCH = 0, 1


@dataclass(slots=True)
class Exchange:
    """A request of one kind (Kafka's api key) and its answer, in seconds of the monotonic clock; who asked."""

    client: str
    api: int
    request_bytes: int
    asked: float
    answered: float = float("inf")
    answer_bytes: int = 0


@dataclass
class RoundTrips:
    """Listens on `near` and carries to `far`, both ports of this host, every byte `delay_s` later."""

    near: int
    far: int
    delay_s: float
    exchanges: list[Exchange] = field(default_factory=list)
    _door: socket.socket = field(default_factory=socket.socket)

    def __enter__(self) -> RoundTrips:
        self._door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._door.bind(("127.0.0.1", self.near))
        self._door.listen(64)
        threading.Thread(target=self._accept, name="round trips", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def one_after_the_other(self, client: str, until: float) -> list[Exchange]:
        """The longest chain of a client's exchanges up to a time of which each began after the one before ended."""
        chain: list[Exchange] = []
        for one in sorted(self.exchanges, key=lambda one: one.answered):
            if one.client == client and one.answered <= until and (not chain or one.asked >= chain[-1].answered):
                chain.append(one)
        return chain

    def first(self, client: str, api: int, *, more_than: int) -> Exchange:
        """A client's first answered exchange of a kind whose request or answer has more than some bytes."""
        return next(
            one
            for one in list(self.exchanges)
            if one.client == client
            and one.api == api
            and max(one.request_bytes, one.answer_bytes) > more_than
            and one.answered < float("inf")
        )

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        waiting: dict[int, Exchange] = {}
        with client, socket.create_connection(("127.0.0.1", self.far)) as server:
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def asked(frame: bytes) -> None:
                size, api, _, correlation, length = _HEAD.unpack_from(frame)
                client = frame[_HEAD.size : _HEAD.size + length].decode()
                waiting[correlation] = one = Exchange(client, api, size, time.monotonic())
                self.exchanges.append(one)

            def answered(frame: bytes) -> None:
                size, correlation = struct.unpack_from(">ii", frame)
                one = waiting.pop(correlation)
                one.answer_bytes, one.answered = size, time.monotonic() + self.delay_s

            back = threading.Thread(target=self._pass, args=(server, client, answered), daemon=True)
            back.start()
            self._pass(client, server, asked)
            back.join()

    def _pass(self, source: socket.socket, target: socket.socket, note: Callable[[bytes], None]) -> None:
        """Frame by frame, in their order; what was asked side by side goes side by side."""
        on_the_way: Queue[tuple[float, bytes]] = Queue()
        arriving = threading.Thread(target=_hand_over, args=(on_the_way, target), daemon=True)
        arriving.start()
        with suppress(OSError), source.makefile("rb") as frames:
            while len(head := frames.read(4)) == 4:
                frame = head + frames.read(*struct.unpack(">i", head))
                note(frame)
                on_the_way.put((time.monotonic() + self.delay_s, frame))
        on_the_way.put((0.0, b""))
        arriving.join()


def _hand_over(on_the_way: Queue[tuple[float, bytes]], target: socket.socket) -> None:
    """Each at its time, until nothing follows."""
    with suppress(OSError):
        while (arrival := on_the_way.get())[1]:
            due, frame = arrival
            time.sleep(max(0.0, due - time.monotonic()))
            target.sendall(frame)
        target.shutdown(socket.SHUT_WR)
