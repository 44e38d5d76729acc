"""kafka-python's selector without what costs time for each message.

The library registers a socket anew for each read, through an exception that spells out the socket, writes to a pipe to
wake itself up, and formats trace lines that nobody reads. At a thousand small answers per second and more that was half
of a copier's time. Behaviour stays the library's (`kafka.net.selector.NetworkSelector`); `wire` adds readers that stay.
"""

from __future__ import annotations

import heapq
import logging
import selectors
import threading
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any

from kafka.future import Future
from kafka.net.selector import MAX_TIMEOUT, KernelEvent, NetworkSelector, Task, TaskState

from twinlog.clock import Clock

log = logging.getLogger(__name__)

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Watcher:
    """A function that is called whenever its socket can be read, until the socket is unregistered."""

    __slots__ = ("readable",)

    def __init__(self, readable: Callable[[], None]) -> None:
        self.readable = readable


class Outcome(Future):  # type: ignore[misc]
    """A future whose error does not hold it, when nobody else does: that would be a cycle, which is freed late or not
    at all in a copier that waits."""

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


class LeanSelector(NetworkSelector):  # type: ignore[misc]
    """A selector for one thread's `Loop`; its timers go by the clock `now`."""

    _selector: Any
    _ready: Any
    _scheduled: Any
    _current: Any
    _poll_owner: Any
    _io_thread: threading.Thread | None

    def __init__(self, clock: Clock, **configs: Any) -> None:
        super().__init__(**configs)
        self.now = clock.monotonic

    def call_later(self, delay: float, task: Any) -> Any:
        return self.call_at(self.now() + delay, task)

    def start(self) -> None:
        """Run on a thread of its own from now on. Raises RuntimeError where there may be no more; it is closed then."""
        try:
            super().start()
        except RuntimeError:
            self._io_thread = None
            self.close()
            raise

    def watch(self, sock: Any, readable: Callable[[], None]) -> None:
        """Call `readable` whenever `sock` can be read; `unregister_event` ends that."""
        self._selector.register(sock, _READ, (Watcher(readable), None))

    def begin(self, coroutine: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        """Start a coroutine on the loop's own thread; returns a future of its result."""
        future = Outcome()
        self.call_soon(_fulfil(future, coroutine, args))
        return future

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
            scheduled = self._scheduled
            while scheduled and scheduled[0][0] <= self.now():
                _, task = heapq.heappop(scheduled)
                task.scheduled_at = None
                self._add_ready_task(task)
            ready = self._ready
            for _ in range(len(ready)):
                self._step(ready.popleft())
        finally:
            self._current = None
            self._poll_owner = None
            self._poll_lock.release()

    def _patience(self, timeout: float | None) -> float | None:
        if self._ready:
            return 0
        if self._scheduled:
            due = self._scheduled[0][0] - self.now()
            timeout = due if timeout is None else min(timeout, due)
        return None if timeout is None else min(max(timeout, 0), MAX_TIMEOUT)

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
        if task.state is TaskState.DONE or task.state is TaskState.CANCELLED:
            return
        self._current = task
        task.state = TaskState.RUNNING
        try:
            event = task()
        except StopIteration:
            self._task_done(task)
            return
        except BaseException:
            log.exception("a task failed: %s", task)
            self._task_done(task)
            return
        if task.state is TaskState.CANCELLED:
            self._pending_tasks.discard(task)
            task.close()
        elif isinstance(event, Future):
            task.state = TaskState.WAIT_FUTURE
            event.add_both(partial(self._go_on, task))
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
