"""The form of a step: its plan, its action, its undoing, and the calls to both clusters that it may make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Protocol, TypeVar

from twinlog.clock import Clock
from twinlog.errors import ClusterError, TwinlogError
from twinlog.errors.message_ids import id_of, with_id
from twinlog.kafka.retry import SWITCHOVER_STEP, retry_in_thread
from twinlog.mirror.topics.journal_keys import StepPhase
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.ops.proven_ranges import PartitionProven
from twinlog.ops.switchover.journal import JournalEntries, JournalLine, Offsets, SwitchoverRun, from_json
from twinlog.ops.switchover.model import (
    CopiedPosition,
    Data,
    FenceMethod,
    GroupOffset,
    MovedGroups,
    MovedTopic,
    NoteKind,
    Preflight,
    PreflightNote,
    RefusedCommits,
    SourceEnd,
    SwitchoverDirection,
    SwitchoverKind,
    SwitchoverOptions,
    TooLongError,
)

T = TypeVar("T")

Side = Literal["source", "target"]

Show = Callable[[str, str], None]
"""Shows how far a step is: its name, and words."""

RESUMED_S = 10.0
"""The least time that a process waits after it resumed a switchover."""

SEEN_MS = 5_000
"""How often a waiting step notes that its process works on it; the note also reveals a process that took over."""


class SwitchoverClusters(Protocol):
    """Both clusters and the clock. Every call that changes something may be repeated with the same values.

    Each raises ClusterError when a cluster fails to answer and RefusedError when a permission is missing.

    A protocol, as tests run the steps with a model of two clusters, and kill the process at each call.
    """

    ends: SwitchoverDirection

    @property
    def clock(self) -> Clock:
        """The clock by which failed calls are made again."""

    @property
    def source_answers(self) -> bool:
        """Whether the source has answered all questions so far."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def scope(self) -> Data:
        """The scope of a journal: `topics` as the file has them, and the ids of the clusters `from` and `to`; an
        unknown id is empty."""

    def preflight(self, options: SwitchoverOptions) -> Preflight:
        """Look at both clusters before anything is changed."""

    def list_moving_topics(self) -> tuple[MovedTopic, ...]:
        """The topics that the source has now, and the flow mirrors."""

    def find_unmoved_topics(self, moved: Collection[MovedTopic]) -> list[TopicName]:
        """The topics of the flow with records on the source, outside of this move and of all finished waves."""

    def get_ready(
        self, fence: FenceMethod, topics: Collection[MovedTopic], began: Mapping[TopicPartition, int]
    ) -> None:
        """Do all slow reads and preparations before producers wait; topics and groups stay unchanged.

        Raises NotReadyError if the target would refuse commits of groups, by the rights on topics that exist by now.
        """

    def source_ends(self, topics: Collection[MovedTopic]) -> dict[TopicPartition, SourceEnd]:
        """The present end of each source partition, including records that only its leader has."""

    def source_starts(self, topics: Collection[MovedTopic]) -> dict[TopicPartition, int]:
        """The first offset of each source partition."""

    def target_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The present ends of target partitions; missing partitions are left out."""

    def read_copied_positions(self) -> dict[TopicPartition, CopiedPosition]:
        """How far each source partition is copied, as the flow has stored it."""

    def read_proven(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionProven]:
        """How far the flow has proven the copies of source partitions equal; unreported partitions are left out."""

    def find_empty_spans(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> set[TopicPartition]:
        """The source partitions that are empty from the first offset of their span up to the second."""

    def name_stopped_partitions(
        self,
        ends: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        copied: Mapping[TopicPartition, CopiedPosition],
    ) -> list[str]:
        """The held and the paused partitions with records to copy up to `ends`, each in words with its way out."""

    def open_transactions(self, partitions: Collection[TopicPartition]) -> list[str]:
        """The transactions that are open in source partitions, in words."""

    def plan_fence(self, fence: FenceMethod, topics: Collection[MovedTopic]) -> Data:
        """Return the changes of a fence on the source, and the settings to restore afterwards; reads only."""

    def fence_producers(self, plan: Data, confirm: Callable[[], None]) -> None:
        """Keep producers from the source; `confirm` raises FencedError once another process works on the switchover."""

    def fence_holds(self, plan: Data) -> bool:
        """Whether every broker of the source refuses producers; False while unknown."""

    def lift_fence(self, plan: Data, side: Side) -> None:
        """Restore the settings that a fence changed on a cluster."""

    def find_lasting_denials(self, topics: Collection[MovedTopic]) -> list[str]:
        """The denials that keep all producers from topics of the source now, in words with their removal.

        Raises RefusedError for a login without DESCRIBE on the cluster.
        """

    def find_lasting_quotas(self) -> list[str]:
        """The quotas that keep all producers from the source now, in words with their removal.

        Raises RefusedError for a login without DESCRIBE_CONFIGS on the cluster.
        """

    def open_copies(self, topics: Collection[MovedTopic]) -> None:
        """Lift the fence of the flow (`twinlog.fence.writers`): producers write after the copies of these topics."""

    def close_copies(self, topics: Collection[MovedTopic]) -> None:
        """The flow may raise its fence again."""

    def read_fence(self) -> Data | None:
        """The fence that an earlier move left on the target."""

    def note_fence(self, plan: Data | None, side: Side) -> None:
        """Note on a cluster how to lift its fence, in case the other cluster is lost; None once it is lifted."""

    def missing_topics(self, topics: Collection[MovedTopic]) -> Data:
        """The topics that producers will write to and that the target lacks, with their settings; reads only."""

    def create_topics(self, plan: Data) -> Data:
        """Create the topics; returns the refused topics, with the reason."""

    def groups(
        self,
        topics: Collection[MovedTopic],
        cut: Mapping[TopicPartition, int],
        there: Mapping[TopicPartition, int],
        began: Mapping[TopicPartition, int],
        known: Collection[str],
    ) -> MovedGroups:
        """The groups of the source, and groups `known` from before, with their places of continuation.

        At the `cut` of a partition, this place is `there`.

        In a partition whose copying `began` at an offset, earlier records came from the target, or were copied by an
        earlier move.
        """

    def groups_by_checkpoints(self, topics: Collection[MovedTopic], cut: Mapping[TopicPartition, int]) -> MovedGroups:
        """The groups of a source that is lost, by their last checkpoints on the target."""

    def commit_groups(self, offsets: Sequence[GroupOffset]) -> RefusedCommits:
        """Commit offsets on the target; returns the refused commits."""

    def seed_positions(self, positions: Mapping[TopicPartition, int], side: Side) -> None:
        """Let the flow back, which stores its positions on that cluster, begin at these offsets."""

    def read_earlier_journal(self) -> JournalEntries:
        """The journal of the opposite direction, on the source; empty if the source lacks it."""

    def close_earlier(self) -> None:
        """Note in it that there was a way back."""


class Journal(Protocol):
    """The journal of a direction; `entries` is its content. Every write raises FencedError once another process has
    taken over."""

    entries: JournalEntries

    def read(self) -> JournalEntries:
        """Read the entries up to now, also those of a process that has taken over."""

    def write(self, lines: Sequence[JournalLine], run: SwitchoverRun | None = None) -> None:
        """Write lines, and with `run` a new state of the switchover, as a whole."""


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
    confirm: Callable[[], None] = lambda: None
    """Writes to the journal; raises FencedError once another process works on the switchover."""
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

    @property
    def proven(self) -> frozenset[TopicName]:
        """The topics that were proven equal at the pre-flight; journals of earlier versions lack them."""
        return frozenset(map(TopicName, self.done("check").get("proven", ())))

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

    def is_late(self, began_ms: int) -> bool:
        """Whether a wait that this process began has lasted for as long as the operator allows."""
        return self.world.now_ms() - began_ms > self.options.at_most_s * 1000


def confirming(world: SwitchoverClusters, journal: Journal, run: SwitchoverRun) -> Callable[[], None]:
    """The `confirm` of a context: each call notes in the journal that this process works on the switchover."""
    return lambda: journal.write([], replace(run, seen_ms=world.now_ms()))


def try_part(name: str, part: Callable[[StepContext], T], context: StepContext, show: Show) -> T:
    """Repeat a part of a step while a cluster fails to answer, for a minute; every part may be repeated.

    The journal shows meanwhile that this process lives. Raises FencedError if another process has taken over.
    """
    world = context.world
    noted_ms = world.now_ms()

    def failed(error: TwinlogError) -> None:
        nonlocal noted_ms
        show(name, with_id(f"tries again: {error}", id_of(error, "TW-NET-11")))
        if world.now_ms() - noted_ms >= SEEN_MS:
            noted_ms = world.now_ms()
            # The cluster of the journal may be the silent cluster.
            with suppress(ClusterError):
                context.confirm()

    return retry_in_thread(world.clock, SWITCHOVER_STEP, lambda: part(context), failed=failed)


def uncopied_note(source: Alias, number: str) -> PreflightNote:
    """The note about the source's records without a copy."""
    return PreflightNote(f"records of {source} without a copy: {number}", NoteKind.UNCOPIED)


def notes_data(notes: Iterable[PreflightNote]) -> list[list[str]]:
    """Notes as values of JSON."""
    return [[one.text, one.kind] for one in notes]


def notes_of(checked: Data) -> list[PreflightNote]:
    """The notes in the result of step `check`."""
    return [PreflightNote(text, NoteKind(kind)) for text, kind in checked.get("notes", [])]


def replace_notes(checked: Data, kinds: Container[NoteKind], note: PreflightNote) -> Data:
    """The result of step `check` with a note in place of all notes of some kinds."""
    notes = [one for one in notes_of(checked) if one.kind not in kinds]
    return {**checked, "notes": notes_data([*notes, note])}


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

    `undo` takes back all changes that `act` may have made. `words` describe the step; in an emergency `words_of_lost`
    describe a step that does less there.
    """

    name: str
    words: str
    act: Callable[[StepContext], Data | EarlierStep]
    begin: Callable[[StepContext], Data] = _nothing
    undo: Callable[[StepContext], None] | None = None
    words_of_lost: str = ""

    def describe(self, kind: SwitchoverKind) -> str:
        """The action of the step in a switchover of a kind, in words."""
        return (kind is SwitchoverKind.EMERGENCY and self.words_of_lost) or self.words
