"""Live readings: a thread for each reader, which reads only while a browser looks.

A page shows the last reading with its age. The thread pauses half a minute after the last request; after a minute it
closes the reader and its connections, and ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar

from twinlog.clock import LONG_AGO, Clock, wall_ms
from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import told
from twinlog.ui.faults import log_fault

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)

LOOKS_S = 30.0
"""A browser counts as looking for this time after its last request."""

CLOSE_S = 60.0
"""The connections are closed at this time after the last request."""

STALE_PERIODS, STALE_LEAST_S = 3, 10.0
"""A reading is stale after so many pauses between two reads, and after so many seconds at least."""


@dataclass(frozen=True, slots=True)
class LiveReading(Generic[V]):
    """The newest value, read at `at_ms` (Unix), and the reason why the last read failed, None if it succeeded.

    `version` counts the reads, and failed reads too.
    """

    value: V | None = None
    at_ms: int | None = None
    trouble: str | None = None
    version: int = 0


class LiveReader(Protocol[V_co]):
    """Reads the same values again and again; a poller's thread alone calls the reader."""

    def read(self) -> V_co:
        """The values of now. Raises TwinlogError."""

    def close(self) -> None:
        """Close the connections."""


class LiveStep(Enum):
    """The next step of a poller's thread."""

    READ = "read"
    WAIT = "wait"
    END = "end"


def next_step(now: float, touched_at: float, due_at: float) -> tuple[LiveStep, float]:
    """The step of a thread at `now`, and the most seconds to wait before it asks again."""
    quiet_s = now - touched_at
    if quiet_s >= CLOSE_S:
        return LiveStep.END, 0.0
    if quiet_s >= LOOKS_S:
        return LiveStep.WAIT, CLOSE_S - quiet_s
    if now >= due_at:
        return LiveStep.READ, 0.0
    return LiveStep.WAIT, min(due_at - now, LOOKS_S - quiet_s)


class LivePoller(Generic[V]):
    """Reads again and again, `every_s` seconds apart, while `touch` is called; `note` gets each value once."""

    def __init__(
        self,
        name: str,
        open_reader: Callable[[], LiveReader[V]],
        every_s: float,
        clock: Clock,
        note: Callable[[V], None] = lambda _: None,
    ) -> None:
        self.name = name
        self._open = open_reader
        self._every_s = every_s
        self._clock = clock
        self._note = note
        self._changed = threading.Condition()
        self._reading: LiveReading[V] = LiveReading()
        self._touched_at = self._due_at = self._read_at = LONG_AGO
        self._thread: threading.Thread | None = None
        self._closed = False
        self._asked = self._answered = 0
        """The calls of `hurry`, and the calls of them before the newest finished read began."""

    @property
    def reading(self) -> LiveReading[V]:
        """The newest reading."""
        return self._reading

    @property
    def is_stale(self) -> bool:
        """Whether the newest reading tells nothing about now: the thread has paused since, its read takes long, or the
        read began before the last action."""
        if self._answered < self._asked:
            return True
        return self._clock.monotonic() - self._read_at > max(STALE_LEAST_S, STALE_PERIODS * self._every_s)

    @property
    def runs(self) -> bool:
        """Whether the thread runs, and may have connections."""
        return self._thread is not None

    def touch(self) -> None:
        """A browser looks: read for the next half minute."""
        with self._changed:
            now = self._clock.monotonic()
            # A thread that reads again by itself sees the time of this look then.
            paused = now - self._touched_at >= LOOKS_S
            self._touched_at = now
            if self._thread is None and not self._closed:
                self._due_at = LONG_AGO
                self._thread = threading.Thread(target=self._run, name=f"console {self.name}", daemon=True)
                self._thread.start()
            if paused:
                self._changed.notify_all()

    def hurry(self) -> None:
        """Read at once, as after an action; a read that has begun may lack the action, and another read follows it."""
        with self._changed:
            self._asked += 1
            self._due_at = LONG_AGO
            self._changed.notify_all()

    def wait_reading(self, timeout_s: float, newer_than: int = 0) -> LiveReading[V]:
        """The newest reading; waits for a reading with a later version than `newer_than`, for `timeout_s` at most."""
        self.touch()
        with self._changed:
            self._clock.wait_for(self._changed, lambda: self._closed or self._reading.version > newer_than, timeout_s)
            return self._reading

    def wait_fresh(self, timeout_s: float) -> LiveReading[V]:
        """The newest reading; if it is stale, waits for another reading, for `timeout_s` at most."""
        self.touch()
        with self._changed:
            self._clock.wait_for(self._changed, lambda: self._closed or not self.is_stale, timeout_s)
            return self._reading

    def close(self) -> None:
        """End the thread soon; it closes its reader."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        reader: LiveReader[V] | None = None
        try:
            while self._wait_due():
                reader = self._read_once(reader)
        finally:
            if reader is not None:
                reader.close()

    def _wait_due(self) -> bool:
        """Wait until a read is due; False when the thread ends."""
        with self._changed:
            while not self._closed:
                touched_at, due_at = self._touched_at, self._due_at
                step, wait_s = next_step(self._clock.monotonic(), touched_at, due_at)
                if step is LiveStep.READ:
                    return True
                if step is LiveStep.END:
                    break
                self._clock.wait_for(self._changed, self._is_other(touched_at, due_at), wait_s)
            self._thread = None
            return False

    def _is_other(self, touched_at: float, due_at: float) -> Callable[[], bool]:
        return lambda: self._closed or (self._touched_at, self._due_at) != (touched_at, due_at)

    def _read_once(self, reader: LiveReader[V] | None) -> LiveReader[V] | None:
        """Read, and store the reading; a failed read keeps the last value beside the reason."""
        value: V | None = None
        trouble: str | None = None
        asked = self._asked
        try:
            reader = reader or self._open()
            value = reader.read()
            self._note(value)
        except TwinlogError as error:
            trouble = told(error)
        except Exception as error:
            # The thread outlives any error, and the page says so.
            trouble = log_fault(error, f"READ {self.name}")
        before = self._reading
        if value is None:
            found = LiveReading(before.value, before.at_ms, trouble, before.version + 1)
        else:
            found = LiveReading(value, wall_ms(self._clock), trouble, before.version + 1)
        with self._changed:
            self._reading = found
            self._read_at = self._clock.monotonic()
            self._answered = asked
            self._due_at = LONG_AGO if self._asked > asked else self._read_at + self._every_s
            self._changed.notify_all()
        return reader
