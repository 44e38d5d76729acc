"""What a copier reports of itself: to its driver at once, to the topic in pieces that fit, and no more than is new."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.copier import reporter as module
from twinlog.copier.proof.partition_proof import PartitionProof, ProofNotes, Proven
from twinlog.copier.reporter import FULL_EVERY_S, QUIET_S, Reporter
from twinlog.copier.stalled_partitions import StalledGrant
from twinlog.errors import ClusterError
from twinlog.kafka.client import Leader, TopicMetadata
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.produce import Appended
from twinlog.kafka.record.batch import scan
from twinlog.kafka.record.records import decode_records
from twinlog.lease.messages import Grant
from twinlog.lease.progress import CopierCounters, PartitionCounters, PartitionProgress, Report, in_pieces
from twinlog.mirror.offsets.positions import Position
from twinlog.model.reach import ClusterReachability
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition


@dataclass
class Part:
    """As much of a partition as is reported."""

    source: TopicPartition
    durable: Position = field(default_factory=lambda: Position(5, next_target=5))
    begin: Position = field(default_factory=lambda: Position(5, next_target=5))
    end: int = 5
    counts: PartitionCounters = field(default_factory=PartitionCounters)
    waiting_ms: int = -1
    proof: PartitionProof | None = None

    @property
    def read(self) -> Part:
        return self

    copied = queue = first = read
    queued_bytes = 0

    def take_counts(self) -> PartitionCounters:
        counts, self.counts = self.counts, PartitionCounters()
        return counts

    def copy(self, records: int) -> None:
        self.durable = Position(self.durable.next_source + records, next_target=self.durable.next_source + records)
        self.end = self.durable.next_source
        self.counts.records += records
        self.counts.bytes += 100 * records


@dataclass
class Target:
    """Takes records of up to `limit` bytes, or none while it is down."""

    limit: int = 1_000_000
    down: bool = False
    asked: int = 0
    bytes: int = 0
    taken: list[Report] = field(default_factory=list)
    contact: Any = field(default_factory=lambda: SimpleNamespace(reach=ClusterReachability))
    alias: str = "b"
    loop: Any = None

    def topic(self, name: TopicName) -> TopicMetadata:
        return TopicMetadata(name, None, {0: Leader(1, 0)})

    async def refresh(self, names: list[TopicName]) -> dict[TopicName, TopicMetadata]:
        return {name: self.topic(name) for name in names}

    async def append(
        self, node: int, topics: dict[str, list[Any]], timeout_s: float, *, control: bool, transactional_id: str | None
    ) -> dict[Any, Appended]:
        self.asked += 1
        if self.down:
            raise ClusterError("cluster b: nobody there")
        (name,) = topics
        ((partition, batch),) = topics[name]
        if len(batch) > self.limit:
            return {(name, partition): Appended(Code.MESSAGE_TOO_LARGE, -1, -1)}
        self.bytes += len(batch)
        for found in scan(batch):
            for record in decode_records(batch, found):
                report = Report.decode(record.value or b"")
                assert report is not None
                self.taken.append(report)
        return {(name, partition): Appended(0, 0, -1)}

    def reported(self) -> dict[int, int]:
        """Records that all reports together have of each partition."""
        sums: dict[int, int] = {}
        for report in self.taken:
            for part in report.partitions:
                sums[part.partition] = sums.get(part.partition, 0) + part.counters.records
        return sums


class Copier:
    def __init__(self, loop: Loop, clock: VirtualClock, partitions: int) -> None:
        self.loop = loop
        self.settings = SimpleNamespace(name="a->b", source="a")
        self.parts = [Part(TopicPartition(TopicName("orders"), number)) for number in range(partitions)]
        self.partitions = {part.source: part for part in self.parts}
        self.source = SimpleNamespace(contact=SimpleNamespace(reach=ClusterReachability))
        self.target = Target()
        self.events: list[tuple[str, str]] = []
        self.stopped = False
        self.held_back: dict[TopicPartition, StalledGrant] = {}
        self.tally = CopierCounters()
        self.memory = SimpleNamespace(room_bytes=1000)
        self.proofs = SimpleNamespace(busy_s=0.0)
        self.target.loop = loop
        self._clock = clock

    def source_answered_at(self, part: Part) -> float:
        return self._clock.now

    @property
    def troubles(self) -> Copier:
        return self

    def find_reason(self, part: Part) -> None:
        return None

    def report_event(self, kind: str, text: str) -> None:
        self.events.append((kind, text))


class Scene:
    def __init__(self, loop: Loop, clock: VirtualClock, partitions: int) -> None:
        self.clock = clock
        self.copier = Copier(loop, clock, partitions)
        self.target = self.copier.target
        self.delivered: list[Report] = []
        self.hears = True
        copier: Any = self.copier
        self.reporter = Reporter(copier, "copier-1", self._deliver)
        self._loop = loop

    def _deliver(self, report: Report) -> bool:
        if self.hears:
            self.delivered.append(report)
        return self.hears

    def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.now += 1
            self.reporter.report_now()
            self.run(self.reporter.append_report)

    def run(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._loop.run(step)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Scene]]:
    clock = VirtualClock()
    loop = Loop(clock)
    monkeypatch.setattr(module.time, "thread_time", clock.monotonic)
    yield lambda partitions: Scene(loop, clock, partitions)
    loop.close()


def test_the_proof_of_a_partition_is_told_with_its_lag(scene: Callable[[int], Scene]) -> None:
    here = scene(2)
    part = here.copier.parts[0]
    begin = Position(SourceOffset(0), TargetOffset(5))
    notes = ProofNotes(here.clock.monotonic)
    part.proof = proof = notes.open_partition(
        part.source, part.source, begin, transactional=False, markers=False, reports=False
    )
    here.pass_seconds(1)
    first, other = here.delivered[-1].partitions
    assert (first.proven_source, first.proven_target, first.proof_lag_ms, first.proven_records) == (0, 5, 0, 0)
    assert (other.proven_source, other.proven_target, other.proof_lag_ms, other.proof_chain) == (-1, -1, -1, "")
    one = SourceOffset(0)
    proof.add_append(Append(bytearray(9), 1, one, SourceOffset(1), 0, ((one, 1),)), TargetOffset(5))
    here.pass_seconds(3)
    assert here.delivered[-1].partitions[0].proof_lag_ms == 3000
    assert proof.take_note() is not None
    proof.set_proven(Proven(SourceOffset(1), TargetOffset(6), 1, 9, 2, 0, "ab"))
    proof.end_note()
    here.pass_seconds(1)
    (told,) = here.delivered[-1].partitions
    assert (told.proven_source, told.proven_target, told.proof_lag_ms, told.proven_records) == (1, 6, 0, 1)
    assert (told.proven_bytes, told.proof_chain) == (9, "ab")
    counters = here.delivered[-1].counters
    assert (counters.proven_records, counters.proven_bytes, counters.unproved_records) == (1, 9, 2)
    here.pass_seconds(1)
    assert here.delivered[-1].counters.proven_records == 0


def test_the_driver_gets_only_changes_and_every_second(scene: Callable[[int], Scene]) -> None:
    here = scene(3)
    here.pass_seconds(2)
    here.copier.parts[1].copy(7)
    here.pass_seconds(2)
    assert [len(report.partitions) for report in here.delivered] == [3, 0, 1, 0]
    assert here.delivered[2].partitions[0].counters.records == 7


def test_a_driver_that_does_not_read_gets_everything_later(scene: Callable[[int], Scene]) -> None:
    here = scene(2)
    here.hears = False
    for _ in range(3):
        here.copier.parts[0].copy(1)
        here.pass_seconds(1)
    here.hears = True
    here.pass_seconds(1)
    assert [(part.partition, part.counters.records) for part in here.delivered[0].partitions] == [(0, 3), (1, 0)]
    assert here.delivered[0].seconds == 4


def test_a_target_that_is_down_gets_everything_later_and_the_driver_at_once(scene: Callable[[int], Scene]) -> None:
    here = scene(2)
    here.target.down = True
    for _ in range(3):
        here.copier.parts[0].copy(1)
        here.pass_seconds(1)
    assert sum(part.counters.records for report in here.delivered for part in report.partitions) == 3
    here.target.down = False
    here.pass_seconds(1)
    assert here.target.reported() == {0: 3, 1: 0}


def test_the_last_counts_of_a_released_partition_are_reported(scene: Callable[[int], Scene]) -> None:
    here = scene(2)
    here.pass_seconds(1)
    here.copier.parts[0].copy(4)
    del here.copier.partitions[here.copier.parts[0].source]
    here.run(here.reporter.flush)
    assert here.delivered[-1].partitions[0].counters.records == 4
    assert here.target.reported()[0] == 4
    here.pass_seconds(round(FULL_EVERY_S) + 1)
    assert {part.partition for part in here.target.taken[-1].partitions} == {1}


def test_a_report_goes_in_pieces_that_the_topic_takes(scene: Callable[[int], Scene]) -> None:
    here = scene(200)
    here.target.limit = 700
    for part in here.copier.parts:
        part.copy(part.source.partition)
    here.pass_seconds(1)
    assert here.target.reported() == {number: number for number in range(200)}
    asked = here.target.asked
    here.copier.parts[3].copy(1)
    here.pass_seconds(1)
    # It knows by now how much fits.
    assert here.target.asked == asked + 1
    assert here.copier.events == []


def test_a_topic_that_takes_no_report_is_named_once_and_not_asked_for_ever(scene: Callable[[int], Scene]) -> None:
    here = scene(20)
    here.target.limit = 50
    here.pass_seconds(5)
    assert len(here.copier.events) == 1
    kind, text = here.copier.events[0]
    assert kind == "progress"
    assert "max.message.bytes" in text
    asked = here.target.asked
    here.pass_seconds(round(QUIET_S) - 6)
    assert here.target.asked == asked
    assert len(here.delivered) == round(QUIET_S) - 1


def test_idle_partitions_are_named_once_a_minute(scene: Callable[[int], Scene]) -> None:
    here = scene(100)
    here.pass_seconds(600)
    # Somebody who comes late knows all of them by then.
    full = [report for report in here.target.taken if report.partitions]
    assert [len(report.partitions) for report in full] == [100] * 10
    assert len(here.target.taken) == pytest.approx(600 / QUIET_S, abs=2)
    # 100 partitions in 10 minutes: 2,000 in an hour write no more than 10 MB.
    assert here.target.bytes < 10_000_000 / 20 / 6


def test_events_are_reported_once_and_the_last_ones_are_kept(scene: Callable[[int], Scene]) -> None:
    here = scene(1)
    for number in range(module.MOST_EVENTS + 10):
        here.reporter.add_event("gap", str(number))
    here.target.down = True
    here.pass_seconds(2)
    here.target.down = False
    here.pass_seconds(2)
    reported = [text for report in here.target.taken for _, text in report.events]
    assert reported == [str(number) for number in range(10, module.MOST_EVENTS + 10)]


def test_pieces_are_the_whole_and_no_larger_than_asked() -> None:
    parts = tuple(PartitionProgress("orders", number, 1, 1, 1) for number in range(100))
    report = Report("a->b", "one", 1, 0, 1.0, 0.5, partitions=parts, events=(("gap", "x" * 900), ("gap", "y")))
    pieces = list(in_pieces(report, 1500))
    assert len(pieces) > 5
    assert all(len(piece.encode()) <= 1500 for piece in pieces)
    assert tuple(part for piece in pieces for part in piece.partitions) == parts
    assert tuple(event for piece in pieces for event in piece.events) == report.events
    assert [Report.decode(piece.encode()) for piece in pieces] == pieces
    assert len(list(in_pieces(report, 1))) == 102
    empty = Report("a->b", "one", 1, 0, 1.0, 0.5)
    assert list(in_pieces(empty, 1)) == [empty]
    assert json.loads(empty.encode())["partitions"] == []


def test_a_partition_that_cannot_begin_is_reported_with_its_trouble(scene: Callable[[int], Scene]) -> None:
    here = scene(1)
    waits = TopicPartition(TopicName("orders"), 7)
    here.copier.held_back = {
        waits: StalledGrant(Grant(waits, waits, None, 1, Position(40, next_target=30)), "no leader")
    }
    here.pass_seconds(3)
    found = [part for report in here.delivered for part in report.partitions if part.partition == 7]
    assert found == [PartitionProgress("orders", 7, 40, 30, -1, trouble="no leader")], "once, until something changes"
    assert found[0] in [part for report in here.target.taken for part in report.partitions]
    here.copier.held_back = {waits: StalledGrant(Grant(waits, waits, None, 1, None), "away", 50, waiting_ms=70)}
    here.pass_seconds(1)
    assert here.delivered[-1].partitions[-1] == PartitionProgress("orders", 7, 0, 0, 50, trouble="away", waiting_ms=70)
    here.pass_seconds(int(FULL_EVERY_S) + 1)
    assert sum(part.partition == 7 for report in here.target.taken for part in report.partitions) == 3
