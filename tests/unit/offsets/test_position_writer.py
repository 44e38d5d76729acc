"""Where positions are stored: on the partition of their key, at its leader, wherever that is by now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.metadata import Leader, TopicMetadata
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.offsets.positions import Position, position_key
from twinlog.offsets.writer import PositionWriter
from twinlog.record.batch import scan
from twinlog.record.records import decode_records

TOPIC = TopicName("mm2-offsets.east.internal")
EAST = Alias("east")
PARTITIONS = 3
SOURCES = [TopicPartition(TopicName("orders"), number) for number in range(20)]
"""So many that each partition of the topic has some."""

Write = Callable[[int], None]
"""Stores that many records as copied from each source partition."""


class Target:
    """As much of a cluster as positions need. `leaders` is how it is; of that the writer knows what it asked for."""

    alias = "west"
    loop = SimpleNamespace(clock=VirtualClock())

    def __init__(self) -> None:
        self.leaders = {0: 10, 1: 11, 2: 12}
        self.down: set[int] = set()
        self.stored: set[int] = set()
        self.batches: list[tuple[int, bytes]] = []
        """By partition of the topic."""
        self.answer = Code.NONE
        self._known: TopicMetadata | None = None

    def topic(self, name: TopicName) -> TopicMetadata | None:
        assert name == TOPIC
        return self._known

    async def wait_for(self, topics: Iterable[TopicName], timeout_s: float) -> None:
        leaders = {number: Leader(node, 1) for number, node in self.leaders.items()}
        self._known = TopicMetadata(TOPIC, None, leaders, partitions=PARTITIONS)

    async def produce(self, node: int, topics: dict[str, list[Any]], timeout_s: float) -> dict[Any, tuple[int, int]]:
        if node in self.down:
            raise ClusterError("no answer")
        answers = {}
        assert len({number for number, _ in topics[TOPIC]}) == len(topics[TOPIC])
        for number, batch in topics[TOPIC]:
            self.batches.append((number, bytes(batch)))
            code = self.answer if self.leaders.get(number) == node else Code.NOT_LEADER_OR_FOLLOWER
            answers[TOPIC, number] = (int(code), 0)
            if not code:
                self.stored.add(number)
        return answers

    def lacks(self, *_: str) -> RefusedError:
        return RefusedError("WRITE")


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
def write(target: Target) -> Write:
    loop: Any = SimpleNamespace(signal=lambda: SimpleNamespace(set=lambda: None))
    client: Any = target
    settings: Any = SimpleNamespace(
        positions_topic=TOPIC,
        source=Alias("east"),
        connector_name="MirrorSourceConnector",
        producer=SimpleNamespace(client=SimpleNamespace(request_timeout_ms=1000)),
    )
    writer = PositionWriter(loop, client, settings)
    return lambda copied: asyncio.run(writer.write(dict.fromkeys(SOURCES, Position(copied))))


def test_what_did_not_change_is_not_stored_again(target: Target, write: Write) -> None:
    write(7)
    assert target.stored == {0, 1, 2}
    target.stored.clear()
    write(7)
    assert target.stored == set()


def test_without_a_leader_positions_wait_and_go_to_no_other_partition(target: Target, write: Write) -> None:
    del target.leaders[1]
    with pytest.raises(ClusterError, match=r"mm2-offsets\.east\.internal-1 has no leader"):
        write(7)
    assert target.stored == {0, 2}
    target.leaders[1] = 10
    write(7)
    assert target.stored == {0, 1, 2}


@pytest.mark.parametrize("gone", [True, False], ids=["gone for good", "a follower now"])
def test_where_the_leader_was_is_not_asked_for_ever(target: Target, write: Write, gone: bool) -> None:
    write(7)
    target.stored.clear()
    target.leaders[0] = 12
    if gone:
        target.down.add(10)
    with pytest.raises(ClusterError):
        write(8)
    # The others are stored all the same.
    assert target.stored == {1, 2}
    write(8)
    assert target.stored == {0, 1, 2}


def test_no_batch_is_too_large_for_a_broker(target: Target, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinlog.record.own_records.BATCH_BYTES", 500)
    write(7)
    assert len(target.batches) > PARTITIONS
    assert all(len(batch) < 700 for _, batch in target.batches)
    found = [record.key for _, data in target.batches for batch in scan(data) for record in decode_records(data, batch)]
    assert sorted(key or b"" for key in found) == sorted(position_key(EAST, source) for source in SOURCES)


def test_a_refusal_is_final(target: Target, write: Write) -> None:
    target.answer = Code.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(RefusedError):
        write(7)
