"""What a worker does at a moment, in the words of Connect's own (Kafka class Stage)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from twinlog.clock import Clock, wall_ms

AWAITS_START = "awaiting startup"
READS_TOPICS = "initializing and reading to the end of internal topics"
JOINS = "ensuring membership in the cluster"


@dataclass(frozen=True, slots=True)
class Stage:
    """`description` completes "The worker is currently ...", since `began_ms` (Unix time); `detail` is a sentence that
    Connect does not have, or empty."""

    description: str
    began_ms: int
    detail: str = ""

    def __str__(self) -> str:
        text = f"The worker is currently {self.description}, which began at {_instant(self.began_ms)}."
        return f"{text} {self.detail}".rstrip()


class Stages:
    """What a worker does while it cannot fulfil all requests; one thread changes it, any may read it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now: Stage | None = Stage(AWAITS_START, wall_ms(clock))

    def enter_stage(self, description: str, detail: str = "") -> None:
        """It does this now; as long as it is the same, it began when it was first named."""
        now = self._now
        same = now is not None and now.description == description
        self._now = Stage(description, now.began_ms if now is not None and same else wall_ms(self._clock), detail)

    def end(self) -> None:
        """It can fulfil all requests."""
        self._now = None

    def __str__(self) -> str:
        return "" if self._now is None else str(self._now)


def timed_out(stage: str) -> str:
    """The message of a request that the worker could not answer in time (Kafka class HerderRequestHandler)."""
    return f"Request timed out. {stage}" if stage else "Request timed out"


def _instant(ms: int) -> str:
    """A moment as Java's class Instant prints it, with milliseconds unless there are none."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds").replace("+00:00", "Z")
