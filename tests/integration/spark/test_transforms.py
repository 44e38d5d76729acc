"""A function changes records between real clusters: what arrives, where groups go on, what a killed copier leaves."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.consume import Record, consume
from harness.groups import commit_offsets
from harness.produce import Codec, NewRecord, numbered, produce
from harness.topics import topics
from harness.wait import wait_for
from tests.integration.consuming import Member
from tests.integration.copying import CopyFlow
from twinlog.kafka.protocol.produce import partition_for
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.transform import TransformSettings

COMMITTED = {"isolation_level": "read_committed"}


def by(function: str, **how: Any) -> TransformSettings:
    return TransformSettings(f"tests.transforms:{function}", dead_letter_replication_factor=1, **how)


def whole(cluster: KafkaCluster, topic: str) -> list[Record] | None:
    found = consume(cluster, topic)
    return found if len(found) == 5 * 300 + 2 + 20 else None


def test_every_record_arrives_as_the_function_made_it(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str]
) -> None:
    """Batches of each codec, tombstones, headers, and records of transactions that were committed and aborted."""
    remote = copy_flow.create(topic_name)
    codecs: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
    for number, codec in enumerate(codecs):
        records = numbered(300, start=300 * number, size=60, keys=7, headers=True)
        produce(copy_flow.source, topic_name, records, codec=codec, per_batch=90)
    produce(copy_flow.source, topic_name, [NewRecord(None, b"gone"), NewRecord(b"", None, timestamp=1)])
    for abort in (True, False):
        produce(copy_flow.source, topic_name, numbered(20, start=9_000), transactional_id=new_name("tx"), abort=abort)
    # Markers of a transaction come after the answer to its end.
    before = wait_for(lambda: whole(copy_flow.source, topic_name), 60, "the last transaction can be read")

    def shouted(record: Record) -> tuple[object, ...]:
        value = None if record.value is None else record.value + b"!"
        return (record.key, value, record.headers, record.timestamp)

    running = copy_flow.copy(topic_name, consumer=COMMITTED, transform=by("shouting"))
    after = consume(copy_flow.target, remote)
    assert [one.content[:4] for one in after] == [shouted(one) for one in before]
    assert len(before) == 1522
    assert running.heard.events == []


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_group_goes_on_after_what_was_dropped_and_before_what_is_there(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str], mode: str
) -> None:
    remote = copy_flow.create(topic_name)
    running = copy_flow.start(topic_name, consumer=COMMITTED, transform=by("twice"), exactly_once=mode)
    for start in (0, 13, 40):
        produce(copy_flow.source, topic_name, numbered(40 if start else 13, start=start + 1), per_batch=9)
        copy_flow.wait_until_caught_up(running, topic_name)
    # Nothing of this is written, and the position is stored all the same.
    produce(copy_flow.source, topic_name, [NewRecord(b"%d" % (4 * number)) for number in range(50, 60)])
    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()
    assert running.heard.failures == []
    source = consume(copy_flow.source, topic_name)
    there = consume(copy_flow.target, remote)
    stored = copy_flow.stored(topic_name)
    assert stored is not None
    assert stored.next_source >= source[-1].offset + 1
    copy_flow.translator.refresh()
    group = new_name("group")
    for committed in range(source[-1].offset + 2):
        found = copy_flow.translator.to_target(TopicPartition(TopicName(topic_name), 0), committed)
        assert found is not None
        assert found.exact
        ahead = [one.value for one in source if one.offset >= committed and int(one.value or b"0") % 4]
        rest = [one.value for one in there if one.offset >= found.offset]
        assert [value for value in rest if not (value or b"").endswith(b" again")] == ahead
        if committed == 30:
            commit_offsets(copy_flow.target, {group: {(remote, 0): found.offset}})
            with Member(copy_flow.target, group, [remote], "classic") as member:
                assert member.read(len(rest)) == rest


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_copier_that_is_killed_again_and_again_loses_nothing(
    copy_flow: CopyFlow, topic_name: str, mode: str, chance: random.Random
) -> None:
    """Exactly once no record is there twice; without it, only routed ones may be."""
    remote = copy_flow.create(topic_name, 2)
    settings: dict[str, Any] = {
        "consumer": COMMITTED,
        "transform": by("sorting"),
        "exactly_once": mode,
        "transaction_interval_ms": 50,
        "position_interval_ms": 1000,
    }
    # Both modes route to one topic.
    first = written = 0 if mode == "disabled" else 1_000_000
    for _ in range(4):
        if mode == "enabled":
            copy_flow.take_over()
        child = copy_flow.start_child(topic_name, **settings)
        for _ in range(3):
            for number in range(2):
                produce(copy_flow.source, topic_name, numbered(400, start=written), partition=number, per_batch=23)
                written += 400
            time.sleep(chance.uniform(0.0, 0.4))
        child.kill()
    if mode == "enabled":
        copy_flow.take_over()
    running = copy_flow.copy(topic_name, **settings)
    assert [event for event in running.heard.events if event[0] == "foreign"] == []
    values = [b"%d" % number for number in range(first, written)]
    odd = Counter(value for value in values if int(value) % 2)
    even = Counter(value for value in values if not int(value) % 2)
    assert Counter(one.value for one in consume(copy_flow.target, remote)) == odd
    routed = Counter(one.value for one in consume(copy_flow.target, "even") if one.value in even)
    assert even.keys() <= routed.keys()
    if mode == "enabled":
        assert routed == even


def test_records_are_routed_by_their_keys_and_dead_letters_say_why(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str]
) -> None:
    remote = copy_flow.create(topic_name, 3)
    for number in range(3):
        produce(copy_flow.source, topic_name, numbered(50, start=50 * number), partition=number)
    running = copy_flow.copy(topic_name, consumer=COMMITTED, exactly_once="enabled", transform=by("rekeyed"))
    placed = {(one.partition, one.value) for one in consume(copy_flow.target, remote)}
    assert placed == {(partition_for(b"%d" % number, 3), b"%d" % number) for number in range(150)}
    assert running.heard.events == []
    dead, failing = new_name("dead"), new_name("failing")
    remote = copy_flow.create(failing)
    produce(copy_flow.source, failing, numbered(30, start=1, keys=3))
    how = by("no_sevens", tolerance="all", dead_letter_topic=dead, dead_letter_headers=True)
    running = copy_flow.copy(failing, consumer=COMMITTED, transform=how)
    assert [int(one.value or b"") for one in consume(copy_flow.target, remote)] == [n for n in range(1, 31) if n % 7]
    wait_for(lambda: dead in topics(copy_flow.target), 30, "the dead-letter topic is there")
    found = consume(copy_flow.target, dead)
    assert [one.value for one in found] == [b"7", b"14", b"21", b"28"]
    assert dict(found[0].headers)["__connect.errors.offset"] == b"6"
    assert dict(found[0].headers)["__connect.errors.topic"] == failing.encode()
