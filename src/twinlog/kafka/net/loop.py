"""A thread's event loop: coroutines that wait for sockets, for time and for each other.

The loop is kafka-python's selector loop, because its connections run there; the rest of twinlog uses only this class.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kafka.errors import KafkaConnectionError
from kafka.future import Future

from twinlog.clock import SYSTEM, Clock
from twinlog.kafka.net.selector import LeanSelector
from twinlog.kafka.net.wire import SocketWire, Wire

log = logging.getLogger(__name__)


async def run_in_thread(net: Any, function: Callable[[], T]) -> T:
    """Return the result of `function`, or raise its error, while kafka-python's loop `net` continues to run.

    `function` runs on a thread of its own. Raises KafkaConnectionError when the system refuses a thread.
    """
    done = Future()
    results: list[T] = []
    errors: list[Exception] = []

    def resolve() -> None:
        if errors:
            done.failure(errors[0])
        else:
            done.success(results[0])

    def run() -> None:
        try:
            results.append(function())
        except Exception as error:
            errors.append(error)
        # The loop may have ended meanwhile; then its own error is reported.
        with contextlib.suppress(Exception):
            net.call_soon_threadsafe(resolve)

    try:
        threading.Thread(target=run, name="run-in-thread", daemon=True).start()
    except RuntimeError as error:
        raise KafkaConnectionError(str(error)) from error
    result: T = await done
    return result


T = TypeVar("T")


class Loop:
    """Runs coroutines on the thread that calls `run`; only `call_threadsafe` may be used from another thread.

    After `net.start` the coroutines run on a thread of the loop's own, and any other thread may call `run` and waits
    there. Coroutines wait, time out and date records by the loop's `clock`, and reach brokers by its `wire`. `selector`
    waits for the sockets of the wire.
    """

    def __init__(
        self,
        clock: Clock = SYSTEM,
        wire: Wire | None = None,
        selector: Callable[[], selectors.BaseSelector] = selectors.DefaultSelector,
    ) -> None:
        self.clock = clock
        self.wire: Wire = SocketWire() if wire is None else wire
        self.net = LeanSelector(clock, selector=selector)
        self.crashed: Callable[[BaseException], None] = _log_crash
        """Called when a coroutine given to `start` ends with an error, which is lost otherwise."""

    def run(self, main: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run `main` to its end and return its result; other coroutines run meanwhile."""
        result: T = self.net.run(main, *args)
        return result

    def spawn(self, coroutine: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> Any:
        """Start a coroutine; the returned awaitable gives its result or raises its error."""
        return self.net.begin(coroutine, *args)

    def start(self, coroutine: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start a coroutine whose result is ignored."""
        self.net.begin_alone(self._watch, coroutine, args)

    async def _watch(self, coroutine: Callable[..., Coroutine[Any, Any, None]], args: tuple[Any, ...]) -> None:
        try:
            await coroutine(*args)
        except BaseException as error:
            self.crashed(error)

    def call_threadsafe(self, function: Callable[[], None]) -> None:
        """Run a function on the loop's thread, soon."""
        self.net.call_soon_threadsafe(function)

    async def sleep(self, seconds: float) -> None:
        await self.net.sleep(max(0.0, seconds))

    async def rest(self, seconds: float) -> None:
        """Sleep, and look at no socket meanwhile, if nothing else is ready: for the pauses of a millisecond or two."""
        self.net.rest_until(self.net.now() + seconds)
        await self.net.sleep(seconds)

    async def readable(self, file: Any) -> None:
        """Wait until `file` (anything with `fileno`) can be read."""
        await self.net.wait_read(file)

    async def gather(self, awaitables: list[Any]) -> list[Any]:
        """Await each in turn (all run at once); the first error is raised after all have ended.

        The list is emptied: by its traceback an error holds the caller's frame, and would be a cycle with the frame.
        """
        results, first = [], None
        awaitables.reverse()
        try:
            while awaitables:
                try:
                    results.append(await awaitables.pop())
                except Exception as error:
                    first = first or error
            if first is not None:
                raise first
            return results
        finally:
            # The error holds this frame, too.
            del first

    def signal(self) -> Signal:
        return Signal(self)

    def lock(self) -> Lock:
        return Lock(self)

    def beside(self) -> Loop:
        """Another loop with the same clock and the same wire, for another thread."""
        return Loop(self.clock, self.wire)

    def run_on_thread(self, main: Callable[..., Coroutine[Any, Any, None]], name: str) -> None:
        """Run `main` to its end on a thread of this loop's own, and close the loop then."""

        def run() -> None:
            try:
                self.run(main)
            except Exception as error:
                self.crashed(error)
            finally:
                self.close()

        threading.Thread(target=run, name=name, daemon=True).start()

    @property
    def ended(self) -> bool:
        """Whether the loop's own thread has ended by an error: then all coroutines have stopped."""
        return self.net.ended

    def close(self) -> None:
        self.net.close()


def _log_crash(error: BaseException) -> None:
    log.error("TW-FAULT-02: a coroutine crashed", exc_info=error)


class Signal:
    """Wakes coroutines that wait for a change; a signal before the first waiter is kept for that waiter."""

    __slots__ = ("_loop", "_set", "_waiters")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._set = False
        self._waiters: list[Any] = []

    def set(self) -> None:
        if not self._waiters:
            self._set = True
            return
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.is_done:
                waiter.success(True)

    def clear(self) -> None:
        """Drop a kept signal, before a look at everything that it may stand for."""
        self._set = False

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for `set`; False when `timeout_s` seconds passed first."""
        if self._set:
            self._set = False
            return True
        waiter = Future()
        self._waiters.append(waiter)
        timer = None
        if timeout_s is not None:

            def expire() -> None:
                if not waiter.is_done:
                    waiter.success(False)

            timer = self._loop.net.call_later(max(0.0, timeout_s), expire)
        try:
            woken: bool = await waiter
        finally:
            if timer is not None:
                self._loop.net.cancel(timer)
        if not woken and waiter in self._waiters:
            self._waiters.remove(waiter)
        return woken


class Lock:
    """Lets coroutines through in turn; use with `async with`."""

    __slots__ = ("_free", "_held")

    def __init__(self, loop: Loop) -> None:
        self._held = False
        self._free = loop.signal()

    async def __aenter__(self) -> None:
        while self._held:
            await self._free.wait(0.05)
        self._held = True

    async def __aexit__(self, *_: object) -> None:
        self._held = False
        self._free.set()
