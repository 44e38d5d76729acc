"""A selector that avoids kafka-python's costs for each message.

The library registers a socket again for each read, through an exception that spells out the socket. The library writes
to a pipe to wake itself up, and formats trace lines that are dropped. At a thousand small answers per second and more
that was half of a copier's time. Behaviour stays the library's (`kafka.net.selector.NetworkSelector`); `watch_socket`
adds permanent readers.
"""

from __future__ import annotations

import heapq
import logging
import selectors
import threading
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE
from types import FunctionType, MethodType
from typing import Any

from kafka.future import Future
from kafka.net.selector import MAX_TIMEOUT, KernelEvent, NetworkSelector, Task, TaskState

from twinlog.clock import LONG_AGO, Clock

log = logging.getLogger(__name__)

_PLAIN = frozenset({FunctionType, MethodType})
_SUSPENDS = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE

_ROUNDS = 8

_FEW = 64
"""So many cancelled timers may stay in any case."""

_AWAITED = (Future, KernelEvent)
"""A coroutine waits for these in the loop."""

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

_CREATED, _SCHEDULED, _RUNNING = TaskState.CREATED, TaskState.SCHEDULED, TaskState.RUNNING
_WAIT_FUTURE, _DONE, _CANCELLED = TaskState.WAIT_FUTURE, TaskState.DONE, TaskState.CANCELLED
"""The states of tasks: Python 3.11 takes three times as long for a member of an enumeration as for a call."""


class Watcher:
    """A function that is called whenever its socket can be read, until the socket is unregistered."""

    __slots__ = ("readable",)

    def __init__(self, readable: Callable[[], None]) -> None:
        self.readable = readable


class LeanFuture(Future):  # type: ignore[misc]
    """A future that is freed even if its error is kept.

    If the error held its future, the two would be a cycle, which a waiting copier frees late or never.
    """

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, Any]:
        if not self.is_done:
            yield self
        try:
            if self.exception is not None:
                raise self.exception
            return self.value
        finally:
            # The error's traceback has this frame.
            del self


class _Callback(Task):  # type: ignore[misc]
    """A plain function that is called once: the form of most timers."""

    _stack: tuple[Any, None] | None

    def __init__(self, function: Callable[[], Any]) -> None:
        # Set as in the library, but the library checks the function's type four times.
        self._stack = (function, None)
        self._res = self._exc = self.scheduled_at = None
        self.state = _CREATED

    def __call__(self, arg: Any = None) -> Any:
        assert self._stack is not None
        function, _ = self._stack
        self._stack = None
        result = function()
        if result is not None:
            # The function returned an awaitable.
            self._stack = (_once(result), None)
            return super().__call__()
        self.state = _DONE
        raise StopIteration


class _Coroutine(Task):  # type: ignore[misc]
    """A coroutine, the form of almost all tasks; the library looks at its type at each of its steps."""

    _stack: Any
    _exc: BaseException | None

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._stack = (coroutine, None)
        self._res = self._exc = self.scheduled_at = None
        self.state = _CREATED

    def __call__(self, arg: Any = None) -> Any:
        stack = self._stack
        if stack is None or stack[1] is not None or self._exc is not None:
            # The library knows waits for a socket, which lie on the stack, and errors from outside.
            return super().__call__(arg)
        try:
            awaited = stack[0].send(None)
        except StopIteration as final:
            self._stack, self.state, self._res = None, _DONE, final.value
            raise
        except BaseException as error:
            self._stack, self.state, self._exc = None, _DONE, error
            raise
        if isinstance(awaited, _AWAITED):
            return awaited
        self.push_stack(awaited)
        return super().__call__(arg)


def _once(result: Any) -> Generator[Any, Any, None]:
    yield result


class LeanSelector(NetworkSelector):  # type: ignore[misc]
    """A selector for a thread's `Loop`; its timers use the clock `now`.

    A cancelled timer stays in the heap until its time, or until most of the heap are cancelled timers. Each request has
    a timer, and the library searches the whole heap for it and builds the heap again.
    """

    _selector: Any
    _ready: Any
    _scheduled: Any
    _current: Any
    _poll_owner: Any
    _io_thread: threading.Thread | None
    _exception: BaseException | None

    def __init__(self, clock: Clock, **configs: Any) -> None:
        super().__init__(**configs)
        self.now = clock.monotonic
        self._rest = clock.sleep
        self._rest_until = LONG_AGO
        self._cancelled = 0

    def call_later(self, delay: float, task: Any) -> Any:
        return self.call_at(self.now() + delay, task)

    def call_at(self, when: float, task: Any) -> Any:
        if type(task) in _PLAIN and not task.__code__.co_flags & _SUSPENDS:
            task = _Callback(task)
        return super().call_at(when, task)

    def cancel(self, task: Any) -> None:
        if type(task) is not _Callback or task.state is not _SCHEDULED:
            super().cancel(task)
            return
        # The timer of an answered request: the library looks at the form of its function, and makes an error.
        self._unschedule(task)
        self._pending_tasks.discard(task)
        task._stack, task.state = None, _CANCELLED

    def _unschedule(self, task: Any) -> None:
        task.scheduled_at = None
        task.state = TaskState.UNSCHEDULED
        self._cancelled += 1
        if self._cancelled > max(_FEW, len(self._scheduled) // 2):
            # In place, because a poll may be iterating over the list.
            self._scheduled[:] = [entry for entry in self._scheduled if entry[1].scheduled_at == entry[0]]
            heapq.heapify(self._scheduled)
            self._cancelled = 0

    def rest_until(self, when: float) -> None:
        """Look at no socket before a time, or before the next timer, once every ready task has run.

        An answer that arrives meanwhile is taken together with the timer, and its own turn of the loop is saved.
        """
        self._rest_until = when

    def next_timer(self) -> float | None:
        """The time of the next active timer."""
        scheduled = self._scheduled
        while scheduled:
            when, task = scheduled[0]
            if task.scheduled_at == when:
                due: float = when
                return due
            heapq.heappop(scheduled)
            self._cancelled -= 1
        return None

    @property
    def ended(self) -> bool:
        """Whether the selector's own thread has ended by an error."""
        return self._exception is not None

    def start(self) -> None:
        """Run on a thread of its own from now on.

        Raises RuntimeError if the system refuses a thread; the selector is closed then.
        """
        try:
            super().start()
        except RuntimeError:
            self._io_thread = None
            self.close()
            raise

    def watch_socket(self, sock: Any, readable: Callable[[], None]) -> None:
        """Call `readable` whenever `sock` can be read, until `unregister_event`."""
        self._selector.register(sock, _READ, (Watcher(readable), None))

    def begin(self, coroutine: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        """Start a coroutine on the loop's own thread; returns a future of its result."""
        future = LeanFuture()
        self.call_soon(_Coroutine(_fulfil(future, coroutine, args)))
        return future

    def begin_alone(self, coroutine: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        """Start a coroutine whose result is ignored, and which catches its errors."""
        self.call_soon(_Coroutine(coroutine(*args)))

    def register_event(self, fileobj: Any, event: int, task: Any) -> None:
        if not isinstance(task, Task):
            task = Task(task)
        key = self._key(fileobj)
        if key is None:
            self._selector.register(fileobj, event, (task, None) if event == _READ else (None, task))
            return
        if key.events & event:
            raise RuntimeError(f"{fileobj} is waited for already")
        reader, writer = key.data
        self._selector.modify(fileobj, key.events | event, (task, writer) if event == _READ else (reader, task))

    def unregister_event(self, fileobj: Any, event: int) -> None:
        key = self._key(fileobj)
        if key is None:
            return
        events = key.events & ~event
        if not events:
            self._selector.unregister(fileobj)
            return
        reader, writer = key.data
        self._selector.modify(fileobj, events, (None, writer) if event == _READ else (reader, None))

    def _key(self, fileobj: Any) -> Any:
        """The selector's entry for an open file; its own map would raise an error with the file spelled out."""
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        return self._selector._fd_to_key.get(number)

    def _poll_once(self, timeout: float | None = None) -> None:
        if not self._poll_lock.acquire(blocking=False):
            # Raises the error for the caller.
            super()._poll_once(timeout)
            return
        self._poll_owner = threading.current_thread()
        try:
            self._take_events(self._selector.select(self._patience(timeout)))
            self._take_timers()
            ready = self._ready
            # An answer sets off several rounds of tasks; the sockets are looked at once for all rounds.
            for _ in range(_ROUNDS):
                for _ in range(len(ready)):
                    self._step(ready.popleft())
                if not ready:
                    break
        finally:
            self._current = None
            self._poll_owner = None
            self._poll_lock.release()

    def _patience(self, timeout: float | None) -> float | None:
        if self._ready:
            return 0
        due = self.next_timer()
        if self._rest_until > LONG_AGO and timeout is None:
            until, self._rest_until = self._rest_until, LONG_AGO
            left_s = (until if due is None else min(until, due)) - self.now()
            if left_s > 0:
                # More exact than the selector, which waits for whole milliseconds.
                self._rest(left_s)
        if due is not None:
            timeout = due - self.now() if timeout is None else min(timeout, due - self.now())
        return None if timeout is None else min(max(timeout, 0), MAX_TIMEOUT)

    def _take_timers(self) -> None:
        scheduled, now = self._scheduled, self.now()
        while scheduled and scheduled[0][0] <= now:
            when, task = heapq.heappop(scheduled)
            if task.scheduled_at == when:
                task.scheduled_at = None
                self._add_ready_task(task)
            else:
                self._cancelled -= 1

    def _take_events(self, found: list[tuple[Any, int]]) -> None:
        for key, events in found:
            reader, writer = key.data
            if key.fileobj is self._wakeup_r:
                self._process_events([(key, events)])
                continue
            if events & _WRITE and writer is not None:
                self._add_ready_task(writer)
            if events & _READ and reader is not None:
                if type(reader) is Watcher:
                    reader.readable()
                else:
                    self._add_ready_task(reader)

    def _step(self, task: Any) -> None:
        if task.state is _DONE or task.state is _CANCELLED:
            return
        self._current = task
        task.state = _RUNNING
        try:
            event = task()
        except StopIteration:
            self._task_done(task)
            return
        except BaseException:
            log.exception("TW-FAULT-02: a task failed: %s", task)
            self._task_done(task)
            return
        if task.state is _CANCELLED:
            self._pending_tasks.discard(task)
            task.close()
        elif isinstance(event, Future):
            task.state = _WAIT_FUTURE
            go_on = partial(self._go_on, task)
            event._add_cb_eb(go_on, go_on)
        elif isinstance(event, KernelEvent):
            try:
                getattr(self, event.method)(*event.args)
            except BaseException as error:
                task.inject_exc(error)
                self._add_ready_task(task)
        else:
            raise RuntimeError(f"a task waits for {event!r}")

    def _go_on(self, task: Any, _: Any) -> None:
        self._add_ready_task(task)


async def _fulfil(future: Any, coroutine: Callable[..., Coroutine[Any, Any, Any]], args: tuple[Any, ...]) -> None:
    try:
        future.success(await coroutine(*args))
    except BaseException as error:
        future.failure(error)
        # The error's traceback has this frame, and would be a cycle.
        del future
