"""Whatever a broker answers, a copier does not ask it in a loop."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tests.unit.kafka.consumer.test_nearest import CLIENT, END, PART, Cluster, Reading
from twinlog.clock import SYSTEM
from twinlog.kafka.consumer import partition_reader as reader
from twinlog.kafka.consumer.broker_poll import SHORT_WAIT_MS, BrokerPoll
from twinlog.kafka.consumer.nearest import NearestReplicas
from twinlog.kafka.consumer.session_places import SessionPlace, SessionPlaces
from twinlog.kafka.fetch_session import FetchSession
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import FetchedPartitions, FetchPosition, PartitionResponse, RawFetch
from twinlog.model.types import TopicName, TopicPartition

OTHER = TopicPartition(TopicName("shop"), 1)


class SessionBroker:
    """Keeps a fetch session as Kafka does (classes IncrementalFetchContext and CachedPartition): a partition that it
    refuses stays in it, and stands in every answer until it is asked to forget it."""

    alias = "north"
    settings = CLIENT
    loop = SimpleNamespace(clock=SYSTEM)

    def __init__(self) -> None:
        self.known: dict[TopicPartition, FetchPosition] = {}
        self.requested: list[set[TopicPartition]] = []
        self.refuses: set[TopicPartition] = set()

    async def send(self, request: RawFetch, node: int, timeout_s: float, *, connection: int = 0) -> FetchedPartitions:
        asked = {
            TopicPartition(topic, number): at for (topic, _), parts in request.topics.items() for number, at in parts
        }
        for (topic, _), numbers in request.forgotten.items():
            for number in numbers:
                del self.known[TopicPartition(topic, number)]
        self.known.update(asked)
        self.requested.append(set(asked))
        return FetchedPartitions(0, 0, 7, [(part.topic, [self._answer(part)]) for part in self.known])

    def _answer(self, part: TopicPartition) -> PartitionResponse:
        refused = Code.NOT_LEADER_OR_FOLLOWER if part in self.refuses else Code.NONE
        return PartitionResponse(part.partition, refused, 0, 0, 0, (), memoryview(b""))


def fetch(loop: Loop, session: FetchSession, wanted: Mapping[TopicPartition, FetchPosition]) -> dict[int, int]:
    """Partitions and error codes of one answer."""

    async def once() -> dict[int, int]:
        answers = await session.fetch(wanted, max_wait_ms=1, min_bytes=1, max_bytes=1)
        return {found.partition.partition: found.answer.error for found in answers}

    return loop.run(once)


def test_a_refused_partition_is_forgotten_once_it_is_not_wanted(loop: Loop) -> None:
    broker: Any = SessionBroker()
    session = FetchSession(broker, 1, read_committed=False)
    both = {PART: FetchPosition(0, 1), OTHER: FetchPosition(0, 1)}
    broker.refuses = {PART}
    assert fetch(loop, session, both) == {0: Code.NOT_LEADER_OR_FOLLOWER, 1: 0}
    assert fetch(loop, session, {OTHER: both[OTHER]}) == {1: 0}
    assert list(broker.known) == [OTHER]


def test_a_refused_partition_is_named_again_while_it_is_wanted(loop: Loop) -> None:
    broker: Any = SessionBroker()
    session = FetchSession(broker, 1, read_committed=False)
    both = {PART: FetchPosition(0, 1), OTHER: FetchPosition(0, 1)}
    broker.refuses = {PART}
    fetch(loop, session, both)
    broker.refuses.clear()
    assert fetch(loop, session, both) == {0: 0, 1: 0}
    fetch(loop, session, both)
    assert broker.requested == [{PART, OTHER}, {PART}, set()]


def test_answers_that_come_early_and_empty_make_a_pause(loop: Loop) -> None:
    cluster = Cluster(loop)
    reading = Reading(cluster, "")
    reading.offset = END
    # With a pause leaders are looked for.
    reading.run(lambda: cluster.refreshed > 0)
    assert len(cluster.asked) > reader.EMPTY_ANSWERS
    assert not any(found.records for found in reading.delivered)


def test_records_make_none(loop: Loop) -> None:
    cluster = Cluster(loop)
    reading = Reading(cluster, "")
    reading.run(lambda: reading.offset > 4 * reader.EMPTY_ANSWERS)
    assert not cluster.refreshed


def test_one_that_is_held_back_is_looked_at_now_and_then(loop: Loop) -> None:
    cluster = Cluster(loop)
    reading = Reading(cluster, "")
    reading.reader._settings = replace(reading.reader._settings, fetch_max_wait_ms=0)
    looks = []

    def full(read_ahead: int) -> None:
        looks.append(time.monotonic())

    reading.held_back = True
    reading.fetch_position = full  # type: ignore[assignment]
    reading.run(lambda: len(looks) > 5)
    assert looks[-1] - looks[0] > 4 * SHORT_WAIT_MS / 1000
    assert not cluster.asked


def test_without_room_it_is_asked_for(loop: Loop) -> None:
    cluster = Cluster(loop)
    reading = Reading(cluster, "")
    memory: Any = reading.reader._memory
    memory.room_bytes, memory.share_bytes = 0, lambda _: 1000
    reading.run(lambda: reading.offset > 3)


def test_the_longer_a_target_takes_nothing_the_longer_may_a_fetch_wait(loop: Loop) -> None:
    client: Any = Cluster(loop)
    poll = BrokerPoll(client, SessionPlaces(NearestReplicas(client, "", 300), 1), {}, SessionPlace(1, 0), 1 << 20)
    assert poll.patience_ms(time.monotonic(), 500) == 500
    poll.hold_back(PART, True)
    now = time.monotonic()
    assert poll.patience_ms(now, 500) == SHORT_WAIT_MS
    assert poll.patience_ms(now, 5) == 5
    assert 240 < poll.patience_ms(now + 1, 500) <= 260
    assert poll.patience_ms(now + 60, 500) == 500
    poll.hold_back(PART, False)
    assert poll.patience_ms(now, 500) == 500
