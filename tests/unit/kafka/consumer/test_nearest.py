"""Partitions are read where their leader sends us (KIP-392), and only the leader reports what is missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.errors import ClusterError
from twinlog.kafka.consumer import nearest
from twinlog.kafka.consumer.nearest import NearestReplicas
from twinlog.kafka.consumer.partition_reader import SourceReader
from twinlog.kafka.fetch_session import Fetched
from twinlog.kafka.metadata import Leader
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import FetchedPartitions, FetchPosition, PartitionResponse, RawFetch
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ClientSettings, ConsumerSettings

PART = TopicPartition(TopicName("shop"), 0)
END = 100
CLIENT = ClientSettings(("nobody:1",), retry_backoff_ms=1, retry_backoff_max_ms=2)


@dataclass
class Cluster:
    """Broker 1 leads a partition and sends those of rack `near` to broker 2, whose answers `follower` may replace."""

    loop: Loop
    settings: ClientSettings = CLIENT
    alias: str = "north"
    far: bool = False
    round_trip_s: float = 0.0
    leads: Leader = field(default_factory=lambda: Leader(1, 5))
    online: set[int] = field(default_factory=lambda: {1, 2, 3})
    asked: list[tuple[int, str]] = field(default_factory=list)
    """Each fetch: who was asked, and which rack was sent."""
    follower: Callable[[int], PartitionResponse] | None = None
    refreshed: int = 0

    def leader(self, _: TopicPartition) -> Leader:
        return self.leads

    def holds(self, _: TopicPartition, node: int) -> bool:
        return node in self.online

    def throttled_s(self, _node: int) -> float:
        return 0.0

    async def refresh(self, _: Any) -> None:
        self.refreshed += 1

    async def send(self, request: RawFetch, node: int, _timeout_s: float, *, connection: int = 0) -> FetchedPartitions:
        self.asked.append((node, request.rack))
        await self.loop.sleep(0.001)
        answers = []
        for partitions in request.topics.values():
            for _, at in partitions:
                offset = at.offset
                if node == self.leads.node and request.rack == "near" and 2 in self.online:
                    answers.append(answer(END, preferred=2))
                elif node == 2 and self.follower is not None:
                    answers.append(self.follower(offset))
                elif offset < END:
                    answers.append(answer(END, records=b"x"))
        return FetchedPartitions(0, 0, 0, [(PART.topic, answers)])


def answer(
    end: int, *, error: int = 0, records: bytes = b"", preferred: int = -1, diverging: int = -1
) -> PartitionResponse:
    found = PartitionResponse(0, error, end, end, 0, (), memoryview(bytearray(records)))
    found.preferred_replica = preferred
    if diverging >= 0:
        found.diverging_epoch, found.diverging_end = 0, diverging
    return found


class Plenty:
    """Memory without an end."""

    room_bytes = 1 << 30

    def share_bytes(self, brokers: int) -> int:
        return self.room_bytes

    def reserve(self, place: object, most_bytes: int) -> int:
        return most_bytes

    def release(self, place: object) -> None:
        pass


class Reading:
    """A partition that moves on by one with each answer that has records; keeps all that is delivered."""

    held_back = False

    def __init__(self, cluster: Cluster, rack: str) -> None:
        self.offset = 0
        self.delivered: list[PartitionResponse] = []
        settings = ConsumerSettings(CLIENT, client_rack=rack)
        client: Any = cluster
        self.reader = SourceReader(
            cluster.loop, client, settings, {PART: self}, Plenty(), self._deliver, lambda _: None
        )
        self.cluster = cluster

    def fetch_position(self, read_ahead: int) -> FetchPosition:
        assert read_ahead
        return FetchPosition(self.offset, 1000)

    def _lost(self, _: Any) -> None:
        """No test here has a cluster refuse for good."""

    def _deliver(self, _: FetchPosition, fetched: Fetched) -> None:
        self.delivered.append(fetched.answer)
        self.offset += bool(fetched.answer.records)

    def run(self, until: Callable[[], bool]) -> None:
        """Read until something is so."""

        async def read() -> None:
            self.reader.start()
            self.reader.wake()
            give_up_at = time.monotonic() + 60
            while not until():
                assert time.monotonic() < give_up_at
                await self.cluster.loop.sleep(0.001)
            self.reader.stop()

        self.cluster.loop.run(read)

    def nodes(self) -> list[int]:
        return [node for node, _ in self.cluster.asked]


def test_records_come_from_where_the_leader_sends_us(loop: Loop) -> None:
    reading = Reading(Cluster(loop), "near")
    reading.run(lambda: reading.offset >= 20)
    assert reading.nodes()[0] == 1
    assert set(reading.nodes()[1:]) == {2}
    assert not any(found.error for found in reading.delivered)


def test_without_a_rack_they_come_from_the_leader(loop: Loop) -> None:
    reading = Reading(Cluster(loop), "")
    reading.run(lambda: reading.offset >= 20)
    assert set(reading.cluster.asked) == {(1, "")}


@pytest.mark.parametrize(
    "refusal",
    [
        answer(-1, error=Code.OFFSET_OUT_OF_RANGE),
        answer(5, diverging=5),
        answer(-1, error=Code.NOT_LEADER_OR_FOLLOWER),
        answer(-1, error=Code.UNKNOWN_TOPIC_OR_PARTITION),
    ],
    ids=["out of range", "diverging", "no replica", "unknown"],
)
def test_what_a_follower_lacks_is_asked_of_the_leader(loop: Loop, refusal: PartitionResponse) -> None:
    cluster = Cluster(loop)
    cluster.follower = lambda offset: refusal if offset >= 5 else answer(END, records=b"x")
    reading = Reading(cluster, "near")
    reading.run(lambda: reading.offset >= 20)
    # The refusal itself is not delivered, for it would be taken for a gap.
    assert not any(found.error or found.diverging_epoch >= 0 for found in reading.delivered)
    # The leader is not sent the rack any more, or it would send us back.
    assert cluster.asked[-1] == (1, "")
    assert cluster.refreshed


def test_a_follower_that_does_not_answer_is_left(loop: Loop) -> None:
    cluster = Cluster(loop)

    def gone(_: int) -> PartitionResponse:
        raise ClusterError("gone")

    cluster.follower = gone
    reading = Reading(cluster, "near")
    reading.run(lambda: reading.offset >= 20)
    assert reading.nodes().count(2) == 1


def test_a_follower_is_tried_again_after_a_while(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "SHUN_S", 0.02)
    cluster = Cluster(loop)
    failures = [Code.NOT_LEADER_OR_FOLLOWER]
    cluster.follower = lambda _: answer(-1, error=failures.pop()) if failures else answer(END, records=b"x")
    reading = Reading(cluster, "near")
    reading.run(lambda: reading.offset >= END - 5 or reading.nodes()[-10:] == [2] * 10)
    assert reading.nodes()[-1] == 2


def test_the_leader_is_asked_again_after_a_while(loop: Loop) -> None:
    loop.clock = clock = VirtualClock()
    cluster = Cluster(loop)
    near = NearestReplicas(cluster, "near", 300)  # type: ignore[arg-type]
    assert near.set_replica(PART, answer(END, preferred=2))
    clock.now += 299
    assert near.node(PART) == 2
    clock.now += 2
    assert near.node(PART) == 1


def test_a_new_leader_is_asked(loop: Loop) -> None:
    cluster = Cluster(loop)
    near = NearestReplicas(cluster, "near", 60)  # type: ignore[arg-type]
    near.set_replica(PART, answer(END, preferred=2))
    cluster.leads = Leader(3, 6)
    assert near.node(PART) == 3
    near.set_replica(PART, answer(END, preferred=2))
    cluster.leads = Leader(3, 7)
    assert near.node(PART) == 3


def test_a_replica_that_is_offline_is_not_asked(loop: Loop) -> None:
    cluster = Cluster(loop)
    near = NearestReplicas(cluster, "near", 60)  # type: ignore[arg-type]
    near.set_replica(PART, answer(END, preferred=2))
    cluster.online.discard(2)
    assert near.node(PART) == 1
    assert not near.set_replica(PART, answer(END, preferred=2))
    assert near.rack == ""


def test_a_follower_does_not_bring_the_end_nearer(loop: Loop) -> None:
    near = NearestReplicas(Cluster(loop), "near", 60)  # type: ignore[arg-type]
    near.set_replica(PART, answer(END, preferred=2))
    late = answer(END - 7, records=b"x")
    near.record_answer(PART, 2, late)
    assert (late.high_watermark, late.last_stable_offset) == (END, END)
    newer = answer(END + 7)
    near.record_answer(PART, 2, newer)
    assert newer.high_watermark == END + 7


def test_it_is_left_alone_for_longer_each_time(loop: Loop) -> None:
    loop.clock = clock = VirtualClock()
    near = NearestReplicas(Cluster(loop), "near", 35)  # type: ignore[arg-type]
    spans = []
    for _ in range(4):
        near.set_replica(PART, answer(END, preferred=2))
        assert near.leave_broker(2) == [PART]
        begun = clock.now
        while not near.rack:
            clock.now += 1
        spans.append(clock.now - begun)
    assert spans == [10, 20, 35, 35]
    near.set_replica(PART, answer(END, preferred=2))
    near.record_answer(PART, 2, answer(END))
    near.leave_broker(2)
    begun = clock.now
    while not near.rack:
        clock.now += 1
    assert clock.now - begun == 10
