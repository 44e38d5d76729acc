"""Copies with the offsets of their sources: any batches, a trimmed log, kill -9, and what holds them."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.checks.checker import Load
from harness.cluster import KafkaCluster
from harness.consume import Record, consume
from harness.produce import NewRecord, numbered, produce
from harness.topics import delete_records, delete_topic, offsets
from harness.wait import wait_for
from tests.integration.copying import DEADLINE_S, CopyFlow
from tests.integration.records import lively
from tests.integration.segments import CODECS
from twinlog.copier import offset_fillers
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition

IDENTICAL = "identical"
PARTITIONS = 3


def everything(cluster: KafkaCluster, topic: str) -> list[tuple[int, int, tuple[object, ...]]]:
    """Partition, offset and content of each record."""
    found: list[Record] = consume(cluster, topic, isolation="read_uncommitted")
    return [(one.partition, one.offset, one.content) for one in found]


def require_same(flow: CopyFlow, topic: str, partitions: int = 1) -> None:
    """Both topics have the same records at the same offsets, and logs of the same bounds."""
    for number in range(partitions):
        assert offsets(flow.target, flow.remote(topic), number) == offsets(flow.source, topic, number)
    assert everything(flow.target, flow.remote(topic)) == everything(flow.source, topic)


def fill(cluster: KafkaCluster, topic: str, chance: random.Random, partition: int = 0) -> None:
    """Batches of each codec, from a single small record to hundreds of kilobytes."""
    for codec in CODECS:
        produce(cluster, topic, lively(50), partition=partition, codec=codec, per_batch=1)
        produce(cluster, topic, lively(chance.randrange(200, 400)), partition=partition, codec=codec, per_batch=7)
        produce(cluster, topic, lively(120, size=9_000), partition=partition, codec=codec, per_batch=40)
        produce(cluster, topic, [NewRecord(b"")], partition=partition, codec=codec)


@pytest.mark.parametrize("trimmed", [0, 1, 1_000], ids=["whole", "first record gone", "trimmed"])
def test_batches_of_many_sizes_and_codecs(
    copy_flow: CopyFlow, topic_name: str, trimmed: int, chance: random.Random
) -> None:
    copy_flow.create(topic_name)
    fill(copy_flow.source, topic_name, chance)
    if trimmed:
        delete_records(copy_flow.source, topic_name, trimmed)
    running = copy_flow.start(topic_name, offsets=IDENTICAL)
    copy_flow.wait_until_caught_up(running, topic_name)
    fill(copy_flow.source, topic_name, chance)
    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()
    require_same(copy_flow, topic_name)
    stored = copy_flow.stored(topic_name)
    assert stored is not None
    assert stored.kept_from == trimmed
    assert running.events("foreign") == []

    # Committed offsets stay what they are.
    copy_flow.translator.refresh()
    part = TopicPartition(TopicName(topic_name), 0)
    for offset in (trimmed, trimmed + 7, stored.next_source):
        found = copy_flow.translator.to_target(part, SourceOffset(offset))
        assert found is not None
        assert (found.offset, found.exact) == (offset, True)
        back = copy_flow.translator.to_source(part, TargetOffset(offset))
        assert back is not None
        assert (back.offset, back.exact) == (offset, True)


def test_another_codec_for_all_batches(copy_flow: CopyFlow, topic_name: str, chance: random.Random) -> None:
    copy_flow.create(topic_name)
    fill(copy_flow.source, topic_name, chance)
    delete_records(copy_flow.source, topic_name, 111)
    copy_flow.copy(topic_name, offsets=IDENTICAL, producer={"compression_type": "zstd"})
    require_same(copy_flow, topic_name)


def test_a_begin_far_behind(copy_flow: CopyFlow, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The begin of the remote log takes several segments, which the broker deletes while more is appended."""
    monkeypatch.setattr(offset_fillers, "DELETED_AT_ONCE", 100_000)
    small = {"max.message.bytes": "270", "segment.bytes": str(1 << 20), "file.delete.delay.ms": "500"}
    remote = copy_flow.create(topic_name, remote_config=small)
    first = 500_000
    while (end := offsets(copy_flow.source, topic_name)[1]) < first:
        produce(copy_flow.source, topic_name, (NewRecord(None) for _ in range(min(100_000, first - end))), codec="lz4")
    produce(copy_flow.source, topic_name, numbered(100))
    delete_records(copy_flow.source, topic_name, first)
    running = copy_flow.start(topic_name, offsets=IDENTICAL)
    wait_for(lambda: 0 < offsets(copy_flow.target, remote)[0] < first, DEADLINE_S, "a step is deleted", every_s=0.02)
    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()
    require_same(copy_flow, topic_name)
    segment = copy_flow.target.brokers[1].data / f"{remote}-0" / f"{0:020}.log"
    wait_for(lambda: not segment.exists(), DEADLINE_S, "the first segment is deleted")


def test_killed_again_and_again(copy_flow: CopyFlow, topic_name: str, chance: random.Random) -> None:
    copy_flow.create(topic_name, PARTITIONS)
    with Load(copy_flow.source, topic_name, PARTITIONS, rate=3000):
        wait_for(
            lambda: all(offsets(copy_flow.source, topic_name, one)[1] > 600 for one in range(PARTITIONS)),
            DEADLINE_S,
            "each partition has some records",
        )
        for number in range(PARTITIONS):
            delete_records(copy_flow.source, topic_name, 250 * number, number)
        for _ in range(6):
            child = copy_flow.start_child(topic_name, offsets=IDENTICAL, position_interval_ms=1000)
            time.sleep(chance.uniform(0.5, 2.5))
            child.kill()
    running = copy_flow.copy(topic_name, offsets=IDENTICAL)
    assert running.heard.held == []
    require_same(copy_flow, topic_name, PARTITIONS)


def test_killed_while_the_begin_is_filled(copy_flow: CopyFlow, topic_name: str, chance: random.Random) -> None:
    # Small batches, so that the begin takes long enough to be interrupted.
    remote = copy_flow.create(topic_name, remote_config={"max.message.bytes": "300"})
    first = 400_000
    produce(copy_flow.source, topic_name, (NewRecord(None) for _ in range(first)), codec="lz4")
    produce(copy_flow.source, topic_name, numbered(50))
    delete_records(copy_flow.source, topic_name, first)
    ends = [0]
    for _ in range(4):
        child = copy_flow.start_child(topic_name, offsets=IDENTICAL)
        wait_for(
            lambda: offsets(copy_flow.target, remote)[1] > ends[-1] or ends[-1] > first,
            DEADLINE_S,
            "the log grows",
            every_s=0.05,
        )
        time.sleep(chance.uniform(0, 0.2))
        child.kill()
        ends.append(offsets(copy_flow.target, remote)[1])
    logging.getLogger(__name__).warning("killed at %s", ends)
    copy_flow.copy(topic_name, offsets=IDENTICAL)
    require_same(copy_flow, topic_name)
    assert any(0 < end < first for end in ends)


def test_another_writer_holds_its_partition_alone(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str]
) -> None:
    other = new_name("other")
    remote = copy_flow.create(topic_name)
    copy_flow.create(other)
    for name in (topic_name, other):
        produce(copy_flow.source, name, numbered(100))
    running = copy_flow.start(topic_name, other, offsets=IDENTICAL)
    copy_flow.wait_until_caught_up(running, topic_name, other)
    produce(copy_flow.target, remote, numbered(1))
    for name in (topic_name, other):
        produce(copy_flow.source, name, numbered(100, start=100))
    held = running.wait_for_held()
    assert (held.source, held.reason, held.message_id) == ((topic_name, 0), "diverged", "TW-IDENT-01")
    assert held.source_offset == 100
    copy_flow.wait_until_caught_up(running, other)
    running.release()
    require_same(copy_flow, other)
    end = offsets(copy_flow.target, remote)

    # The next copier finds the same, with the stored position and without any.
    for forgotten in (False, True):
        running = copy_flow.open(offsets=IDENTICAL)
        grant = copy_flow.grant(TopicPartition(TopicName(topic_name), 0))
        running.grant([replace(grant, drained=False, position=None if forgotten else grant.position)])
        assert running.wait_for_held().reason == "diverged"
        running.release()
    assert offsets(copy_flow.target, remote) == end

    # The way out: a topic that is created again is copied again, as a whole.
    delete_topic(copy_flow.target, remote)
    copy_flow.create_remote(topic_name)
    copy_flow.copy(topic_name, offsets=IDENTICAL)
    require_same(copy_flow, topic_name)


def test_a_transaction_holds_it_and_translated_offsets_follow(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str]
) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(100))
    produce(copy_flow.source, topic_name, numbered(5, start=100), transactional_id=new_name("tx"))
    produce(copy_flow.source, topic_name, numbered(5, start=105))
    running = copy_flow.start(topic_name, offsets=IDENTICAL)
    held = running.wait_for_held()
    assert (held.reason, held.message_id, held.source_offset) == ("hole", "TW-IDENT-02", 100)
    running.release()
    assert offsets(copy_flow.target, remote) == (0, 100)
    copy_flow.copy(topic_name)
    assert [one.value for one in consume(copy_flow.target, remote)] == [b"%d" % number for number in range(110)]


def test_a_gap_of_the_source_holds_it(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(100))
    copy_flow.copy(topic_name, offsets=IDENTICAL)
    produce(copy_flow.source, topic_name, numbered(100))
    delete_records(copy_flow.source, topic_name, 150)
    running = copy_flow.start(topic_name, offsets=IDENTICAL, gap_policy="skip")
    held = running.wait_for_held()
    assert (held.reason, held.message_id, held.source_offset) == ("gap", "TW-GAP-01", 100)
    running.release()
    assert offsets(copy_flow.target, remote) == (0, 100)
