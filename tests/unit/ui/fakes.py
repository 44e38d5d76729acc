"""Sources whose readers answer with given values at once, and keep what was asked of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tests.unit.mirror.groups.test_safe_move import STANDS
from tests.unit.ops.status.test_command import REPORTED
from tests.unit.ops.status.test_state import NOW, RUNS
from tests.unit.ops.switchover.scripted import Brokers, Kill, ScriptedJournal, ScriptedWorld
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.console.flow_files import FlowsOfFile
from twinlog.errors import RequestError
from twinlog.mirror.groups.move_facts import MoveFacts
from twinlog.mirror.groups.safe_move import judge
from twinlog.mirror.unlisted_topics import HiddenOffsets
from twinlog.model.held import HeldPartition
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.connectors.rest import Access, ConnectRest
from twinlog.ops.groups.checkpoint_history import CheckpointHistoryReader, GroupSyncEvent
from twinlog.ops.groups.reader import GroupsReader
from twinlog.ops.groups.snapshot import GroupPartitionStatus, GroupsSnapshot, GroupStatus
from twinlog.ops.status.flow import FlowReader, FlowSnapshot, by_report
from twinlog.ops.status.report_history import ReportHistory, ReportHistoryReader
from twinlog.ops.switchover.clusters import LiveClusters
from twinlog.ops.switchover.journal import JournalEntries
from twinlog.ops.switchover.model import SwitchoverDirection
from twinlog.ops.topics.reader import TopicsReader
from twinlog.ops.topics.snapshot import PartitionSnapshot, TopicSnapshot, TopicsSnapshot, TopicState
from twinlog.settings.flow import FlowSettings
from twinlog.ui.both_sides import BothSidesReader, NewestTimes, RecordPage, RecordPair
from twinlog.ui.rehearsal import Rehearsal, RehearsalReader
from twinlog.ui.sources import ConsoleSources
from twinlog.worker.control.model import (
    CommandOutcome,
    CommandState,
    LogPlace,
    PartitionMove,
    PartitionSelector,
    TopicCommand,
)
from twinlog.worker.control.records import ControlState

FLOW = SETTINGS.name
HELD = HeldPartition(
    "orders",
    1,
    "gap",
    "TW-GAP-01",
    "records were deleted before their copy",
    "accept the gap",
    NOW - 5000,
    SourceOffset(4),
    TargetOffset(4),
    SourceOffset(7),
)


def snapshot(report: Any = REPORTED, settings: FlowSettings = SETTINGS, **facts: Any) -> FlowSnapshot:
    return by_report(settings, replace(RUNS, report=report, **facts))


def topic(name: str, partitions: int = 2, state: TopicState = TopicState.COPYING, detail: str = "") -> TopicSnapshot:
    parts = tuple(
        PartitionSnapshot(
            TopicPartition(TopicName(name), number),
            state,
            detail,
            SourceOffset(4),
            TargetOffset(3),
            SourceOffset(0),
            SourceOffset(10 + number),
        )
        for number in range(partitions)
    )
    return TopicSnapshot(TopicName(name), TopicName(f"a.{name}"), parts)


def group(name: str, *facts: MoveFacts) -> GroupStatus:
    """A group that may move, or with the given facts."""
    found = facts or (replace(STANDS, group=GroupId(name)),)
    parts = tuple(GroupPartitionStatus(one, judge(one), NOW - 1000) for one in found)
    return GroupStatus(GroupId(name), parts, "Stable", "Empty")


def rehearsed(*problems: str) -> Rehearsal:
    steps = [{"step": "fence", "does": "closes a", "calls": ["create ACL on a: x"] * 30, "seconds": 0.3}]
    data = {
        "stands": "no switchover has begun",
        "problems": list(problems),
        "notes": ["super users pass"],
        "fence": "acl",
        "lag": 3,
        "seconds_without_producers": None if problems else 4.2,
        "steps": [] if problems else steps,
    }
    return Rehearsal(data, {})


@dataclass
class FakeAnswers:
    """What the readers of a flow answer; an exception is raised."""

    flow: FlowSnapshot | Exception = field(default_factory=snapshot)
    topics: Sequence[TopicSnapshot] | Exception = field(default_factory=lambda: (topic("orders"), topic("logs", 1)))
    asked: ControlState = field(default_factory=ControlState)
    groups: Sequence[GroupStatus] | Exception = field(default_factory=lambda: (group("shop"),))
    hidden: HiddenOffsets | None = None
    checkpoints: Mapping[GroupId, tuple[GroupSyncEvent, ...]] | Exception = field(default_factory=dict)
    history: ReportHistory | Exception = field(
        default_factory=lambda: ReportHistory(TopicName("mm2-twinlog-progress.a.internal"))
    )
    rehearsal: Rehearsal | Exception = field(default_factory=rehearsed)
    pairs: Sequence[RecordPair] | Exception = ()
    settings: Sequence[tuple[str, str, str]] = ()
    newest: dict[int, NewestTimes] | Exception = field(default_factory=lambda: {1: NewestTimes(NOW - 9000, NOW - 8000)})
    moves: Sequence[PartitionMove] = ()
    submitted: list[TopicCommand] = field(default_factory=list)
    opened: int = 0
    closed: int = 0
    reads: int = 0
    threads: set[str] = field(default_factory=set)


def _given(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


class FakeFlowReader(FlowReader):
    def __init__(self, answers: FakeAnswers) -> None:
        self._answers = answers
        answers.opened += 1

    def read(self) -> FlowSnapshot:
        self._answers.reads += 1
        self._answers.threads.add(threading.current_thread().name)
        found: FlowSnapshot = _given(self._answers.flow)
        return found

    def close(self) -> None:
        self._answers.closed += 1


class FakeTopicsReader(TopicsReader):
    def __init__(self, answers: FakeAnswers) -> None:
        self._answers = answers

    def read(self) -> TopicsSnapshot:
        return TopicsSnapshot(_given(self._answers.flow), tuple(_given(self._answers.topics)), self._answers.asked)

    def read_state(self) -> FlowSnapshot:
        found: FlowSnapshot = _given(self._answers.flow)
        return found

    def read_asked(self) -> ControlState:
        return self._answers.asked

    def selectors(
        self,
        words: Sequence[str],
        numbers: Sequence[int] = (),
        *,
        unchecked: Callable[[str], None] | None = None,
        partitions_by_name: bool = True,
    ) -> tuple[PartitionSelector, ...]:
        return tuple(PartitionSelector(word, tuple(sorted(set(numbers))) or None) for word in words)

    def preview(self, command: TopicCommand) -> list[PartitionMove]:
        return list(self._answers.moves)

    def is_redundant(self, command: TopicCommand, asked: ControlState) -> bool:
        return False

    def submit_command(self, command: TopicCommand) -> CommandOutcome:
        known = self._answers.asked.outcome(command.id)
        if known is not None:
            return known
        self._answers.submitted.append(command)
        outcome = CommandOutcome(command, CommandState.APPLIED, NOW, "host-1", moves=tuple(self._answers.moves))
        self._answers.asked.outcomes = (*self._answers.asked.outcomes, outcome)
        return outcome

    def wait(self, outcome: CommandOutcome, *_: Any, **__: Any) -> CommandOutcome:
        return self._answers.asked.outcome(outcome.command.id) or outcome

    def close(self) -> None:
        pass


class FakeGroupsReader(GroupsReader):
    def __init__(self, answers: FakeAnswers) -> None:
        self._answers = answers

    def read(self, wanted: Sequence[str] = (), *, most_repeats: int = 0) -> GroupsSnapshot:
        return GroupsSnapshot(FLOW, NOW, tuple(_given(self._answers.groups)), hidden=self._answers.hidden)

    def close(self) -> None:
        pass


class FakeCheckpointHistory(CheckpointHistoryReader):
    def __init__(self, answers: FakeAnswers) -> None:
        self._answers = answers

    def read(self) -> Mapping[GroupId, tuple[GroupSyncEvent, ...]]:
        found: Mapping[GroupId, tuple[GroupSyncEvent, ...]] = _given(self._answers.checkpoints)
        return found

    def close(self) -> None:
        pass


class FakeReportHistory(ReportHistoryReader):
    def __init__(self, answers: FakeAnswers) -> None:
        self._answers = answers

    def read(self) -> ReportHistory:
        found: ReportHistory = _given(self._answers.history)
        return found

    def close(self) -> None:
        pass


class FakeRehearsalReader(RehearsalReader):
    def __init__(self, answers: FakeAnswers) -> None:
        self._answers = answers

    def read(self) -> Rehearsal:
        found: Rehearsal = _given(self._answers.rehearsal)
        return found

    def close(self) -> None:
        pass


class FakeBothSides(BothSidesReader):
    def __init__(self, answers: FakeAnswers) -> None:
        self._answers = answers

    def records(self, partition: TopicPartition, place: LogPlace, count: int) -> RecordPage:
        pairs: tuple[RecordPair, ...] = tuple(_given(self._answers.pairs))
        return RecordPage(partition, TopicPartition(TopicName(f"a.{partition.topic}"), 0), 4, 0, 100, pairs[:count])

    def differing_settings(self, topic: TopicName) -> list[tuple[str, str, str]]:
        return list(self._answers.settings)

    def newest_times(self, topic: TopicName) -> dict[int, NewestTimes]:
        found: dict[int, NewestTimes] = _given(self._answers.newest)
        return found

    def close(self) -> None:
        pass


class FakeRest(ConnectRest):
    """A worker with the given answers by path; a missing path is 404. It keeps what was sent, but for checks."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.access = Access("connect", 8083)
        self.answers = answers
        self.sent: list[tuple[str, ...]] = []
        self.bodies: list[Any] = []

    def get(self, *path: str, **query: str) -> Any:
        name = "/".join(path) + "".join(f"?{key}={value}" for key, value in query.items())
        if name not in self.answers:
            raise RequestError(404, f"{name} not found")
        return _given(self.answers[name])

    def send_request(
        self, method: str, *path: str, query: Mapping[str, str] | None = None, body: Any = None
    ) -> tuple[int, Any]:
        _given(self.answers.get(method))
        if path[-1] == "validate":
            return 200, _given(self.answers.get("validate", {"configs": []}))
        self.sent.append((method, *path, *(f"{name}={value}" for name, value in (query or {}).items())))
        self.bodies.append(body)
        return 202, None


def fake_worker(
    name: str = "copy", trace: str = "java.lang.X: no\n\tat a.b(C.java)\n\tat d.e(F.java)", state: str = "RUNNING"
) -> FakeRest:
    """A worker with a connector that has a secret, a stored offset, and a task that failed."""
    config = {
        "name": name,
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.sasl.jaas.config": "secret-value",
        "x": name,
    }
    info = {"name": name, "config": config, "tasks": [], "type": "source"}
    tasks = [{"id": 0, "state": "RUNNING", "worker_id": "w:1"}, {"id": 1, "state": "FAILED", "worker_id": name}]
    tasks[1]["trace"] = trace
    status = {"name": name, "connector": {"state": state, "worker_id": "w:1"}, "tasks": tasks, "type": "source"}
    answers: dict[str, Any] = {
        "connectors?expand=info": {name: {"info": info}},
        "connectors?expand=status": {name: {"status": status}},
        f"connectors/{name}": info,
        f"connectors/{name}/config": config,
        f"connectors/{name}/status": status,
        f"connectors/{name}/offsets": {"offsets": [{"partition": {"topic": name}, "offset": {"offset": 3}}]},
        "connector-plugins": [{"class": config["connector.class"], "type": "source", "version": "4.3.0"}],
    }
    return FakeRest(answers)


class ScriptedClusters(ScriptedWorld):
    """The clusters of a switchover in memory."""

    def __init__(self, brokers: Brokers, kill: Kill, gate: threading.Event) -> None:
        super().__init__(brokers, kill)
        self.journal = ScriptedTopicJournal(brokers, kill)
        self.source = self.target = self
        self._gate = gate

    def connect(self, timeout_s: float, *, source_lost: bool = False) -> None:
        # A reader of the journal connects only to the target.
        if threading.current_thread().name.startswith("switchover"):
            assert self._gate.wait(60.0)

    def forget_groups(self) -> None: ...

    def close(self) -> None: ...


class ScriptedTopicJournal(ScriptedJournal):
    def read_unclaimed(self) -> JournalEntries:
        return self.read()

    def claim_journal(self) -> JournalEntries:
        return self.read()


class FakeSources(ConsoleSources):
    """Flows with given answers by name; one flow `a->b` without more."""

    def __init__(self, *settings: FlowSettings, **answers: FakeAnswers) -> None:
        super().__init__([FlowsOfFile(list(settings or (SETTINGS,)))])
        self.answers = {name: FakeAnswers() for name in self.flows}
        self.answers.update(answers)
        self.fails: Exception | None = None
        """What opening a reader of topics raises."""
        self.rest: FakeRest | None = None
        self.brokers = Brokers(SwitchoverDirection(SETTINGS.source, SETTINGS.target))
        self.kill = Kill()
        self.gate = threading.Event()
        """A switchover waits for it when it connects."""
        self.gate.set()

    @property
    def only(self) -> FakeAnswers:
        (found,) = self.answers.values()
        return found

    def open_flow(self, name: str) -> FlowReader:
        return FakeFlowReader(self.answers[name])

    def open_topics(self, name: str) -> TopicsReader:
        _given(self.fails)
        return FakeTopicsReader(self.answers[name])

    def open_groups(self, name: str) -> GroupsReader:
        return FakeGroupsReader(self.answers[name])

    def open_checkpoints(self, name: str) -> CheckpointHistoryReader:
        return FakeCheckpointHistory(self.answers[name])

    def open_report_history(self, name: str) -> ReportHistoryReader:
        return FakeReportHistory(self.answers[name])

    def open_rehearsal(self, name: str) -> RehearsalReader:
        return FakeRehearsalReader(self.answers[name])

    def open_clusters(self, name: str) -> LiveClusters:
        return cast(LiveClusters, ScriptedClusters(self.brokers, self.kill, self.gate))

    def open_both_sides(self, name: str) -> BothSidesReader:
        return FakeBothSides(self.answers[name])

    def open_rest(self, authorization: str | None = None) -> ConnectRest | None:
        return self.rest
