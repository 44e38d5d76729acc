"""The present work of a worker, in the words of Connect (Kafka class Stage)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from twinlog.clock import Clock, wall_ms

AWAITS_START = "awaiting startup"
READS_TOPICS = "initializing and reading to the end of internal topics"
JOINS = "ensuring membership in the cluster"


@dataclass(frozen=True, slots=True)
class Stage:
    """The present work of a worker; `description` completes "The worker is currently ...".

    It began at `began_ms` (Unix time). `detail` is empty, or a sentence that Connect lacks.
    """

    description: str
    began_ms: int
    detail: str = ""

    def __str__(self) -> str:
        text = f"The worker is currently {self.description}, which began at {_instant(self.began_ms)}."
        return f"{text} {self.detail}".rstrip()


class Stages:
    """The work of a worker until it can fulfil all requests; a single thread changes it, any thread may read it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now: Stage | None = Stage(AWAITS_START, wall_ms(clock))

    def enter_stage(self, description: str, detail: str = "") -> None:
        """Note the present work; a repeated `description` keeps its first time."""
        now = self._now
        same = now is not None and now.description == description
        self._now = Stage(description, now.began_ms if now is not None and same else wall_ms(self._clock), detail)

    def end(self) -> None:
        """Note that the worker can fulfil all requests."""
        self._now = None

    def __str__(self) -> str:
        return "" if self._now is None else str(self._now)


def timed_out(stage: str) -> str:
    """The message for a request that timed out in the worker (Kafka class HerderRequestHandler)."""
    return f"Request timed out. {stage}" if stage else "Request timed out"


def _instant(ms: int) -> str:
    """A moment as Java's class Instant prints it: milliseconds appear unless they are zero."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds").replace("+00:00", "Z")
