"""Stored positions: their bytes, when they are written, and that a copier goes on exactly there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from confluent_kafka import Producer

from harness.consume import Record, consume
from harness.produce import Codec, NewRecord, numbered, produce
from harness.topics import create_topic, delete_topic, offsets
from harness.wait import slowness, wait_for
from tests.integration.copying import SOURCE, CopyFlow
from tests.integration.records import lively, seen
from tests.integration.segments import stored_batches
from twinlog.mirror.offsets.positions import Position, PositionRecord, encode_position
from twinlog.mirror.offsets.starts import AT_FIRST, REFUSED, StartSpec
from twinlog.model.types import SourceOffset, TopicName, TopicPartition

NEVER = {"position_interval_ms": 3_600_000}
"""Positions are stored when a partition is taken and when it is released, not in between."""


@dataclass(frozen=True, slots=True)
class Write:
    """Where and when a position was written."""

    record: Record
    value: bytes
    header: dict[str, object]


def key_of(topic: str, partition: int = 0) -> bytes:
    """A position's key, as Connect's JsonConverter writes it for MirrorMaker 2."""
    return b'["MirrorSourceConnector",{"cluster":"north","partition":%d,"topic":"%b"}]' % (partition, topic.encode())


def writes(flow: CopyFlow, topic: str, partition: int = 0) -> list[Write]:
    """All positions written for a source partition, oldest first."""
    found = []
    for one in consume(flow.target, flow.positions_topic):
        if one.key == key_of(topic, partition):
            assert one.value is not None
            header = dict(one.headers).get("twinlog.position") or b"{}"
            found.append(Write(one, one.value, json.loads(header)))
    return found


def store(flow: CopyFlow, record: PositionRecord) -> None:
    """Write a position as a Java client would: the partition follows from the key."""
    producer = Producer({**flow.target.client_config(), "acks": "all", "partitioner": "murmur2_random"})
    producer.produce(flow.positions_topic, record.value, record.key, headers=list(record.headers))
    assert producer.flush(30) == 0


def own_position(topic: str, position: Position) -> PositionRecord:
    """A position as twinlog writes it."""
    return encode_position(SOURCE, TopicPartition(TopicName(topic), 0), position)


def mm2_position(topic: str, last_copied: int) -> PositionRecord:
    """A position as MirrorMaker 2 writes it."""
    return PositionRecord(key_of(topic), b'{"offset":%d}' % last_copied)


def test_a_position_has_connects_bytes(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name, 2)
    produce(copy_flow.source, topic_name, numbered(5), partition=1)
    produce(copy_flow.target, remote, numbered(3), partition=1)

    copy_flow.copy(topic_name)

    assert [write.value for write in writes(copy_flow, topic_name, 0)] == [b'{"offset":-1}']
    first, *_, last = writes(copy_flow, topic_name, 1)
    assert first.value == b'{"offset":-1}'
    assert last.value == b'{"offset":4}'
    assert last.header["target"] == 8
    # Java's producer would put this key into the same partition, so that compaction keeps one position per key.
    places = {
        one.partition for one in consume(copy_flow.target, copy_flow.positions_topic) if one.key == last.record.key
    }
    store(copy_flow, PositionRecord(key_of(topic_name, 1), last.value, ()))
    assert {write.record.partition for write in writes(copy_flow, topic_name, 1)} == places == {last.record.partition}


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("writer", ["twinlog", "mm2"])
def test_goes_on_inside_a_batch(copy_flow: CopyFlow, topic_name: str, codec: Codec, writer: str) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, lively(50, size=1000), codec=codec, per_batch=50)
    (made,) = stored_batches(copy_flow.source, topic_name)
    assert (made.codec, made.count) == (codec, 50)
    copies = [
        NewRecord(one.value, one.key, one.headers, one.timestamp) for one in consume(copy_flow.source, topic_name)
    ]
    produce(copy_flow.target, remote, copies[:20])
    store(
        copy_flow, own_position(topic_name, Position(20, 20)) if writer == "twinlog" else mm2_position(topic_name, 19)
    )

    running = copy_flow.copy(topic_name)

    assert seen(consume(copy_flow.target, remote)) == seen(consume(copy_flow.source, topic_name))
    assert stored_batches(copy_flow.target, remote)[-1].codec == codec
    assert running.heard.events == []
    assert copy_flow.stored(topic_name) == running_position(copy_flow, topic_name, 50, 50)


def running_position(flow: CopyFlow, topic: str, next_source: int, next_target: int) -> Position:
    """The stored position with the offsets that it must have."""
    stored = flow.stored(topic)
    assert stored is not None
    assert stored.topic_id is not None
    assert stored.remote_topic_id is not None
    assert stored.remote_topic == flow.remote(topic)
    return replace(stored, next_source=next_source, next_target=next_target)


def test_positions_are_stored_every_two_seconds_while_records_arrive(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name)
    running = copy_flow.start(topic_name)
    begin, known = time.time(), 0
    producer = Producer({**copy_flow.source.client_config(), "linger.ms": 0})
    while known < 3:
        assert time.time() < begin + 60 * slowness()
        # A look at what is stored takes longer than the load's pace allows, so not every time.
        for _ in range(50):
            producer.produce(topic_name, b"steady", partition=0)
            producer.flush(60)
            time.sleep(0.01)  # the load's pace
        known = sum(begin < write.record.timestamp / 1000 for write in writes(copy_flow, topic_name))
    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()
    at = [json.loads(write.value)["offset"] for write in writes(copy_flow, topic_name)]
    assert at == sorted(at)
    assert at[-1] == offsets(copy_flow.source, topic_name)[1] - 1


def test_a_position_waits_for_its_records(copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str]) -> None:
    remote = copy_flow.create(topic_name)
    other = new_name("t")
    copy_flow.create(other)
    produce(copy_flow.source, topic_name, numbered(10))
    held = copy_flow.start(topic_name, position_interval_ms=50)
    free = copy_flow.start(other, position_interval_ms=50)
    copy_flow.wait_until_caught_up(held, topic_name)

    def stored() -> list[bytes | None]:
        return [write.value for write in writes(copy_flow, topic_name)][-1:]

    wait_for(lambda: stored() == [b'{"offset":9}'], 60, "the position is stored")
    held.allowed.clear()
    produce(copy_flow.source, topic_name, numbered(10, start=10))
    part = held.partition_copy(topic_name)
    wait_for(lambda: part.read.offset == 20, 60, "the records are read")

    # Meanwhile another copier stores its positions many times.
    for number in range(5):
        produce(copy_flow.source, other, numbered(1))
        free.wait_for_position(other, number + 1)
        at = b'{"offset":%d}' % number
        wait_for(lambda: writes(copy_flow, other)[-1].value == at, 60, "the other position is stored")  # noqa: B023

    assert offsets(copy_flow.target, remote)[1] == 10
    assert writes(copy_flow, topic_name)[-1].value == b'{"offset":9}'
    held.allowed.set()
    copy_flow.wait_until_caught_up(held, topic_name)
    held.release()
    assert writes(copy_flow, topic_name)[-1].value == b'{"offset":19}'


@pytest.mark.parametrize("per_batch", [1, 100])
def test_a_restart_goes_on_without_loss_or_duplicate(copy_flow: CopyFlow, topic_name: str, per_batch: int) -> None:
    remote = copy_flow.create(topic_name)
    for start in (0, 100, 200):
        produce(copy_flow.source, topic_name, numbered(100, start=start, size=300), per_batch=per_batch)
        copy_flow.copy(topic_name)
    assert [(one.value or b"").rstrip(b".") for one in consume(copy_flow.target, remote)] == [
        b"%d" % n for n in range(300)
    ]


@pytest.mark.parametrize(("per_batch", "codec"), [(1, None), (20, None), (200, None), (20, "zstd")])
def test_after_a_crash_nothing_is_copied_twice(
    copy_flow: CopyFlow, topic_name: str, per_batch: int, codec: Codec | None
) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(50, size=500), per_batch=per_batch)
    running = copy_flow.start(topic_name, **NEVER)
    copy_flow.wait_until_caught_up(running, topic_name)
    produce(copy_flow.source, topic_name, numbered(150, start=50, size=500), per_batch=per_batch)
    copy_flow.wait_until_caught_up(running, topic_name)
    running.crash()
    stored = copy_flow.stored(topic_name)
    assert stored is not None
    assert (stored.next_source, stored.next_target) == (0, 0)
    produce(copy_flow.source, topic_name, numbered(30, start=200, size=500), per_batch=per_batch)

    # What was copied one by one comes in one fetch now, and may come with another codec.
    again = copy_flow.copy(topic_name, producer={"compression_type": codec})

    assert again.heard.events == []
    assert seen(consume(copy_flow.target, remote)) == seen(consume(copy_flow.source, topic_name))


def test_after_a_crash_foreign_records_are_recognised(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(10))
    running = copy_flow.start(topic_name, **NEVER)
    copy_flow.wait_until_caught_up(running, topic_name)
    running.crash()
    produce(copy_flow.target, remote, [NewRecord(b"foreign"), NewRecord(b"foreign")])
    produce(copy_flow.source, topic_name, numbered(10, start=10))

    again = copy_flow.copy(topic_name)

    (text,) = again.events("foreign")
    assert f"{remote}-0" in text
    assert " 2 " in text
    values = [one.value for one in consume(copy_flow.target, remote)]
    assert [value for value in values if value != b"foreign"] == [b"%d" % number for number in range(20)]


def test_a_foreign_writer_is_noticed_while_copying(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(10))
    running = copy_flow.start(topic_name)
    copy_flow.wait_until_caught_up(running, topic_name)
    produce(copy_flow.target, remote, numbered(3, start=100))
    produce(copy_flow.source, topic_name, numbered(10, start=10))
    copy_flow.wait_until_caught_up(running, topic_name)

    assert "3 target offsets from 10 on" in running.wait_for_event("foreign")
    assert running.position(topic_name).next_target == 23
    assert running.heard.failures == []


def test_a_partition_that_comes_back_to_a_copier(copy_flow: CopyFlow, topic_name: str) -> None:
    # The copier's producer has written to it before: its sequence numbers must not look like a retry.
    remote = copy_flow.create(topic_name)
    part = TopicPartition(TopicName(topic_name), 0)
    produce(copy_flow.source, topic_name, numbered(10))
    running = copy_flow.start(topic_name)
    copy_flow.wait_until_caught_up(running, topic_name)
    grant = running.partition_copy(*part).grant_again()

    for start in (10, 20, 30):
        released = running.release_one(part)
        produce(copy_flow.source, topic_name, numbered(10, start=start))
        running.grant([replace(grant, position=released)])
        copy_flow.wait_until_caught_up(running, topic_name)

    assert [one.value for one in consume(copy_flow.target, remote)] == [b"%d" % number for number in range(40)]
    assert running.heard.events == []


def test_a_remote_topic_that_is_recreated_while_copying(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(10))
    running = copy_flow.start(topic_name)
    copy_flow.wait_until_caught_up(running, topic_name)
    delete_topic(copy_flow.target, remote)
    produce(copy_flow.source, topic_name, numbered(10, start=10))
    create_topic(copy_flow.target, remote)
    copy_flow.wait_until_caught_up(running, topic_name)

    assert f"{remote} was recreated" in running.wait_for_event("target")
    assert [one.value for one in consume(copy_flow.target, remote)] == [b"%d" % number for number in range(10, 20)]
    assert running.heard.failures == []
    running.release()
    again = copy_flow.copy(topic_name)
    assert again.heard.failures == []
    assert offsets(copy_flow.target, remote) == (0, 10)


@pytest.mark.parametrize(("begin", "first"), [(AT_FIRST, 0), (StartSpec(offset=SourceOffset(10)), 10)])
def test_where_a_new_partition_begins(copy_flow: CopyFlow, topic_name: str, begin: StartSpec, first: int) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(10))
    running = copy_flow.start(topic_name, begin=begin)
    produce(copy_flow.source, topic_name, numbered(10, start=10))
    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()
    # With a position nothing else counts.
    produce(copy_flow.source, topic_name, numbered(10, start=20))
    copy_flow.copy(topic_name, begin=StartSpec(offset=SourceOffset(25)))

    assert [one.value for one in consume(copy_flow.target, remote)] == [b"%d" % number for number in range(first, 30)]


def test_a_new_partition_without_a_place_to_begin_is_held(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name)
    running = copy_flow.start(topic_name, begin=REFUSED)

    held = running.wait_for_held()

    assert (held.source, held.reason) == ((topic_name, 0), "no start")
    assert "the consumer of north has auto.offset.reset = none" in held.text
    assert held.way_out == "set earliest or latest, or twinlog.start for its topic"
    assert copy_flow.stored(topic_name) is None
