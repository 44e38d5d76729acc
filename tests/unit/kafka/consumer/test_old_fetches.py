"""Brokers before Kafka 2.7 do not say in a fetch where a log was truncated: the session asks them for it (KIP-320)."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.clock import SYSTEM
from twinlog.errors import ClusterError
from twinlog.kafka.fetch_session import FetchSession
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import FetchedPartitions, FetchPosition, PartitionResponse, RawFetch
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ClientSettings

SHOP = TopicName("shop")
PART, OTHER = TopicPartition(SHOP, 0), TopicPartition(SHOP, 1)
AT = FetchPosition(100, 1, last_epoch=3, leader_epoch=5)
RECORDS = b"records"


class OldBroker:
    """Answers fetches of version 11, and where the log of each leader epoch ends: (error, epoch, end)."""

    alias = "north"
    settings = ClientSettings(("127.0.0.1:1",))

    def __init__(self, version: int = 11) -> None:
        self.version = version
        self.ends: dict[int, tuple[int, int, int]] = {}
        self.asked: list[list[tuple[int, int, int]]] = []
        self.fetches = 0
        self.away = False
        self.knows_epochs = True
        self.error = 0
        self.session = 7
        self.named: set[int] = set()
        self.loop: Any = SimpleNamespace(clock=SYSTEM)

    def supports(self, api_key: int, version: int = 0) -> bool:
        assert (api_key, version) == (23, 2)
        return self.knows_epochs

    def leads(self, partition: TopicPartition, node: int) -> bool:
        return node == 1

    async def send(self, request: RawFetch, node: int, timeout_s: float, *, connection: int = 0) -> FetchedPartitions:
        request.negotiate_version({1: (4, self.version)})
        self.fetches += 1
        if request.session_epoch <= 0:
            self.named.clear()
        self.named |= {number for asked in request.topics.values() for number, _ in asked}
        self.named -= {number for numbers in request.forgotten.values() for number in numbers}
        parts = [
            PartitionResponse(number, self.error, 500, 500, 0, (), memoryview(b"" if self.error else RECORDS))
            for number in sorted(self.named)
        ]
        return FetchedPartitions(0, 0, self.session, [(str(SHOP), parts)])

    async def send_request(self, request: Any, node: int) -> Any:
        if self.away:
            raise ClusterError("the connection broke")
        (topic,) = request.topics
        self.asked.append([(one.partition, one.current_leader_epoch, one.leader_epoch) for one in topic.partitions])
        parts = []
        for one in topic.partitions:
            error, epoch, end = self.ends.get(one.partition, (0, one.leader_epoch, 1000))
            parts.append(SimpleNamespace(partition=one.partition, error_code=error, leader_epoch=epoch, end_offset=end))
        return SimpleNamespace(topics=[SimpleNamespace(topic=topic.topic, partitions=parts)])


def fetch(
    loop: Loop, session: FetchSession, wanted: Mapping[TopicPartition, FetchPosition]
) -> dict[int, PartitionResponse]:
    async def once() -> dict[int, PartitionResponse]:
        answers = await session.fetch(wanted, max_wait_ms=1, min_bytes=1, max_bytes=1)
        return {found.partition.partition: found.answer for found in answers}

    return loop.run(once)


def session_with(broker: Any, *, node: int = 1, kept: bool = True) -> FetchSession:
    return FetchSession(broker, node, read_committed=False, kept=kept)


@pytest.mark.parametrize(
    ("answer", "diverging"),
    [
        ((0, 3, 60), (3, 60)),  # The log of that epoch ends before what was read.
        ((0, 2, 70), (2, 70)),  # The leader never had that epoch.
        ((0, 2, 400), (2, 400)),
    ],
)
def test_a_log_that_differs_is_reported_in_place_of_its_records(
    loop: Loop, answer: tuple[int, int, int], diverging: tuple[int, int]
) -> None:
    broker = OldBroker()
    broker.ends[0] = answer
    found = fetch(loop, session_with(broker), {PART: AT, OTHER: AT})
    assert (found[0].diverging_epoch, found[0].diverging_end) == diverging
    assert not found[0].records
    assert bytes(found[1].records) == RECORDS
    assert broker.asked == [[(0, 5, 3), (1, 5, 3)]]


@pytest.mark.parametrize(
    ("answer", "error"),
    [((Code.FENCED_LEADER_EPOCH, -1, -1), Code.FENCED_LEADER_EPOCH), ((0, -1, -1), Code.OFFSET_OUT_OF_RANGE)],
)
def test_without_an_answer_no_record_is_delivered(loop: Loop, answer: tuple[int, int, int], error: int) -> None:
    broker = OldBroker()
    broker.ends[0] = answer
    found = fetch(loop, session_with(broker), {PART: AT})
    assert (found[0].error, bytes(found[0].records)) == (error, b"")
    # The next fetch asks again.
    broker.ends.clear()
    assert bytes(fetch(loop, session_with(broker), {PART: AT})[0].records) == RECORDS


def test_below_a_position_out_of_range_the_log_is_looked_at_too(loop: Loop) -> None:
    """Its end would pass over what was written since the log was cut back."""
    broker = OldBroker()
    broker.error = Code.OFFSET_OUT_OF_RANGE
    broker.ends[0] = (0, 3, 60)
    found = fetch(loop, session_with(broker), {PART: AT, OTHER: AT})
    assert (found[0].error, found[0].diverging_end) == (0, 60)
    assert (found[1].error, found[1].diverging_epoch) == (Code.OFFSET_OUT_OF_RANGE, -1)


def test_each_leader_epoch_is_asked_about_once(loop: Loop) -> None:
    broker = OldBroker()
    session = session_with(broker)
    later = AT._replace(offset=110, last_epoch=5)
    for at in (AT, later, later._replace(offset=120)):
        assert bytes(fetch(loop, session, {PART: at})[0].records) == RECORDS
    assert broker.asked == [[(0, 5, 3)]]
    fetch(loop, session, {PART: later._replace(offset=130, leader_epoch=6)})
    assert broker.asked[1:] == [[(0, 6, 5)]]


def test_of_brokers_without_epochs_what_no_fetch_named_meanwhile_is_looked_at_again(
    loop: Loop,
) -> None:
    """An election there and back cuts a log, and shows neither in an error nor in an epoch."""
    broker, virtual = OldBroker(), VirtualClock()
    broker.loop = SimpleNamespace(clock=virtual)
    session = session_with(broker)
    both = {part: AT._replace(leader_epoch=-1) for part in (PART, OTHER)}
    fetch(loop, session, both)
    fetch(loop, session, both)
    assert broker.asked == [[(0, -1, 3), (1, -1, 3)]]
    # Appends of partition 1 wait: it is read on later.
    fetch(loop, session, {PART: both[PART]})
    fetch(loop, session, both)
    assert broker.asked[1:] == [[(1, -1, 3)]]
    # All of them wait, and no fetch is sent.
    virtual.sleep(1.5)
    broker.ends[0] = (0, 3, 60)
    assert fetch(loop, session, both)[0].diverging_end == 60
    assert broker.asked[2:] == [[(0, -1, 3), (1, -1, 3)]]


def test_a_broker_without_fetch_sessions_is_asked_no_more_often(loop: Loop) -> None:
    broker = OldBroker()
    broker.session = 0
    session = session_with(broker)
    for _ in range(3):
        assert bytes(fetch(loop, session, {PART: AT})[0].records) == RECORDS
    assert broker.asked == [[(0, 5, 3)]]


def test_a_broken_connection_ends_the_session_and_delivers_nothing(loop: Loop) -> None:
    broker = OldBroker()
    broker.away = True
    session = session_with(broker)
    with pytest.raises(ClusterError):
        fetch(loop, session, {PART: AT})
    broker.away = False
    # A whole new session, which names every partition again.
    assert bytes(fetch(loop, session, {PART: AT})[0].records) == RECORDS
    assert broker.fetches == 2


@pytest.mark.parametrize(
    ("at", "node", "version", "knows"),
    [
        (AT._replace(last_epoch=-1), 1, 11, True),  # Nothing was read before.
        (AT, 2, 11, True),  # A follower.
        (AT, 1, 12, True),  # A broker whose fetches say it.
        (AT, 1, 11, False),  # A product without the request.
    ],
)
def test_nobody_is_asked_where_there_is_nothing_to_learn(
    loop: Loop, at: FetchPosition, node: int, version: int, knows: bool
) -> None:
    broker = OldBroker(version)
    broker.knows_epochs = knows
    broker.ends[0] = (0, 3, 60)
    found = fetch(loop, session_with(broker, node=node), {PART: at})
    assert bytes(found[0].records) == RECORDS
    assert broker.asked == []
