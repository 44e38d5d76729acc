"""A topic of our own is read to its end however long it is and whatever happens on the way, and no record twice."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from harness.cluster import KafkaCluster
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, delete_records, delete_topic
from tests.connected_admins import connected_admin
from tests.integration.copying import SOURCE, TARGET, flow_settings
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer import topic_pages
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.fetch_session import Fetched, FetchSession
from twinlog.kafka.protocol.fetch import FetchPosition
from twinlog.kafka.record.builder import own_batch, record_body
from twinlog.kafka.record.last_records import LastRecords
from twinlog.kafka.record.records import Record
from twinlog.mirror.groups.stored_checkpoints import StoredCheckpoints
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.mirror.records import Checkpoint
from twinlog.model.types import Alias, GroupId, TopicName, TopicPartition


@pytest.fixture
def here(target_cluster: KafkaCluster) -> Iterator[ClusterAdmin]:
    with connected_admin(TARGET, flow_settings(target_cluster, target_cluster).target_admin.client) as admin:
        yield admin


@pytest.fixture
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers hold a batch or two, so that reading takes many of them."""
    monkeypatch.setattr(topic_pages, "FETCH_BYTES", 4096)


@pytest.fixture
def many_answers(here: ClusterAdmin, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Reading takes many times as long as a call waits for progress; how many partitions each answer was asked for."""
    fetch = FetchSession.fetch
    asked: list[int] = []

    async def slow(self: FetchSession, wanted: Mapping[TopicPartition, FetchPosition], **how: Any) -> list[Fetched]:
        asked.append(len(wanted))
        await here.client.loop.sleep(0.05)
        return await fetch(self, wanted, **how)

    monkeypatch.setattr(FetchSession, "fetch", slow)
    monkeypatch.setattr(topic_pages, "FETCH_BYTES", 300_000)
    monkeypatch.setattr(topic_pages, "STALLED_S", 0.5)
    return asked


def values(reader: TopicReader) -> list[bytes | None]:
    return [record.value for _, record in reader.read()]


def append(here: ClusterAdmin, topic: str, batch: bytearray, times: int) -> None:
    """Append one batch again and again to the only partition of a topic."""

    async def write() -> None:
        name = TopicName(topic)
        await here.client.refresh([name])
        leader = here.client.leader(TopicPartition(name, 0))
        assert leader is not None
        for _ in range(times):
            answers = await here.client.append(leader.node, {name: [(0, batch)]}, 30)
            assert [answer.code for answer in answers.values()] == [0]

    here.call(write)


def test_positions_of_a_day_are_read_in_one_go(
    target_cluster: KafkaCluster, here: ClusterAdmin, new_name: Callable[[str], str], many_answers: list[int]
) -> None:
    """100,000 of them; whoever gave up when its time is over, though it gets on, would never come to their end."""
    topic = create_topic(target_cluster, new_name("positions"), config={"cleanup.policy": "compact"})
    settings = flow_settings(target_cluster, target_cluster, offset_storage_topic=topic)
    parts = [TopicPartition(TopicName("orders"), number) for number in range(4)]
    now = int(time.time() * 1000)
    records = [encode_position(SOURCE, parts[at % 4], Position(at, at)) for at in range(2000)]
    bodies = [record_body(record.key, record.value, record.headers) for record in records]
    append(here, topic, own_batch((now, body) for body in bodies), 50)
    found = PositionStore(settings, here).read(parts)

    assert {part.partition: position.next_source for part, position in found.items()} == {
        number: 1996 + number for number in range(4)
    }
    assert len(many_answers) >= 50


def test_checkpoints_of_hours_are_read_in_one_go(
    target_cluster: KafkaCluster, here: ClusterAdmin, new_name: Callable[[str], str], many_answers: list[int]
) -> None:
    """50 groups with 20 partitions each: without the last of them none would be written."""
    settings = replace(flow_settings(target_cluster, target_cluster), source=Alias(new_name("a")))
    topic = create_topic(
        target_cluster, f"{settings.source}.checkpoints.internal", config={"cleanup.policy": "compact"}
    )
    groups = [GroupId(f"group-{number}") for number in range(50)]
    remote = TopicName(f"{settings.source}.orders")
    now = int(time.time() * 1000)
    ages = [
        own_batch(
            (now, record_body(one.key, one.value))
            for group in groups
            for one in (Checkpoint(group, remote, number, age, age + number) for number in range(20))
        )
        for age in range(2)
    ]
    append(here, topic, ages[0], 99)
    append(here, topic, ages[1], 1)
    stored = StoredCheckpoints(settings, here)

    stored.prepare(look=True)

    assert set(stored._last) == set(groups)
    for group in groups:
        found = stored.last(group)
        assert {part.partition: one.downstream for part, one in found.items()} == {n: 1 + n for n in range(20)}
    assert len(many_answers) >= 20


def test_what_was_read_before_an_error_is_not_read_again(
    target_cluster: KafkaCluster,
    here: ClusterAdmin,
    topic_name: str,
    small_answers: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create_topic(target_cluster, topic_name)
    produce(target_cluster, topic_name, numbered(200, size=1000), per_batch=2)
    reader, last = TopicReader(here, TopicName(topic_name)), LastRecords()
    fetch = FetchSession.fetch
    asked: list[int] = []

    async def failing(self: FetchSession, wanted: Mapping[TopicPartition, FetchPosition], **how: Any) -> list[Fetched]:
        asked.extend(at.offset for at in wanted.values())
        if len(asked) % 5 == 0:
            raise ClusterError("the connection broke")
        return await fetch(self, wanted, **how)

    monkeypatch.setattr(FetchSession, "fetch", failing)
    assert values(reader) == [one.value for one in numbered(200, size=1000)]
    assert asked == sorted(asked)
    assert len(asked) > 20

    # Nor when the call itself gives up: the next one goes on there.
    produce(target_cluster, topic_name, [NewRecord(b"." * 1000, key=b"%d" % at) for at in range(20)], per_batch=1)
    monkeypatch.setattr(topic_pages, "STALLED_S", -1.0)
    asked.clear()
    errors = 0
    while len(last) < 20:
        try:
            reader.read_last(last)
        except ClusterError:
            errors += 1
    assert errors
    assert asked == sorted(asked)
    assert [kept.offset for kept in last.values()] == list(range(200, 220))


def test_who_holds_a_transaction_open_is_named(
    target_cluster: KafkaCluster, here: ClusterAdmin, new_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, owner = create_topic(target_cluster, new_name("t")), new_name("id")
    produce(target_cluster, topic, numbered(5))
    producer = Producer({**target_cluster.client_config(), "transactional.id": owner})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", b"key")
    assert producer.flush(30) == 0
    produce(target_cluster, topic, numbered(5, start=5))
    monkeypatch.setattr(topic_pages, "STALLED_S", 0.3)
    reader = TopicReader(here, TopicName(topic), committed=True)
    got: list[bytes | None] = []
    with pytest.raises(ClusterError) as raised:
        got.extend(record.value for _, record in reader.read())
    assert re.search(
        rf"{topic}-0 is held up at offset 5 of 11 by an open transaction of transactional id {owner} "
        rf"\(producer \d+, epoch \d+, last append \d+ s ago\), which began at offset 5",
        str(raised.value),
    )
    producer.abort_transaction(30)
    monkeypatch.setattr(topic_pages, "STALLED_S", 30.0)
    assert values(reader) == [b"5", b"6", b"7", b"8", b"9"]


@pytest.fixture
def reading(
    target_cluster: KafkaCluster, here: ClusterAdmin, topic_name: str, small_answers: None
) -> Iterator[tuple[TopicPartition, Record]]:
    """The rest of a hundred records, of which the first was read."""
    create_topic(target_cluster, topic_name)
    produce(target_cluster, topic_name, numbered(100, size=1000), per_batch=2)
    reading = TopicReader(here, TopicName(topic_name)).read()
    assert next(reading)[1].offset == 0
    return reading


def test_a_log_that_loses_its_begin_is_read_on_after_that(
    target_cluster: KafkaCluster, topic_name: str, reading: Iterator[tuple[TopicPartition, Record]]
) -> None:
    delete_records(target_cluster, topic_name, 60)
    rest = [record.offset for _, record in reading]
    assert rest[-40:] == list(range(60, 100))
    assert rest == sorted(set(rest))


def test_a_recreated_topic_is_read_from_its_beginning(
    target_cluster: KafkaCluster, topic_name: str, reading: Iterator[tuple[TopicPartition, Record]]
) -> None:
    delete_topic(target_cluster, topic_name)
    create_topic(target_cluster, topic_name, 2)
    produce(target_cluster, topic_name, numbered(3, start=1000))
    produce(target_cluster, topic_name, numbered(3, start=2000), partition=1)
    found: Collection[bytes | None] = [record.value for _, record in reading]
    assert {value for value in found if value and len(value) == 4} == {
        b"%d" % number for number in (1000, 1001, 1002, 2000, 2001, 2002)
    }
