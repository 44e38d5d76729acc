"""The progress of tasks: each task sends its driver numbers of compared offsets, over a line that needs a secret."""

from __future__ import annotations

import contextlib
import secrets
import threading
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from types import TracebackType

from twinlog.clock import SYSTEM, Clock
from twinlog.lease.channel import DriverAddress

EVERY_S = 0.5
PAUSE_S = 0.05
LONGEST = 20
"""Bytes of a number."""


class ProgressServer:
    """Adds the numbers of tasks up in `done`; use it as a context manager. Nothing is unpickled.

    If this machine cannot listen at `host`, as behind NAT, `address` stays None and tasks send nothing.
    """

    def __init__(self, host: str, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        secret = secrets.token_bytes(32)
        self.done = 0
        self._lock = threading.Lock()
        self._closed = False
        self._listener: Listener | None = None
        self.address: DriverAddress | None = None
        with contextlib.suppress(OSError):
            self._listener = Listener((host, 0), backlog=128, authkey=secret)
            self.address = DriverAddress(host, int(self._listener.address[1]), secret)
            threading.Thread(target=self._accept, args=(self._listener,), name="progress", daemon=True).start()

    def __enter__(self) -> ProgressServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        if self._listener is not None:
            self._listener.close()

    def _accept(self, listener: Listener) -> None:
        while not self._closed:
            try:
                line = listener.accept()
                threading.Thread(target=self._add_up, args=(line,), name="line", daemon=True).start()
            except (OSError, EOFError, AuthenticationError, RuntimeError):
                # A stranger, or the end.
                self._clock.sleep(0 if self._closed else PAUSE_S)

    def _add_up(self, line: Connection) -> None:
        with contextlib.suppress(OSError, EOFError, ValueError), line:
            while True:
                more = int(line.recv_bytes(LONGEST))
                with self._lock:
                    self.done += more


class ProgressLine:
    """A task's end of the progress line; `report` may be called for each batch.

    The line sends nothing if no driver listens.
    """

    def __init__(self, address: DriverAddress | None, clock: Clock = SYSTEM) -> None:
        self._now = clock.monotonic
        self._line: Connection | None = None
        self._waiting = 0
        self._sent_at = self._now()
        if address is not None:
            with contextlib.suppress(OSError, EOFError, AuthenticationError):
                self._line = Client((address.host, address.port), authkey=address.secret)

    def report(self, offsets: int) -> None:
        """Add a number of compared offsets."""
        self._waiting += offsets
        if self._line is not None and self._now() - self._sent_at >= EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Send the waiting number."""
        self._sent_at = self._now()
        if self._line is None or not self._waiting:
            return
        try:
            self._line.send_bytes(b"%d" % self._waiting)
            self._waiting = 0
        except OSError:
            self._line = None

    def close(self) -> None:
        self.flush()
        if self._line is not None:
            self._line.close()
            self._line = None
