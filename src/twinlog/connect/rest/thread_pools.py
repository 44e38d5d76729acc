"""Threads for the calls of the herder, so that the event loop never waits for a call.

Calls that may wait long have threads of their own: a rebalance holds changes up, while lists and probes are answered.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


class ThreadPool:
    """At most `most` threads, started when they are needed; the process may end while they work.

    When the system refuses a further thread, a call waits for a thread that is busy. If there is none, `run` raises
    RuntimeError; a later call tries to start a thread again.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._calls: deque[_PooledCall] = deque()
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._closed = False

    async def run(self, call: Callable[[], T]) -> T:
        """Call in a thread of this pool, and return or raise the result of the call.

        When the caller stops waiting, a waiting call is dropped; a call that has begun ends, and its result is dropped.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._add(_PooledCall(call, loop, answer))
        return await answer

    def close(self) -> None:
        """End the idle threads; a thread with a call ends after the call."""
        with self._changed:
            self._closed = True
            self._calls.clear()
            self._changed.notify_all()

    def _add(self, call: _PooledCall) -> None:
        with self._changed:
            self._calls.append(call)
            # Until a notified thread wakes, it counts as idle, and its call counts as waiting.
            if self._idle >= len(self._calls) or self._threads == self._most:
                self._changed.notify()
                return
            self._threads += 1
            number = self._threads
        try:
            threading.Thread(target=self._work, name=f"rest-{self._name}-{number}", daemon=True).start()
        except RuntimeError:
            with self._changed:
                self._threads -= 1
                if not self._threads:
                    self._calls.remove(call)
                    raise

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._calls:
                    if self._closed:
                        self._threads -= 1
                        return
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                call = self._calls.popleft()
            call.run()


@dataclass(slots=True)
class _PooledCall:
    call: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]

    def run(self) -> None:
        if self.answer.cancelled():
            return
        try:
            result, error = self.call(), None
        except BaseException as raised:  # noqa: BLE001, RUF100 - whatever it is, it belongs to who waits
            result, error = None, raised
        # The server may have stopped meanwhile.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._finish, result, error)

    def _finish(self, result: Any, error: BaseException | None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(result)
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            self.answer.set_exception(error)
        else:
            self.answer.set_exception(RuntimeError(f"a call ended with {type(error).__name__}"))


@dataclass(frozen=True, slots=True)
class ThreadPools:
    """The pools: reads of this worker's memory; waits for topics, clusters or workers; probes; metrics; passwords."""

    read: ThreadPool = field(default_factory=lambda: ThreadPool("read", 8))
    change: ThreadPool = field(default_factory=lambda: ThreadPool("change", 16))
    forward: ThreadPool = field(default_factory=lambda: ThreadPool("forward", 16))
    health: ThreadPool = field(default_factory=lambda: ThreadPool("health", 4))
    metrics: ThreadPool = field(default_factory=lambda: ThreadPool("metrics", 2))
    login: ThreadPool = field(default_factory=lambda: ThreadPool("login", 2))

    def close(self) -> None:
        for pool in (self.read, self.change, self.forward, self.health, self.metrics, self.login):
            pool.close()
