"""An event loop in virtual time: when nothing is ready it jumps to the next timer. Sockets are queues of this process.

The same seed gives the same course of events: timers that are due at the same time come in the order they were set,
and whatever draws from `random`, kafka-python included, draws the same.
"""

from __future__ import annotations

import random
import select
import selectors
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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

LOOK_S = 0.005
"""How often a thread that waits looks whether it may go on."""

PATIENCE_S = 60.0
"""In real seconds: for another thread."""


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

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """No option changes a virtual socket."""

    def sendmsg(self, parts: Sequence[bytes | memoryview]) -> int:
        if self.broken:
            raise BrokenPipeError
        data = b"".join(parts)
        self._peer.received(self, data)
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


Ready = list[tuple[selectors.SelectorKey, int]]


class VirtualSelector(selectors.SelectSelector):
    """Never waits: `idle(until)` lets others go on and moves the clock instead, None is for ever.

    Only who wakes the loop from another thread is waited for.
    """

    def __init__(self, idle: Callable[[VirtualSelector, float | None], Ready], clock: VirtualClock) -> None:
        super().__init__()
        self._idle = idle
        self._clock = clock

    def select(self, timeout: float | None = None) -> Ready:
        ready = self.ready()
        if ready or timeout == 0:
            return ready
        return self._idle(self, None if timeout is None else self._clock.now + timeout)

    def ready(self, patience_s: float = 0.0) -> Ready:
        """What can be read or written now."""
        ready, woken = [], []
        # This is asked at every turn of every loop, and its `get_map` looks each key up again.
        for key in self._fd_to_key.values():  # type: ignore[attr-defined]
            if isinstance(key.fileobj, VirtualSocket):
                found = key.events & (selectors.EVENT_WRITE | (selectors.EVENT_READ if key.fileobj.readable else 0))
                if found:
                    ready.append((key, found))
            else:
                woken.append(key)
        files = select.select([key.fileobj for key in woken], [], [], patience_s)[0] if woken else []
        return ready + [(key, selectors.EVENT_READ) for key in woken if key.fileobj in files]


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


class VirtualWorld:
    """The loops that share a clock and a wire: one for each process, all on one thread.

    Whichever is waited for lets the others go on while it has nothing to do; then the clock jumps to what comes next.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.wire = VirtualWire()
        self.loops: list[VirtualLoop] = []
        self.frozen: set[VirtualLoop] = set()
        """These stand still, as processes do that were stopped."""

    def idle(self, selector: VirtualSelector, until: float | None) -> Ready:
        """Wait until a selector has something to read, or its time has come; returns what it has."""
        while True:
            others = [loop for loop in self.loops if loop not in self.frozen and loop.selector is not selector]
            busy = [loop for loop in others if loop.busy]
            for loop in busy:
                loop.net._poll_once(0)
            if busy:
                if ready := selector.ready():
                    return ready
                continue
            due = min([at for at in (until, *(loop.due for loop in others)) if at is not None], default=None)
            if due is None:
                # With nothing to come but what another thread does, that is waited for.
                if ready := selector.ready(PATIENCE_S):
                    return ready
                raise AssertionError("the loop waits, and nothing is left that could happen")
            self.clock.now = max(self.clock.now, due)
            if until is not None and until <= self.clock.now:
                return []


class VirtualLoop(Loop):
    """A loop in a virtual world, which has no thread of its own: it runs while it, or another one, is waited for."""

    def __init__(self, world: VirtualWorld) -> None:
        self.selector: VirtualSelector

        def selector() -> VirtualSelector:
            self.selector = VirtualSelector(world.idle, world.clock)
            return self.selector

        super().__init__(world.clock, world.wire, selector)
        self.world = world
        self.listening = world.wire.listening
        world.loops.append(self)
        set_timer, numbers = self.net.call_at, count()

        def call_at(when: float, task: Any) -> Any:
            # Tasks of the same time would be ordered by their addresses in memory.
            return set_timer(when + next(numbers) * TICK_S, task)

        self.net.call_at = call_at  # type: ignore[method-assign]
        self.net.start = lambda: None  # type: ignore[method-assign]

    def beside(self) -> VirtualLoop:
        """Another loop of the same world."""
        return VirtualLoop(self.world)

    def run_on_thread(self, main: Callable[..., Coroutine[Any, Any, None]], name: str) -> None:
        """Run it as every loop of the world runs, on the one thread."""
        self.start(main)

    @property
    def busy(self) -> bool:
        """Whether it has something to do now."""
        due = self.due
        return (
            bool(self.net._ready) or (due is not None and due <= self.clock.monotonic()) or bool(self.selector.ready())
        )

    @property
    def due(self) -> float | None:
        """When its next timer ends."""
        return self.net.next_timer()

    def close(self) -> None:
        if self in self.world.loops:
            self.world.loops.remove(self)
        super().close()


@contextmanager
def virtual_loop(seed: int) -> Iterator[VirtualLoop]:
    """A loop, closed at the end with all others of its world. Meanwhile kafka-python goes by its clock, too, and
    `random` by the seed."""
    world = VirtualWorld()
    state = random.getstate()
    with ExitStack() as patches:
        for module in _READS_TIME:
            clock = mock.Mock(monotonic=world.clock.monotonic, time=world.clock.wall)
            patches.enter_context(mock.patch(f"{module}.time", clock))
        random.seed(seed)
        loop = VirtualLoop(world)

        def meanwhile(true: Callable[[], bool], most_s: float) -> None:
            loop.run(_wait, loop, true, most_s)

        world.clock.meanwhile = meanwhile
        try:
            yield loop
        finally:
            world.clock.meanwhile = None
            for one in list(world.loops):
                one.close()
            random.setstate(state)


async def _wait(loop: VirtualLoop, true: Callable[[], bool], most_s: float) -> None:
    deadline = loop.clock.monotonic() + most_s
    while not true() and loop.clock.monotonic() < deadline:
        await loop.sleep(LOOK_S)
