"""Two clusters in memory with producers, a flow and groups, whose process can be killed at any call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.virtual.clock import VirtualClock
from twinlog.clock import Clock
from twinlog.errors import RefusedError
from twinlog.mirror.groups.group_moves import group_moves, group_returns
from twinlog.mirror.groups.move_facts import GroupMove
from twinlog.model.quotas import EVERY_USER, Quota
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.proven_ranges import PartitionProven, ProvenRange
from twinlog.ops.switchover.fencing import quotas_data
from twinlog.ops.switchover.journal import (
    JournalEntries,
    JournalLine,
    SwitchoverRun,
    line_record,
    read_entries,
    run_record,
    with_lines,
)
from twinlog.ops.switchover.model import (
    CopiedPosition,
    Data,
    FenceMethod,
    GroupOffset,
    MovedGroups,
    MovedTopic,
    NotReadyError,
    Preflight,
    PreflightNote,
    RefusedCommits,
    SourceEnd,
    SwitchoverDirection,
    SwitchoverOptions,
    as_notes,
)
from twinlog.ops.switchover.steps.step import Side

FENCE_PLAN: Data = {"restore": quotas_data([Quota(EVERY_USER, None)])}
"""The plan of the fence on the source, by each method."""

P0, P1 = (TopicPartition(TopicName("orders"), number) for number in (0, 1))


def proven_range(start: int, end: int, shift: int) -> ProvenRange:
    """A range that was proven in one piece."""
    return ProvenRange(
        start,
        end,
        start + shift,
        end + shift,
        end - start,
        100 * (end - start),
        "00" * 32,
        "ab" * 32,
        "2026-11-30T00:00:00.000+00:00",
    )


def moves_of(entries: JournalEntries) -> dict[tuple[GroupId, TopicPartition], GroupMove]:
    """The moved group offsets of a journal with these entries."""
    return {} if entries.run is None else group_moves(entries.run.state, entries.done)


def returns_of(entries: JournalEntries) -> dict[tuple[GroupId, TopicPartition], GroupMove]:
    """The returns of groups by a journal with these entries."""
    return {} if entries.run is None else group_returns(entries.run.state, entries.done)


class KilledError(Exception):
    """The process is gone."""


@dataclass
class Kill:
    """Kills the process at its call number `at`: before it acts, or after."""

    at: int = -1
    after: bool = False
    calls: int = 0

    def before(self) -> None:
        self.calls += 1
        if self.calls == self.at and not self.after:
            raise KilledError

    def afterwards(self) -> None:
        if self.calls == self.at and self.after:
            raise KilledError


@dataclass
class Brokers:
    """What outlives processes. Each look moves time on, and with it producers and the flow."""

    ends: SwitchoverDirection
    keeps_names: bool = True
    logs: dict[TopicPartition, int] = field(default_factory=lambda: {P0: 50, P1: 20})
    copied: dict[TopicPartition, int] = field(default_factory=lambda: {P0: 10, P1: 20})
    shift: int = 1000
    """Target offsets are source offsets and this."""
    fenced: bool = False
    lasting_quotas: tuple[str, ...] = ()
    lasting_denials: tuple[str, ...] = ()
    """The denials on the source that are no part of its fence, in words."""
    acls_hidden: bool = False
    """Whether the source keeps its ACLs from the login."""
    producing: bool = True
    late_writes: int = 0
    """So many looks after the fence a record of a producer that passes it arrives."""
    reports_fence: bool = False
    """Whether brokers report that the fence holds, so that nobody has to wait for it."""
    now_ms: int = 1_000_000
    records: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    group_at: dict[TopicPartition, int] = field(default_factory=lambda: {P0: 30, P1: 20})
    group_state: str = "Stable"
    """Of the group on the source."""
    created: set[str] = field(default_factory=set)
    seeded: dict[tuple[Side, TopicPartition], int] = field(default_factory=dict)
    lifts: list[Side] = field(default_factory=list)
    open_copies: list[str] = field(default_factory=list)
    closed_copies: int = 0
    """The topics on the target that the flow keeps no producer from."""
    open_txn: int = 0
    """For so many looks a transaction is open."""
    stops_when_fenced: bool = False
    """The flow dies once producers are fenced."""
    copies_nothing: bool = False
    unmoved: tuple[str, ...] = ()
    """The topics that the check did not see."""
    earlier: JournalEntries = field(default_factory=JournalEntries)
    source_lost: bool = False
    problems: tuple[str, ...] = ()
    notes: tuple[str | PreflightNote, ...] = ("a note",)
    closed: bool = False
    left_fence: Data | None = None
    """On the target, by an earlier move."""
    noted_fence: Data | None = None
    file: str = "orders"
    """The topics of the file."""
    partitions: int = 2
    """Of the source's topic, as `moving` finds it."""
    stopped: tuple[str, ...] = ()
    """The held and paused partitions, in words."""
    copies_after_ms: int = 0
    """For so long after the fence the flow copies nothing."""
    fenced_ms: int = 0
    unfit_fences: Mapping[FenceMethod, str] = field(default_factory=dict)
    """The reasons why the source takes no fence of a method."""
    lift_refused: str = ""
    """The reason why the source refuses to lift a fence."""
    fence_method: FenceMethod | None = None
    """The method of the last planned fence."""
    refuses: dict[TopicPartition, str] = field(default_factory=dict)
    """The commits that the target refuses, with its reasons."""
    proves: bool = False
    """Whether the flow proves its copies. The prover is a look behind the flow."""
    prover_stands: bool = False
    """The prover proves nothing from the fence on."""
    slow_proof_until_ms: int = 0
    """Until then the proof is half a minute behind."""
    proven: dict[TopicPartition, int] = field(default_factory=lambda: {P0: 0, P1: 0})

    def tick(self) -> None:
        self.now_ms += 500
        if not (self.prover_stands and self.fenced):
            self.proven = dict(self.copied)
        if self.producing and not self.fenced and not self.source_lost:
            self.logs[P0] += 3
        if self.fenced and self.late_writes:
            self.late_writes -= 1
            if not self.late_writes:
                self.logs[P1] += 1
        waits = self.fenced and self.now_ms < self.fenced_ms + self.copies_after_ms
        waits = waits or self.copies_nothing
        if not self.source_lost and not waits and not (self.fenced and self.stops_when_fenced):
            for where, end in self.logs.items():
                self.copied[where] = min(end, self.copied[where] + 20)
        self.open_txn = max(0, self.open_txn - 1)


class _WorldClock(VirtualClock):
    """The clock of a world: a wait is a call of the world, in which the world goes on."""

    def __init__(self, world: ScriptedWorld) -> None:
        super().__init__(world.now_ms() / 1000)
        self._world = world

    def monotonic(self) -> float:
        return self._world.now_ms() / 1000

    def sleep(self, seconds: float) -> None:
        self._world.sleep(seconds)


class ScriptedWorld:
    """See `SwitchoverClusters`."""

    def __init__(self, brokers: Brokers, kill: Kill) -> None:
        self.ends = brokers.ends
        self.brokers = brokers
        self._kill = kill

    @property
    def clock(self) -> Clock:
        return _WorldClock(self)

    @property
    def source_answers(self) -> bool:
        return not self.brokers.source_lost

    def now_ms(self) -> int:
        return self.brokers.now_ms

    def sleep(self, seconds: float) -> None:
        self._kill.before()
        self.brokers.now_ms += int(seconds * 1000)
        self.brokers.tick()

    @property
    def topics(self) -> tuple[MovedTopic, ...]:
        remote = TopicName("orders" if self.brokers.keeps_names else "a.orders")
        return (MovedTopic(TopicName("orders"), remote, self.brokers.partitions, TopicName("orders")),)

    def scope(self) -> Data:
        return {"topics": self.brokers.file, "from": None if self.brokers.source_lost else "A", "to": "B"}

    def list_moving_topics(self) -> tuple[MovedTopic, ...]:
        return self.topics

    def preflight(self, options: SwitchoverOptions) -> Preflight:
        self._kill.before()
        return Preflight(
            self.topics,
            options.fence or FenceMethod.ACL,
            self.brokers.problems,
            as_notes(self.brokers.notes),
            groups=("shop",),
            proven=(TopicName("orders"),) if self.brokers.proves else (),
        )

    def find_unmoved_topics(self, moved: Collection[MovedTopic]) -> list[TopicName]:
        self._kill.before()
        return [TopicName(name) for name in self.brokers.unmoved]

    def source_ends(self, topics: Collection[MovedTopic]) -> dict[TopicPartition, SourceEnd]:
        self._kill.before()
        self.brokers.tick()
        pending = 1 if self.brokers.open_txn else 0
        return {where: SourceEnd(end, end - pending) for where, end in self.brokers.logs.items()}

    def source_starts(self, topics: Collection[MovedTopic]) -> dict[TopicPartition, int]:
        return dict.fromkeys(self.brokers.logs, 0)

    def target_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self._kill.before()
        self.brokers.tick()
        return {
            where: self.brokers.copied[TopicPartition(TopicName("orders"), where.partition)] + self.brokers.shift
            for where in partitions
        }

    def read_copied_positions(self) -> dict[TopicPartition, CopiedPosition]:
        self._kill.before()
        shift = self.brokers.shift
        return {where: CopiedPosition(offset, offset + shift) for where, offset in self.brokers.copied.items()}

    def read_proven(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionProven]:
        if not partitions or not self.brokers.proves:
            return {}
        self._kill.before()
        brokers = self.brokers
        found = {}
        for where in partitions:
            copied, proven = brokers.copied[where], brokers.proven[where]
            slow = brokers.now_ms < brokers.slow_proof_until_ms
            lag_ms = 30_000 if slow else 0 if copied == proven else 500
            found[where] = PartitionProven(
                SourceOffset(copied),
                SourceOffset(proven),
                TargetOffset(proven + brokers.shift),
                lag_ms,
                ranges=(proven_range(0, proven, brokers.shift),),
            )
        return found

    def find_empty_spans(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> set[TopicPartition]:
        return set()

    def name_stopped_partitions(
        self,
        ends: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        copied: Mapping[TopicPartition, CopiedPosition],
    ) -> list[str]:
        return list(self.brokers.stopped)

    def open_transactions(self, partitions: Collection[TopicPartition]) -> list[str]:
        return ["a transaction"]

    def plan_fence(self, fence: FenceMethod, topics: Collection[MovedTopic]) -> Data:
        self._kill.before()
        self._require("source")
        # What is restored must have been read before anything was changed.
        assert not self.brokers.fenced
        if fence in self.brokers.unfit_fences:
            raise NotReadyError((self.brokers.unfit_fences[fence],))
        self.brokers.fence_method = fence
        return FENCE_PLAN

    def _require(self, side: Side) -> None:
        if side == "source" and self.brokers.source_lost:
            raise RefusedError("cluster a: no broker can be reached")

    def fence_producers(self, plan: Data, confirm: Callable[[], None]) -> None:
        self._kill.before()
        assert plan == FENCE_PLAN
        # Whoever finds the cluster fenced must find how to open it.
        assert self.brokers.noted_fence == plan
        self.brokers.fenced, self.brokers.fenced_ms = True, self.brokers.now_ms
        self._kill.afterwards()

    def fence_holds(self, plan: Data) -> bool:
        assert self.brokers.fenced
        return self.brokers.reports_fence

    def get_ready(
        self, fence: FenceMethod, topics: Collection[MovedTopic], began: Mapping[TopicPartition, int]
    ) -> None:
        self._kill.before()
        assert not self.brokers.fenced

    def lift_fence(self, plan: Data, side: Side) -> None:
        self._kill.before()
        self._require(side)
        if side == "source" and self.brokers.lift_refused:
            raise RefusedError(self.brokers.lift_refused)
        assert plan == FENCE_PLAN
        if side == "source":
            self.brokers.fenced = False
        self.brokers.lifts.append(side)
        self._kill.afterwards()

    def find_lasting_denials(self, topics: Collection[MovedTopic]) -> list[str]:
        self._kill.before()
        self._require("source")
        assert [topic.name for topic in topics] == ["orders"]
        if self.brokers.acls_hidden:
            raise RefusedError("the login lacks DESCRIBE on cluster a")
        return ["its own fence stays"] * self.brokers.fenced + list(self.brokers.lasting_denials)

    def find_lasting_quotas(self) -> list[str]:
        self._kill.before()
        self._require("source")
        return list(self.brokers.lasting_quotas)

    def open_copies(self, topics: Collection[MovedTopic]) -> None:
        self._kill.before()
        self.brokers.open_copies = [topic.name for topic in topics if topic.keeps_name]
        self._kill.afterwards()

    def close_copies(self, topics: Collection[MovedTopic]) -> None:
        self._kill.before()
        self.brokers.open_copies = []
        self.brokers.closed_copies += 1
        self._kill.afterwards()

    def read_fence(self) -> Data | None:
        return self.brokers.left_fence

    def note_fence(self, plan: Data | None, side: Side) -> None:
        self._kill.before()
        if side == "target":
            self.brokers.left_fence = plan
        else:
            self.brokers.noted_fence = plan
        self._kill.afterwards()

    def missing_topics(self, topics: Collection[MovedTopic]) -> Data:
        self._kill.before()
        return {"topics": {} if self.brokers.keeps_names else {"orders": {"partitions": 2, "configs": {}}}}

    def create_topics(self, plan: Data) -> Data:
        self._kill.before()
        self.brokers.created |= set(plan["topics"])
        self._kill.afterwards()
        return {}

    def groups(
        self,
        topics: Collection[MovedTopic],
        cut: Mapping[TopicPartition, int],
        there: Mapping[TopicPartition, int],
        began: Mapping[TopicPartition, int],
        known: Collection[str],
    ) -> MovedGroups:
        assert "shop" in known
        self._kill.before()
        moves = moves_of(read_entries(self.ends, self.brokers.records))
        found = []
        for where, offset in self.brokers.group_at.items():
            assert offset <= cut[where]
            remote = replace_topic(where, self.topics[0].remote)
            found.append(
                GroupOffset(
                    "shop",
                    where,
                    offset,
                    remote,
                    offset + self.brokers.shift,
                    exact=True,
                    present=self.brokers.committed.get(remote),
                    move=moves.get((GroupId("shop"), remote)),
                )
            )
        return MovedGroups({"shop": self.brokers.group_state}, {"shop": "Empty"}, tuple(found))

    def groups_by_checkpoints(self, topics: Collection[MovedTopic], cut: Mapping[TopicPartition, int]) -> MovedGroups:
        copied = {where: CopiedPosition(offset, None) for where, offset in self.brokers.copied.items()}
        seen = self.groups(self.topics, dict.fromkeys(copied, 10**9), {}, {}, ("shop",))
        return replace(seen, offsets=tuple(replace(one, exact=False) for one in seen.offsets))

    def commit_groups(self, offsets: Sequence[GroupOffset]) -> RefusedCommits:
        self._kill.before()
        refused = self.brokers.refuses
        for one in offsets:
            assert one.there is not None
            if one.target not in refused:
                self.brokers.committed[one.target] = one.there
        self._kill.afterwards()
        return {(one.group, one.target): refused[one.target] for one in offsets if one.target in refused}

    def seed_positions(self, positions: Mapping[TopicPartition, int], side: Side) -> None:
        self._kill.before()
        self.brokers.seeded |= {(side, where): offset for where, offset in positions.items()}
        if side == "target":
            # Who goes back repeats records.
            assert all(offset >= self.brokers.copied[where] for where, offset in positions.items())
            self.brokers.copied |= positions
        self._kill.afterwards()

    def read_earlier_journal(self) -> JournalEntries:
        return replace(self.brokers.earlier, fenced=self.brokers.noted_fence)

    def close_earlier(self) -> None:
        self._kill.before()
        self.brokers.closed = True
        self._kill.afterwards()


class ScriptedJournal:
    """See `Journal`: what it writes goes through the journal's own records."""

    def __init__(self, brokers: Brokers, kill: Kill) -> None:
        self._brokers = brokers
        self._kill = kill
        self.entries = read_entries(brokers.ends, brokers.records)

    def read(self) -> JournalEntries:
        self.entries = read_entries(self._brokers.ends, self._brokers.records)
        return self.entries

    def write(self, lines: Sequence[JournalLine], run: SwitchoverRun | None = None) -> None:
        self._kill.before()
        now = run or self.entries.run
        assert now is not None
        self._brokers.records += [line_record(now, line) for line in lines]
        if run is not None:
            self._brokers.records.append(run_record(run))
        self._kill.afterwards()
        self.entries = with_lines(self.entries, lines, run)


def replace_topic(where: TopicPartition, topic: TopicName) -> TopicPartition:
    return TopicPartition(topic, where.partition)
