"""While answer after answer of a backlog is asked for ahead, the other partitions of its broker are read as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.kafka.consumer.test_nearest import CLIENT, PART, Cluster, Plenty
from twinlog.kafka.consumer import partition_reader as reader
from twinlog.kafka.consumer.partition_reader import SourceReader
from twinlog.kafka.fetch_session import Fetched
from twinlog.kafka.metadata import Leader
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import FetchedPartitions, FetchPosition, PartitionResponse, RawFetch
from twinlog.model.types import TopicPartition
from twinlog.settings.client import ConsumerSettings

SIZE = 100
HOT, QUIET = PART, TopicPartition(PART.topic, 1)
LONG_LOG = 1_000_000


@dataclass
class Streams(Cluster):
    """Partition 0 has `SIZE` bytes at each offset, partition 1 has a byte at each offset below `quiet_end`."""

    quiet_end: int = 0
    refusals: list[int] = field(default_factory=list)
    """The next errors of partition 1."""
    moved: dict[TopicPartition, Leader] = field(default_factory=dict)
    epochs: list[int] = field(default_factory=list)
    """The leader's epoch in each fetch of partition 0."""
    requests: list[tuple[int, dict[int, int], int]] = field(default_factory=list)
    """Each fetch: its broker, the offset of each partition, and the wait in ms."""
    session_id: int = 0
    """The session that the broker keeps, 0 for none."""

    def leader(self, partition: TopicPartition) -> Leader:
        return self.moved.get(partition, self.leads)

    async def send(self, request: RawFetch, node: int, _timeout_s: float, *, connection: int = 0) -> FetchedPartitions:
        asked = {number: at.offset for parts in request.topics.values() for number, at in parts}
        self.requests.append((node, asked, request.max_wait_ms))
        for parts in request.topics.values():
            self.epochs += [at.leader_epoch for number, at in parts if number == HOT.partition]
        answers = [self._answer(number, offset) for number, offset in asked.items()]
        await self.loop.sleep(0.001)
        return FetchedPartitions(0, 0, self.session_id, [(PART.topic, answers)])

    def _answer(self, number: int, offset: int) -> PartitionResponse:
        end, size = (LONG_LOG, SIZE) if number == HOT.partition else (self.quiet_end, 1)
        error = self.refusals.pop() if number == QUIET.partition and self.refusals else 0
        records = b"" if error or offset >= end else b"x" * size
        return PartitionResponse(number, error, end, end, 0, (), memoryview(bytearray(records)))


@dataclass
class Stream:
    """A partition that moves by an offset with each answer; if it is not `plain`, its next position is not known."""

    plain: bool = True
    offset: int = 0
    paused: bool = False
    held_back: bool = False

    def fetch_position(self, read_ahead: int) -> FetchPosition | None:
        return None if self.paused else FetchPosition(self.offset, 0)

    def position_after(self, asked: FetchPosition, answer: PartitionResponse, read_ahead: int) -> FetchPosition | None:
        known = self.plain and not self.paused and asked.offset == self.offset
        return asked._replace(offset=asked.offset + 1) if known else None


class Reading:
    """Both partitions, the hot one with a backlog that never ends."""

    def __init__(self, loop: Loop, *, plain: bool = True) -> None:
        self.cluster = Streams(loop)
        self.hot, self.quiet = Stream(), Stream(plain)
        self.cursors = {HOT: self.hot, QUIET: self.quiet}
        self.wasted = 0
        self.errors: list[int] = []
        self.memory = Plenty()
        client: Any = self.cluster
        self.reader = SourceReader(
            *(loop, client, ConsumerSettings(CLIENT), self.cursors, self.memory),
            deliver=self._deliver,
            lost=lambda _: None,
        )

    def _deliver(self, asked: FetchPosition, fetched: Fetched) -> None:
        cursor = self.cursors[fetched.partition]
        if fetched.answer.error:
            self.errors.append(fetched.answer.error)
            cursor.paused = True
        elif cursor.paused or asked.offset != cursor.offset:
            self.wasted += len(fetched.answer.records)
        else:
            cursor.offset += bool(fetched.answer.records)

    def run(self, *steps: tuple[Callable[[], bool], Callable[[], object]], answers: int = 200) -> None:
        """Do each step once its condition is true; end after some answers of the hot partition."""
        left = list(steps)

        async def read() -> None:
            self.reader.start()
            self.reader.wake()
            now = self.cluster.loop.clock.monotonic
            give_up_at = now() + 60
            while self.hot.offset < answers:
                assert now() < give_up_at
                while left and left[0][0]():
                    left.pop(0)[1]()
                await self.cluster.loop.sleep(0)
            self.reader.stop()

        self.cluster.loop.run(read)
        assert not left

    def asked_for(self, partition: TopicPartition) -> Sequence[int]:
        """The numbers of the fetches that asked for a partition."""
        return [number for number, (_, asked, _) in enumerate(self.cluster.requests) if partition.partition in asked]


@pytest.fixture(autouse=True)
def small_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BACKLOG_BYTES", SIZE)


@pytest.mark.parametrize("plain", [True, False], ids=["known", "unknown"])
def test_a_partition_with_few_records_is_read_beside_a_backlog(loop: Loop, plain: bool) -> None:
    reading = Reading(loop, plain=plain)
    reading.cluster.quiet_end = 30
    reading.run()
    assert reading.quiet.offset == 30
    # Each second fetch at least has the other partition.
    assert len(reading.asked_for(QUIET)) > 95
    assert reading.wasted == 0


def test_a_partition_that_is_resumed_is_read_beside_a_backlog(loop: Loop) -> None:
    reading = Reading(loop)
    reading.cluster.quiet_end = 10
    reading.quiet.paused = True

    def resume() -> None:
        reading.quiet.paused = False
        reading.reader.resume(QUIET)

    reading.run((lambda: reading.hot.offset >= 20, resume))
    assert reading.quiet.offset == 10
    assert 20 <= reading.asked_for(QUIET)[0] <= 24


def test_a_partition_that_is_read_from_elsewhere_on_is_read_beside_a_backlog(loop: Loop) -> None:
    """As with `skip-to`: the answer under way is for the earlier position."""
    reading = Reading(loop)
    reading.cluster.quiet_end = 100

    def seek() -> None:
        reading.quiet.offset = 90
        reading.reader.resume(QUIET)

    reading.run((lambda: reading.quiet.offset >= 5, seek))
    assert reading.quiet.offset == 100
    assert len([1 for _, asked, _ in reading.cluster.requests if asked.get(QUIET.partition, 0) >= 90]) > 95


def test_a_partition_whose_leader_moves_beside_a_backlog_is_read_from_the_new_leader(loop: Loop) -> None:
    """Another part of the process has refreshed the leaders, so that no look at all partitions follows."""
    reading = Reading(loop)
    reading.cluster.quiet_end = 50

    def move() -> None:
        reading.cluster.moved[QUIET] = Leader(2, 6)

    reading.run((lambda: reading.quiet.offset >= 5, move))
    assert reading.quiet.offset == 50
    assert {node for node, asked, _ in reading.cluster.requests if QUIET.partition in asked} == {1, 2}


def test_a_fetch_ahead_has_the_present_epoch_of_the_leader(loop: Loop) -> None:
    """The earlier epoch would be refused."""
    reading = Reading(loop)

    def elect() -> None:
        reading.cluster.moved[HOT] = Leader(1, 6)

    reading.run((lambda: reading.hot.offset >= 5, elect), answers=20)
    assert reading.cluster.epochs[:5] == [5] * 5
    assert reading.cluster.epochs[8:20] == [6] * 12


def test_a_refused_partition_is_asked_for_after_its_refusal_is_taken(loop: Loop) -> None:
    reading = Reading(loop)
    reading.cluster.quiet_end = 10
    reading.cluster.refusals = [Code.NOT_LEADER_OR_FOLLOWER] * 2

    def resume() -> None:
        reading.quiet.paused = False
        reading.reader.resume(QUIET)

    reading.run((lambda: len(reading.errors) == 1, resume), (lambda: len(reading.errors) == 2, resume))
    assert reading.quiet.offset == 10
    # The fetch ahead beside the first refusal would have been refused as well, and taken as a second refusal.
    assert reading.asked_for(QUIET)[:2] != [0, 1]


def test_a_fetch_ahead_is_as_short_as_others_while_a_partition_is_held_back(loop: Loop) -> None:
    reading = Reading(loop)
    reading.quiet.paused = reading.quiet.held_back = True
    reading.run(answers=5)
    (_, asked, wait_ms) = reading.cluster.requests[1]
    assert asked == {HOT.partition: 1}
    assert wait_ms < ConsumerSettings(CLIENT).fetch_max_wait_ms


def test_answers_that_need_the_memory_are_taken_first(loop: Loop) -> None:
    """An answer and the batches that are built of it leave no room for the next answer."""
    reading = Reading(loop)
    reading.memory.room_bytes = 2 * SIZE - 1
    positions: list[tuple[int, int]] = []
    deliver = reading.reader._deliver

    def note(asked: FetchPosition, fetched: Fetched) -> None:
        if fetched.partition == HOT:
            positions.append((asked.offset, len(reading.cluster.requests)))
        deliver(asked, fetched)

    reading.reader._deliver = note
    reading.run(answers=20)
    assert positions[:20] == [(offset, offset + 1) for offset in range(20)]


def test_a_new_cursor_of_an_idle_partition_gets_an_answer(loop: Loop) -> None:
    """A broker answers for a partition in its session only after a change, and the partition may be idle for days."""
    reading = Reading(loop)
    reading.cluster.session_id = 7

    def grant_again() -> None:
        assert reading.asked_for(QUIET) == [0]
        reading.cursors[QUIET] = Stream()
        reading.reader.wake()

    reading.run((lambda: reading.hot.offset >= 50, grant_again), answers=100)
    assert len(reading.asked_for(QUIET)) == 2
