"""Runs an event loop on a thread of its own, for a program that computes meanwhile on another one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from twinlog.kafka.net.loop import Loop

T = TypeVar("T")


class LoopThread:
    """The thread, which lives until `end`; connections of the loop are kept alive meanwhile.

    What belongs to the loop is only touched there: by `call`, and by functions given to `post`.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._ended = loop.signal()
        self._thread = threading.Thread(target=loop.run, args=(self._ended.wait,), name="kafka-loop", daemon=True)
        self._thread.start()

    def call(self, coroutine: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run a coroutine on the loop, and wait until it has ended; returns or raises what it does."""
        return self.begin(coroutine, *args).result()

    def begin(self, coroutine: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> Future[T]:
        """Start a coroutine on the loop, whose result is waited for later."""
        done: Future[T] = Future()

        async def run() -> None:
            try:
                done.set_result(await coroutine(*args))
            except BaseException as error:
                done.set_exception(error)

        self.post(lambda: self.loop.start(run))
        return done

    def post(self, function: Callable[[], None]) -> None:
        """Run a function on the loop's thread, soon; functions keep their order."""
        self.loop.call_threadsafe(function)

    def end(self) -> None:
        """End the thread, and close the loop."""
        self.post(self._ended.set)
        self._thread.join()
        self.loop.close()
