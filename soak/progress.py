"""A line each minute: how far a soak is, what it has found, and when it will be done."""

from __future__ import annotations

import datetime
import threading
import time
from types import TracebackType

from bench.stage.meter import MB
from bench.stage.progress import say
from faults.rounds import Rounds
from soak.watch import Watch

EVERY_S = 60.0
AFTERWARDS_S = 240.0
"""About what a rest and the last take-over take."""


class Progress:
    """Use as a context manager around the rounds; the time runs from there."""

    def __init__(self, rounds: Rounds, watch: Watch, seconds: float) -> None:
        self._rounds = rounds
        self._watch = watch
        self._seconds = seconds
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def left_s(self) -> float:
        """Seconds until no further round begins."""
        return self._seconds - (time.monotonic() - self._began)

    def line(self) -> str:
        """Where it stands now."""
        done = list(self._rounds.done)
        left = max(0.0, self.left_s()) + AFTERWARDS_S
        end = datetime.datetime.now().astimezone() + datetime.timedelta(seconds=left)
        memory = ", ".join(f"{role} {size / MB:,.0f} MB" for role, size in self._watch.now().items() if size)
        last = f", last {done[-1].fault}" if done else ""
        return (
            f"minute {(time.monotonic() - self._began) / 60:.0f} of {self._seconds / 60:g}: {len(done)} faults{last}; "
            f"{sum(one.records for one in done):,} records judged, {sum(not one.fine for one in done)} rounds wrong; "
            f"{memory}; done about {end:%H:%M}"
        )

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            say(self.line())
