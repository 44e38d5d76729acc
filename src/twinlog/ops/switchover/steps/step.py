"""The form of a step: its plan, its action, and its undoing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from twinlog.errors import TwinlogError
from twinlog.model.types import TopicName
from twinlog.ops.switchover.entries import JournalEntries, Offsets, StepPhase, from_json
from twinlog.ops.switchover.model import Data, FenceMethod, MovedTopic, SwitchoverKind, SwitchoverOptions, TooLongError
from twinlog.ops.switchover.world import SwitchoverClusters

Show = Callable[[str, str], None]
"""Shows how far a step is: its name, and words."""

RESUMED_S = 10.0
"""The least time that a process waits after it resumed a switchover."""


@dataclass(slots=True)
class EarlierStep:
    """The result of a step that leads the switchover back to an earlier step, and the reason."""

    step: str
    why: str


@dataclass
class StepContext:
    """The context of a step; `entries` is the present journal."""

    world: SwitchoverClusters
    options: SwitchoverOptions
    entries: JournalEntries
    show: Show = lambda _step, _words: None
    here_since_ms: int = field(init=False)
    """Since when this process works on it."""

    def __post_init__(self) -> None:
        self.here_since_ms = self.world.now_ms()

    def done(self, step: str) -> Data:
        """Return the result of an earlier step."""
        found = self.entries.done(step)
        if found is None:
            raise TwinlogError(f"the journal has no result of step {step}")
        return found

    @cached_property
    def topics(self) -> tuple[MovedTopic, ...]:
        """The topics that the pre-flight found."""
        return topics_of(self.done("check"))

    @property
    def fence(self) -> FenceMethod:
        """How producers are kept from the source."""
        return FenceMethod(self.done("check")["fence"])

    def offsets(self, step: str, name: str) -> Offsets:
        """Return offsets from the result of an earlier step."""
        return from_json(self.done(step)[name])

    def require_time(self, step: str) -> None:
        """Raise TooLongError when producers have been fenced for too long."""
        if self.options.kind is SwitchoverKind.EMERGENCY:
            return
        now_ms, at_most_ms = self.world.now_ms(), self.options.at_most_s * 1000
        fenced_ms = self.entries.at_ms("fence", StepPhase.BEGUN) or self.here_since_ms
        # After a long interruption, all records may be copied by now.
        if now_ms - fenced_ms > at_most_ms and now_ms - self.here_since_ms > min(at_most_ms, RESUMED_S * 1000):
            raise TooLongError(f"step {step} was not done within {self.options.at_most_s:g} s of fencing producers")


def topics_data(topics: tuple[MovedTopic, ...]) -> list[list[str | int]]:
    """Topics as values of JSON."""
    return [[one.name, one.remote, one.partitions, one.producers] for one in topics]


def topics_of(data: Data) -> tuple[MovedTopic, ...]:
    """The topics that the pre-flight wrote down."""
    return tuple(
        MovedTopic(TopicName(name), TopicName(remote), partitions, TopicName(producers))
        for name, remote, partitions, producers in data["topics"]
    )


def _nothing(_context: StepContext) -> Data:
    return {}


@dataclass(frozen=True, slots=True)
class Step:
    """`begin` reads, and returns the plan; `act` executes it, also a second time, and returns the result.

    `undo` takes back all changes that `act` may have made. `words` describe the step.
    """

    name: str
    words: str
    act: Callable[[StepContext], Data | EarlierStep]
    begin: Callable[[StepContext], Data] = _nothing
    undo: Callable[[StepContext], None] | None = None
