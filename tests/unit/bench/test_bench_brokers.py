"""Requests of the bench to clusters of several brokers."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from kafka.protocol.consumer.offsets import ListOffsetsResponse

from bench.copies import limit
from bench.stage import wire

NOT_LEADER = 6


def _ends(offsets: dict[int, tuple[int, int]]) -> bytes:
    """The answer of a broker: error and offset of each partition."""
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    part_kind = kind.ListOffsetsPartitionResponse
    parts = [
        part_kind(partition_index=part, error_code=error, timestamp=-1, offset=offset, leader_epoch=0)
        for part, (error, offset) in offsets.items()
    ]
    answer = ListOffsetsResponse(throttle_time_ms=0, topics=[kind(name="t", partitions=parts)], version=7)
    answer.with_header(correlation_id=0)
    return bytes(answer.encode(header=True, framed=False))


class FakeConnection:
    """Answers each request with its address and number, or with what `answers` has for the address."""

    answers: dict[str, bytes]
    made: list[FakeConnection]

    def __init__(self, address: str) -> None:
        self.address = address
        self.waiting: deque[bytes] = deque()
        self.most = 0
        self.closed = False
        self.made.append(self)

    def send(self, frame: bytes) -> None:
        self.waiting.append(frame)
        self.most = max(self.most, sum(len(one.waiting) for one in self.made))

    def receive(self) -> memoryview:
        frame = self.waiting.popleft()
        return memoryview(self.answers.get(self.address, frame))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[FakeConnection]:
    monkeypatch.setattr(FakeConnection, "answers", {}, raising=False)
    monkeypatch.setattr(FakeConnection, "made", [], raising=False)
    monkeypatch.setattr(wire, "Connection", FakeConnection)
    monkeypatch.setattr(limit, "Connection", FakeConnection)
    return FakeConnection.made


def test_the_end_of_a_partition_is_the_one_that_its_leader_knows(connections: list[FakeConnection]) -> None:
    FakeConnection.answers = {
        "a:1": _ends({0: (0, 7), 1: (NOT_LEADER, -1), 2: (NOT_LEADER, -1)}),
        "b:2": _ends({0: (NOT_LEADER, -1), 1: (0, 5), 2: (NOT_LEADER, -1)}),
    }
    watch = wire.EndWatch("a:1,b:2", "t", 3)
    assert watch.ends() == {0: 7, 1: 5, 2: 0}
    assert watch.total() == 12
    watch.close()
    assert [(one.address, one.closed) for one in connections] == [("a:1", True), ("b:2", True)]


def test_requests_go_to_the_leaders_with_so_many_on_their_way(connections: list[FakeConnection]) -> None:
    brokers = limit._Brokers(["a:1", "b:2", "a:1"], 2)
    frames = [("a:1", b"1"), ("b:2", b"22"), ("a:1", b"333"), ("a:1", b"4444"), ("b:2", b"55555")]
    sizes = [brokers.send(*frame) for frame in frames]
    assert sizes == [0, 0, 0, 1, 2], "the oldest answer is taken first, also of another broker"
    assert max(one.most for one in connections) == 4, "two for each of two brokers"
    assert brokers.finish() == 12
    assert bytes(brokers.ask("b:2", b"x")) == b"x"
    assert not any(one.waiting for one in connections)
    brokers.close()
    assert all(one.closed for one in connections)


def test_positions_are_grouped_by_leader() -> None:
    leaders = {0: "b:2", 1: "a:1", 2: "b:2", 3: "c:3"}
    assert list(limit._led(leaders, {0: 10, 1: 11, 2: 12})) == [("a:1", {1: 11}), ("b:2", {0: 10, 2: 12})]


def test_leaders_are_addresses_of_brokers() -> None:
    class Thing:
        def __init__(self, **facts: Any) -> None:
            self.__dict__.update(facts)

    def listed(topic: str, timeout: float) -> Thing:
        return Thing(topics={topic: Thing(partitions={0: Thing(leader=2), 1: Thing(leader=1)})})

    brokers = {node: Thing(ports=Thing(plaintext=9_000 + node)) for node in (1, 2)}
    cluster: Any = Thing(brokers=brokers, clients=Thing(admin=lambda: Thing(list_topics=listed)))
    assert wire.leaders(cluster, "t") == {0: "127.0.0.1:9002", 1: "127.0.0.1:9001"}
