"""Commands for topics: the selected partitions, the requested change of them, and the result.

All values are independent of a cluster, so a command line, a REST API and the driver of a flow share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from twinlog.errors import OptionError, PatternError
from twinlog.mirror.topology.filters import compile_list, spelled_out
from twinlog.model.amounts import shown_moment
from twinlog.model.topic_names import HEARTBEATS
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.process.flow_levels import FlowLogLevel

ALL = ".*"


class TopicVerb(StrEnum):
    """The action that a command requests for partitions."""

    PAUSE = "pause"
    RESUME = "resume"
    RESTART_FROM = "restart-from"
    SKIP_TO = "skip-to"
    ACCEPT_GAP = "accept-gap"
    RELEASE = "release"

    @property
    def moves(self) -> bool:
        """Whether a partition may continue at another source offset afterwards."""
        return self in (TopicVerb.RESTART_FROM, TopicVerb.SKIP_TO, TopicVerb.ACCEPT_GAP)

    @property
    def needs_place(self) -> bool:
        """Whether a place in the source has to be named."""
        return self in (TopicVerb.RESTART_FROM, TopicVerb.SKIP_TO)


class LogPlaceKind(StrEnum):
    """How a place in the log of a source partition is named."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A place in the log of each source partition.

    It is the first offset, the end, an offset, or the first record that is at least as young as `value`, in
    milliseconds since 1970.
    """

    kind: LogPlaceKind
    value: int = 0

    def __str__(self) -> str:
        if self.kind in (LogPlaceKind.EARLIEST, LogPlaceKind.LATEST):
            return self.kind.value
        return f"{self.kind} {shown_moment(self.value) if self.kind is LogPlaceKind.TIME else self.value}"


@dataclass(frozen=True)
class PartitionSelector:
    """Partitions of source topics: the topics whose whole name matches `pattern`, a Java regular expression.

    `partitions` has the numbers of the selected partitions, None for all partitions. Raises OptionError if the pattern
    is invalid.
    """

    pattern: str
    partitions: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        try:
            compile_list((self.pattern,))
        except PatternError as error:
            raise OptionError(f"{self.pattern!r} is no pattern of topics: {error}") from None

    @cached_property
    def _matches(self) -> Callable[[str], bool]:
        compiled = compile_list((self.pattern,))
        assert compiled is not None
        return compiled.matches

    @property
    def everything(self) -> bool:
        """Whether the selector has every present and every future partition."""
        return self.pattern == ALL and self.partitions is None

    @property
    def may_be_heartbeats(self) -> bool:
        """Whether the selector spells out the name of a topic that may hold heartbeats."""
        return any(name.endswith(HEARTBEATS) for name in spelled_out((self.pattern,)))

    def has_topic(self, topic: TopicName, *, heartbeats: bool = False) -> bool:
        """Whether the selector has partitions of this source topic.

        If the topic holds `heartbeats`, the selector must spell out its name.
        """
        return self._matches(topic) and (not heartbeats or topic in spelled_out((self.pattern,)))

    def has_number(self, partition: int) -> bool:
        """Whether the selector has the partition of this number of its topics."""
        return self.partitions is None or partition in self.partitions

    def __str__(self) -> str:
        if self.partitions is None:
            return self.pattern
        return f"{self.pattern} partition{'s' * (len(self.partitions) != 1)} {', '.join(map(str, self.partitions))}"


IsHeartbeats = Callable[[TopicName], bool]
"""Whether a source topic holds heartbeats."""


def _never(_topic: TopicName) -> bool:
    return False


def selected(
    selectors: Iterable[PartitionSelector],
    partitions: Iterable[TopicPartition],
    is_heartbeats: IsHeartbeats = _never,
) -> frozenset[TopicPartition]:
    """The source partitions that match a selector."""
    entries = [TopicPause(one, True) for one in selectors]
    return TopicPauses(tuple(entries)).paused(partitions, is_heartbeats)


@dataclass(frozen=True, slots=True)
class TopicCommand:
    """A request that `by` (as a rule `host-pid`) made at `at_ms` (Unix time); `id` is unique for all time."""

    id: str
    verb: TopicVerb
    selectors: tuple[PartitionSelector, ...]
    place: LogPlace | None = None
    at_ms: int = 0
    by: str = ""

    def same_as(self, other: TopicCommand) -> bool:
        """Whether both commands request the same action, regardless of the requester and the time."""
        return (self.verb, self.selectors, self.place) == (other.verb, other.selectors, other.place)

    def __str__(self) -> str:
        place = "" if self.place is None else f" {self.place}"
        return f"{self.verb.value}{place} {', '.join(map(str, self.selectors))}"


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """The result of a command for a source partition: copying continues at source offset `after` instead of `before`.

    `before` is None for an uncopied partition. If `changes` is false, the partition stays at `before`.

    `passed` counts source offsets that are skipped for good, `repeated` counts source offsets that are copied again,
    and `text` has more information for the operator. `repeats` is true if an earlier command has done the same to the
    partition. `before_target` is the target offset that was stored with `before`, or None. After a restart, all copies
    of source offset `after` and of later source offsets are at `first_target` or after it; None if unknown.
    """

    partition: TopicPartition
    before: SourceOffset | None
    after: SourceOffset | None
    changes: bool = False
    passed: int = 0
    repeated: int = 0
    text: str = ""
    before_target: TargetOffset | None = None
    first_target: TargetOffset | None = None
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class LevelRequest:
    """A request that `by` made at `at_ms` (Unix time): log the flow at `level` for `for_s` seconds, at most until its
    process ends. `id` is unique for all time."""

    id: str
    level: FlowLogLevel
    for_s: float
    at_ms: int = 0
    by: str = ""


class CommandState(StrEnum):
    """The progress of a command: `BEGUN` once the process that runs the flow executes it."""

    REQUESTED = "requested"
    BEGUN = "begun"
    APPLIED = "applied"
    REFUSED = "refused"

    @property
    def over(self) -> bool:
        """Whether the command has its final result."""
        return self in (CommandState.APPLIED, CommandState.REFUSED)


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The result of a command by `at_ms`, in process `by`; `reason` explains a refusal.

    `moves` is None until the result for each partition is decided.
    """

    command: TopicCommand
    result: CommandState = CommandState.REQUESTED
    at_ms: int | None = None
    by: str = ""
    reason: str = ""
    moves: tuple[PartitionMove, ...] | None = None

    @property
    def changed(self) -> list[PartitionMove]:
        """The moves that change the source offset of a partition."""
        return [move for move in self.moves or () if move.changes]


@dataclass(frozen=True, slots=True)
class TopicPause:
    """An entry of the pauses: its selector, and whether the selected partitions are paused or copied from then on."""

    selector: PartitionSelector
    paused: bool
    at_ms: int = 0
    by: str = ""


@dataclass(frozen=True, slots=True)
class TopicPauses:
    """The pauses of a flow: the last entry that selects a partition counts, also for future partitions."""

    entries: tuple[TopicPause, ...] = field(default=())

    def paused(
        self, partitions: Iterable[TopicPartition], is_heartbeats: IsHeartbeats = _never
    ) -> frozenset[TopicPartition]:
        """The paused partitions among `partitions`; an entry has heartbeats only if it spells out their topic."""
        if not any(entry.paused for entry in self.entries):
            return frozenset()
        topics: dict[TopicName, list[TopicPause]] = {}
        found = set()
        for part in partitions:
            if part.topic not in topics:
                beats = is_heartbeats(part.topic)
                topics[part.topic] = [
                    entry for entry in reversed(self.entries) if entry.selector.has_topic(part.topic, heartbeats=beats)
                ]
            last = next((entry for entry in topics[part.topic] if entry.selector.has_number(part.partition)), None)
            if last is not None and last.paused:
                found.add(part)
        return frozenset(found)

    def is_redundant(
        self, command: TopicCommand, partitions: Iterable[TopicPartition], is_heartbeats: IsHeartbeats = _never
    ) -> bool:
        """Whether a `pause` or `resume` leaves all present and future partitions as they are; `partitions` are all
        source partitions now.

        It must be without effect on future partitions, too.
        """
        meant = selected(command.selectors, partitions, is_heartbeats)
        paused = self.paused(meant, is_heartbeats)
        if command.verb is TopicVerb.RESUME:
            topics = {part.topic for part in meant}
            literal = all(one.pattern in spelled_out((one.pattern,)) for one in command.selectors)
            left = [entry.selector for entry in self.entries if entry.paused]
            return not paused and not any(not literal or any(map(one.has_topic, topics)) for one in left)
        resumed = [at for at, entry in enumerate(self.entries) if not entry.paused]
        since = {entry.selector for entry in self.entries[max(resumed, default=-1) + 1 :]}
        return paused == meant and since.issuperset(command.selectors)


def without_effect(entries: Sequence[TopicPause]) -> list[TopicPause]:
    """The entries that later entries overrule for every present and future partition; `entries` are in their order."""
    last = max((at for at, entry in enumerate(entries) if entry.selector.everything), default=0)
    # A selector of everything excludes heartbeats; a selector spells out each topic of heartbeats.
    overruled = [entry for entry in entries[:last] if not entry.selector.may_be_heartbeats]
    kept = list(entries[last:])
    while kept and not kept[0].paused:
        overruled.append(kept.pop(0))
    return overruled
