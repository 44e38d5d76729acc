"""The connections that appends are divided between: a partition keeps its connection while an append is in flight."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.turns import let_others_go_on
from twinlog.kafka.metadata import Leader
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.append_queue import AppendQueue, ProducerIdentity
from twinlog.kafka.producer.appender import BACKLOG_BYTES, TargetAppender
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.protocol.produce import Appended
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.model.types import SourceOffset, TopicName, TopicPartition

TOPIC = TopicName("north.t")
LARGE = BACKLOG_BYTES // 2


class Broker:
    """Leads all partitions, and answers once `free` is set; `sent` has the lane and the partitions of each request."""

    alias = "south"

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.free = False
        self.sent: list[tuple[int, tuple[int, ...]]] = []

    def throttled_s(self, _node: int, _lane: int = 0) -> float:
        return 0.0

    def leader(self, _partition: TopicPartition) -> Leader:
        return Leader(1, 0)

    async def append(self, _node: int, topics: dict[str, Any], *_: Any, lane: int, **__: Any) -> Any:
        self.sent.append((lane, tuple(number for number, _ in topics[TOPIC])))
        while not self.free:
            await self._loop.sleep(0.001)
        return {(TOPIC, number): Appended(0, 0, -1) for number, _ in topics[TOPIC]}

    def lanes(self, partition: int) -> set[int]:
        """The lanes that had appends of a partition."""
        return {lane for lane, numbers in self.sent if partition in numbers}


def record(size: int) -> Append:
    data = encode_batch([(0, record_body(None, bytes(size)))])
    return Append(data, 1, SourceOffset(0), SourceOffset(1), 0, ((SourceOffset(0), 1),))


class Appending:
    """An appender, and the queues of some partitions of a broker."""

    def __init__(self, loop: Loop, partitions: int) -> None:
        self._loop = loop
        self.broker = Broker(loop)
        client: Any = self.broker
        self.appender = TargetAppender(
            loop,
            client,
            max_in_flight=5,
            max_request_bytes=1 << 30,
            max_in_flight_bytes=1 << 30,
            request_timeout_s=10,
            allowed=lambda: True,
            lost=lambda error: None,
        )
        self.acknowledged: Counter[int] = Counter()
        self.queues = [self._queue(number) for number in range(partitions)]

    def _queue(self, number: int) -> AppendQueue:
        return AppendQueue(
            TopicPartition(TOPIC, number),
            ProducerIdentity(7, 0),
            lambda _append, _base: self.acknowledged.update([number]),
            lambda _sent: None,
            now=self._loop.clock.monotonic,
        )

    def put(self, number: int, appends: list[Append]) -> None:
        self.queues[number].put(appends)
        self.appender.offer_queue(self.queues[number])

    async def arrive(self, appends: int) -> None:
        """Let the broker answer until so many appends are acknowledged."""
        self.broker.free = True
        while self.acknowledged.total() < appends:
            await self._loop.sleep(0.001)

    async def finish(self, appends: int) -> None:
        """`arrive`, and stop the appender."""
        await self.arrive(appends)
        self.appender.stop()


def test_partitions_with_a_backlog_are_divided_between_two_connections(loop: Loop) -> None:
    appending = Appending(loop, 4)

    async def play() -> None:
        for number in range(4):
            appending.put(number, [record(LARGE), record(LARGE)])
        await appending.finish(8)

    loop.run(play)
    lanes = [appending.broker.lanes(number) for number in range(4)]
    assert lanes == [{0}, {1}, {0}, {1}]


def test_partitions_without_a_backlog_share_the_requests_of_a_connection(loop: Loop) -> None:
    appending = Appending(loop, 4)

    async def play() -> None:
        for number in range(4):
            appending.put(number, [record(100)])
        await appending.finish(4)

    loop.run(play)
    assert appending.broker.sent == [(0, (0, 1, 2, 3))]


def test_a_partition_keeps_its_connection_while_an_append_is_in_flight(loop: Loop) -> None:
    appending = Appending(loop, 2)
    broker = appending.broker

    async def play() -> None:
        appending.put(0, [record(100)])
        await let_others_go_on(loop)
        assert broker.sent == [(0, (0,))]
        # Lane 1 has less to do, but the record before is still in flight by lane 0.
        appending.put(0, [record(LARGE) for _ in range(4)])
        await appending.finish(5)

    loop.run(play)
    assert broker.lanes(0) == {0}


def test_a_partition_that_changes_its_connection_is_sent_by_the_last_connection_only(loop: Loop) -> None:
    appending = Appending(loop, 1)
    broker = appending.broker

    async def play() -> None:
        # From now on the broker knows the producer, and takes several appends at once.
        appending.put(0, [record(100)])
        await appending.arrive(1)
        await let_others_go_on(loop)
        broker.free = False
        broker.sent.clear()
        # Before the loop's next turn the queue waits in lane 0, which has more to do than lane 1 now.
        appending.put(0, [record(LARGE), record(LARGE)])
        appending.put(0, [record(LARGE), record(LARGE)])
        await let_others_go_on(loop)
        assert len(broker.sent) == 4
        await appending.finish(5)

    loop.run(play)
    assert broker.lanes(0) == {1}
