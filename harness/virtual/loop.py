"""An event loop in virtual time: when nothing is ready it jumps to the next timer. Sockets are queues of this process.

The same seed gives the same course of events: timers that are due at the same time come in the order they were set,
and whatever draws from `random`, kafka-python included, draws the same.
"""

from __future__ import annotations

import random
import select
import selectors
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from typing import Any, Protocol
from unittest import mock

from kafka.errors import KafkaConnectionError

from harness.virtual.clock import VirtualClock
from twinlog.kafka.net.loop import Loop

_READS_TIME = (
    "kafka.cluster",
    "kafka.net.connection",
    "kafka.net.inet",
    "kafka.net.manager",
    "kafka.net.selector",
    "kafka.net.transport",
)
"""The modules of kafka-python that ask the system for the time."""

TICK_S = 1e-10
"""How far apart timers are that were set for the same time."""

CONNECT_S = 0.001


class Peer(Protocol):
    """What is at the other end of a connection."""

    def received(self, sock: VirtualSocket, data: bytes) -> None:
        """Bytes came."""

    def lost(self, sock: VirtualSocket) -> None:
        """The client closed the connection."""


_numbers = count(1 << 20)


class VirtualSocket:
    """The client's end of a connection within this process; as much of a socket as a transport uses."""

    def __init__(self, peer: Peer, address: tuple[str, int]) -> None:
        self._peer = peer
        self._address = address
        self._number = next(_numbers)
        self._inbox = bytearray()
        self.broken = False
        """Whether the other end has closed it."""
        self.closed = False

    def deliver(self, data: bytes) -> None:
        """Bytes for the client."""
        if not self.closed and not self.broken:
            self._inbox += data

    def break_off(self) -> None:
        """Close it from the other end."""
        self.broken = True

    @property
    def readable(self) -> bool:
        return bool(self._inbox) or self.broken

    def fileno(self) -> int:
        return -1 if self.closed else self._number

    def recv_into(self, buffer: memoryview) -> int:
        if not self._inbox:
            if self.broken:
                return 0
            raise BlockingIOError
        size = min(len(buffer), len(self._inbox))
        buffer[:size] = self._inbox[:size]
        del self._inbox[:size]
        return size

    def send(self, data: bytes | memoryview) -> int:
        if self.broken:
            raise BrokenPipeError
        self._peer.received(self, bytes(data))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._peer.lost(self)

    def shutdown(self, _how: int) -> None:
        """Nothing to do: what was sent has arrived."""

    def getpeername(self) -> tuple[str, int]:
        return self._address

    getsockname = getpeername


class VirtualSelector(selectors.SelectSelector):
    """Never waits: the clock goes on instead. Only who wakes the loop from another thread is waited for."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready, woken = [], []
        for key in self.get_map().values():
            if isinstance(key.fileobj, VirtualSocket):
                found = key.events & (selectors.EVENT_WRITE | (selectors.EVENT_READ if key.fileobj.readable else 0))
                if found:
                    ready.append((key, found))
            else:
                woken.append(key)
        # With nothing to come but what another thread does, that is waited for.
        patience = 60.0 if timeout is None and not ready else 0.0
        files = select.select([key.fileobj for key in woken], [], [], patience)[0] if woken else []
        ready += [(key, selectors.EVENT_READ) for key in woken if key.fileobj in files]
        if not ready and timeout is None:
            raise AssertionError("the loop waits, and nothing is left that could happen")
        if not ready and timeout:
            self._clock.sleep(timeout)
        return ready


class VirtualWire:
    """Connects to what listens in this process, by (host, port); `connected` makes its end, None refuses."""

    def __init__(self) -> None:
        self.listening: dict[tuple[str, int], Callable[[VirtualSocket], Peer | None]] = {}

    async def open(
        self, net: Any, host: str, port: int, _options: Sequence[tuple[int, int, int]], _timeout_at: float | None
    ) -> Any:
        await net.sleep(CONNECT_S)
        listener = self.listening.get((host, port))
        if listener is None:
            raise KafkaConnectionError("unable to connect: 111 ECONNREFUSED")
        sock = VirtualSocket(_NOBODY, (host, port))
        peer = listener(sock)
        if peer is None:
            raise KafkaConnectionError("unable to connect: 111 ECONNREFUSED")
        sock._peer = peer
        return sock


class _Nobody:
    def received(self, sock: VirtualSocket, data: bytes) -> None:
        """Nobody listens."""

    def lost(self, sock: VirtualSocket) -> None:
        """Nobody listens."""


_NOBODY = _Nobody()


class VirtualLoop(Loop):
    """A loop over `wire` in virtual time, of which `clock` is the only one."""

    def __init__(self, clock: VirtualClock, wire: VirtualWire) -> None:
        super().__init__(clock, wire, partial(VirtualSelector, clock))
        self.listening = wire.listening
        set_timer, numbers = self.net.call_at, count()

        def call_at(when: float, task: Any) -> Any:
            # Tasks of the same time would be told apart by their addresses in memory.
            return set_timer(when + next(numbers) * TICK_S, task)

        self.net.call_at = call_at


@contextmanager
def virtual_loop(seed: int) -> Iterator[VirtualLoop]:
    """A loop, closed at the end. Meanwhile kafka-python goes by its clock, too, and `random` by the seed."""
    clock = VirtualClock()
    state = random.getstate()
    with ExitStack() as patches:
        for module in _READS_TIME:
            patches.enter_context(mock.patch(f"{module}.time", mock.Mock(monotonic=clock.monotonic, time=clock.wall)))
        random.seed(seed)
        loop = VirtualLoop(clock, VirtualWire())
        try:
            yield loop
        finally:
            loop.close()
            random.setstate(state)
