"""Requests to brokers that do not take what they are sent: they are counted, for a loop without pause costs a core."""

from __future__ import annotations

from typing import Any

import pytest

from tests.source_log import New, SourceLog
from tests.turns import let_others_go_on
from twinlog.batches.prepare import prepare
from twinlog.kafka.metadata import Leader
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appender import TargetAppender
from twinlog.kafka.producer.appends import Append, CopyRules
from twinlog.kafka.protocol.produce import Appended
from twinlog.kafka.record.batch import read_batch
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.model.types import TopicName, TopicPartition

PART = TopicPartition(TopicName("north.t"), 0)
OUT_OF_ORDER = 45


class Target:
    """Takes appends in order of their sequence numbers, but holds back the one with number `stuck` until `free`."""

    alias = "south"

    def __init__(self, loop: Loop, stuck: int) -> None:
        self._loop = loop
        self._stuck = stuck
        self.free = loop.signal()
        self.requests: list[int] = []
        self.refused = 0
        self.log: list[int] = []

    def throttled_s(self, _node: int) -> float:
        return 0.0

    def leader(self, _partition: TopicPartition) -> Leader:
        return Leader(1, 0)

    async def append(self, _node: int, topics: dict[str, Any], *_: Any, **__: Any) -> Any:
        ((_, data),) = topics[PART.topic]
        batch = read_batch(memoryview(data), 0)
        assert batch is not None
        sequence = batch.base_sequence
        self.requests.append(sequence)
        if sequence == self._stuck:
            await self.free.wait(60)
        else:
            await self._loop.sleep(0.001)
        if sequence != len(self.log):
            self.refused += 1
            return {tuple(PART): Appended(OUT_OF_ORDER, -1, -1)}
        self.log.append(sequence)
        return {tuple(PART): Appended(0, sequence, -1)}


def one_record() -> Append:
    log = SourceLog()
    log.batch([New(0)])
    (append,) = prepare(log.fetch(), 0, CopyRules()).appends
    return append


def test_what_is_refused_after_an_append_on_its_way_is_not_sent_again_at_once(loop: Loop) -> None:
    client: Any = Target(loop, stuck=1)
    appender = TargetAppender(
        loop,
        client,
        max_in_flight=5,
        max_request_bytes=1 << 20,
        max_in_flight_bytes=1 << 20,
        request_timeout_s=10,
        allowed=lambda: True,
        lost=lambda error: None,
    )
    acknowledged: list[int] = []
    troubles: list[Any] = []
    queue = AppendQueue(
        PART,
        ProducerIdentity(7, 0),
        lambda _append, base: acknowledged.append(base),
        troubles.append,
        now=loop.clock.monotonic,
    )

    async def play() -> None:
        queue.put([one_record() for _ in range(8)])
        appender.offer_queue(queue)
        while client.refused < 4:
            await loop.sleep(0.001)
        await let_others_go_on(loop)
        # The first, the one that is stuck, and each of the four after it once.
        assert client.requests == [0, 1, 2, 3, 4, 5]
        client.free.set()
        while len(acknowledged) < 8:
            await loop.sleep(0.005)
        appender.stop()

    loop.run(play)
    assert acknowledged == list(range(8))
    assert troubles == []
    assert client.log == list(range(8))
    assert len(client.requests) == 12


class Crowded:
    """Two brokers, one for each of two partitions; notes how many requests each has at a time."""

    alias = "south"

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._flying = [0, 0]
        self.most = [0, 0]

    def throttled_s(self, _node: int) -> float:
        return 0.0

    def leader(self, partition: TopicPartition) -> Leader:
        return Leader(partition.partition, 0)

    async def append(self, node: int, topics: dict[str, Any], *_: Any, **__: Any) -> Any:
        self._flying[node] += 1
        self.most[node] = max(self.most[node], self._flying[node])
        await self._loop.sleep(0.01)
        self._flying[node] -= 1
        return {(PART.topic, part): Appended(0, 0, -1) for part, _ in topics[PART.topic]}


@pytest.mark.parametrize(("limit", "most"), [(1, 1), (1 << 20, 5)])
def test_when_many_bytes_are_on_their_way_each_broker_has_one_request(loop: Loop, limit: int, most: int) -> None:
    client: Any = Crowded(loop)
    appender = TargetAppender(
        loop,
        client,
        max_in_flight=5,
        max_request_bytes=1 << 20,
        max_in_flight_bytes=limit,
        request_timeout_s=10,
        allowed=lambda: True,
        lost=lambda error: None,
    )
    acknowledged: list[int] = []
    queues = [
        AppendQueue(
            TopicPartition(PART.topic, number),
            ProducerIdentity(7, 0),
            lambda _append, base: acknowledged.append(base),
            lambda sent: None,
            now=loop.clock.monotonic,
        )
        for number in range(2)
    ]

    async def play() -> None:
        for queue in queues:
            queue.put([one_record() for _ in range(20)])
            appender.offer_queue(queue)
        while len(acknowledged) < 40:
            await loop.sleep(0.005)
        appender.stop()

    loop.run(play)
    assert client.most == [most, most]
