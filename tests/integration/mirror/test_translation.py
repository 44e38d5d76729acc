"""Every committed offset translates: the answers beside what is in both logs, record by record."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from harness.checks.checker import Load, require_clean
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.jvm.tools import CONSOLE_CONSUMER, run_tool
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, delete_records, offsets
from harness.wait import wait_for
from tests.connected_admins import connected_admins
from tests.integration.copier.batches.test_copy_compacted import CLEANED, wait_until_cleaned, write_segments
from tests.integration.copier.test_positions import mm2_position, store
from tests.integration.copying import SOURCE, TARGET, CopyFlow, flow_settings
from twinlog.mirror.offsets.segments import segments_topic
from twinlog.mirror.offsets.sync_store import UNTRANSLATABLE, MirrorTranslation
from twinlog.mirror.offsets.syncs import OffsetSync, decode_offset_sync
from twinlog.mirror.offsets.translator import Translation, Translator
from twinlog.model.types import TargetOffset, TopicName, TopicPartition

log = logging.getLogger(__name__)

PARTITIONS = 3
QUICK = {"position_interval_ms": 50}


class Oracle:
    """Which target offset each source offset of a partition leads to, found by comparing the records of both logs.

    No two may have the same key and value; a record copied twice counts at its last copy.
    """

    def __init__(self, flow: CopyFlow, topic: str, partition: int = 0) -> None:
        remote = flow.remote(topic)
        there = {(one.key, one.value): one.offset for one in consume(flow.target, remote, partitions=[partition])}
        self.copies = [
            (one.offset, there[one.key, one.value])
            for one in consume(flow.source, topic, partitions=[partition])
            if (one.key, one.value) in there
        ]
        self.source_end = offsets(flow.source, topic, partition)[1]
        self.target_end = offsets(flow.target, remote, partition)[1]

    def to_target(self, offset: int) -> int:
        """The first copy that a group still has to read; the end when there is none."""
        return min((there for here, there in self.copies if here >= offset), default=self.target_end)

    def read_again(self, offset: int, found: int) -> int:
        """How many records a group reads again that goes on at `found`; fails when it skips one."""
        ahead = {there for here, there in self.copies if here >= offset}
        read = {there for _, there in self.copies if there >= found}
        assert ahead <= read, f"offset {offset} led to {found}: {len(ahead - read)} records are skipped"
        return len(read - ahead)


def wait_until_committed(flow: CopyFlow, topic: str, last: int) -> None:
    """Wait for the end of a transaction: its coordinator answers before the marker is in the partition, and until then
    the partition ends before the transaction for whoever reads what is committed."""
    wait_for(lambda: offsets(flow.source, topic)[1] > last, 60, "the transaction has ended")


def part(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(TopicName(topic), partition)


def check_all(flow: CopyFlow, topic: str, partition: int = 0, *, begin: int = 0) -> int:
    """Every offset of a partition from `begin` on, there and back: nothing is skipped, and exact ones repeat nothing.

    Returns how many are not exact.
    """
    oracle = Oracle(flow, topic, partition)
    flow.translator.refresh()
    inexact = 0
    for offset in range(begin, oracle.source_end + 1):
        found = flow.translator.to_target(part(topic, partition), offset)
        assert found is not None
        again = oracle.read_again(offset, found.offset)
        assert again == 0 or not found.exact
        inexact += not found.exact
    for here, there in oracle.copies[begin:]:
        back = flow.translator.to_source(part(topic, partition), there)
        assert back is not None
        assert back.offset <= here
        assert back.offset == here or not back.exact
    beyond = flow.translator.to_target(part(topic, partition), oracle.source_end + 1000)
    assert beyond is not None
    assert beyond.offset <= oracle.target_end
    assert not beyond.exact
    return inexact


def test_a_topic_with_holes_on_both_sides(copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str]) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.target, remote, [NewRecord(b"ours %d" % number) for number in range(7)])
    running = copy_flow.start(topic_name, consumer={"isolation_level": "read_committed"}, **QUICK)
    for number in range(6):
        start = number * 100
        produce(copy_flow.source, topic_name, numbered(40, start=start), per_batch=15)
        written = produce(copy_flow.source, topic_name, numbered(20, start=start + 40), transactional_id=new_name("tx"))
        wait_until_committed(copy_flow, topic_name, written[-1])
        copy_flow.wait_until_caught_up(running, topic_name)
        produce(copy_flow.target, remote, [NewRecord(b"theirs %d" % number)])
    running.release()
    assert check_all(copy_flow, topic_name) == 0


def test_copied_exactly_once(copy_flow: CopyFlow, topic_name: str) -> None:
    """Each transaction on the target ends with a marker, so source and target part there."""
    copy_flow.create(topic_name)
    settings: dict[str, Any] = {"exactly_once": "enabled", "transaction_interval_ms": 20}
    for _ in range(2):
        running = copy_flow.start(topic_name, consumer={"isolation_level": "read_committed"}, **settings)
        for _ in range(5):
            begin = offsets(copy_flow.source, topic_name)[1]
            produce(copy_flow.source, topic_name, numbered(20, start=begin))
            copy_flow.wait_until_caught_up(running, topic_name)
        running.release()
    assert check_all(copy_flow, topic_name) == 0
    assert offsets(copy_flow.target, copy_flow.remote(topic_name))[1] > 200


def test_a_compacted_topic(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name, config=CLEANED)
    write_segments(copy_flow.source, topic_name, "lz4")
    wait_until_cleaned(copy_flow.source, topic_name)
    copy_flow.copy(topic_name)
    assert check_all(copy_flow, topic_name) == 0


def test_partitions_change_hands_under_load(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name, PARTITIONS)
    with Load(copy_flow.source, topic_name, PARTITIONS, rate=2000):
        running = [copy_flow.start(topic_name, **QUICK), copy_flow.open(**QUICK)]
        for turn in range(6):
            time.sleep(0.15)
            giver, taker = running[turn // 3 % 2], running[1 - turn // 3 % 2]
            moved = part(topic_name, turn % PARTITIONS)
            giver.release_one(moved)
            taker.grant([copy_flow.grant(moved)])
    copy_flow.wait_until_caught_up(running[0], topic_name)
    for one in running:
        one.release()
        assert one.heard.failures == []
    # Released in order, so every copy was noted.
    assert [check_all(copy_flow, topic_name, number) for number in range(PARTITIONS)] == [0] * PARTITIONS


def test_a_copier_crashes_again_and_again(copy_flow: CopyFlow, topic_name: str, chance: random.Random) -> None:
    remote = copy_flow.create(topic_name, PARTITIONS)
    # Each partition gets records within every interval.
    with Load(copy_flow.source, topic_name, PARTITIONS, rate=1500, tick_s=0.05 / PARTITIONS):
        for _ in range(5):
            # Of a partition that is copied all the time maps and positions are stored at every fourth interval.
            running = copy_flow.start(topic_name, position_interval_ms=50)
            time.sleep(chance.uniform(0.3, 0.8))
            running.crash()
    copy_flow.copy(topic_name)
    require_clean(copy_flow.source, topic_name, copy_flow.target, remote)
    for number in range(PARTITIONS):
        # What arrived between the last stored map and a crash was found when copying went on.
        assert check_all(copy_flow, topic_name, number) == 0


def syncs_of(cluster: KafkaCluster, topic: str, names: Iterable[str]) -> list[OffsetSync]:
    found = [decode_offset_sync(one.key, one.value) for one in consume(cluster, topic)]
    return [sync for sync in found if sync is not None and sync.topic in set(names)]


def test_mirror_maker_2_translates_by_our_offset_syncs(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str]
) -> None:
    other = new_name("idle")
    copy_flow.create(topic_name)
    copy_flow.create(other)
    running = copy_flow.start(topic_name, other, **QUICK)
    topic = running.settings.offset_syncs_topic
    assert topic == f"mm2-offset-syncs.{TARGET}.internal"
    for number in range(8):
        produce(copy_flow.source, topic_name, numbered(300, start=number * 300), per_batch=100)
        produce(copy_flow.source, topic_name, numbered(5, start=10_000 + number * 5), transactional_id=new_name("tx"))
        time.sleep(0.1)
    produce(copy_flow.source, other, numbered(3))
    copy_flow.wait_until_caught_up(running, topic_name, other)
    begun = time.monotonic()

    def last() -> list[int]:
        return [sync.upstream for sync in syncs_of(copy_flow.source, topic, [other])][-1:]

    # Nobody releases it: an idle partition has a sync for its last record all the same.
    wait_for(lambda: last() == [2], 60, "the idle partition's last record is synced")
    log.warning("idle after %.1f s", time.monotonic() - begun)
    running.release()

    syncs = syncs_of(copy_flow.source, topic, [topic_name])
    oracle = Oracle(copy_flow, topic_name)
    copies = dict(oracle.copies)
    assert all(copies[sync.upstream] == sync.downstream for sync in syncs)
    assert [sync.upstream for sync in syncs] == sorted(sync.upstream for sync in syncs)
    assert (syncs[0].upstream, syncs[-1].upstream) == (0, oracle.copies[-1][0])
    reader = MirrorTranslation()
    reader.ready()
    for sync in syncs:
        reader.add(sync)
    for offset in range(oracle.source_end + 1):
        found = reader.translate(part(topic_name), offset)
        assert found not in (None, UNTRANSLATABLE)
        oracle.read_again(offset, found or 0)

    every = syncs_of(copy_flow.source, topic, [topic_name, other])
    options = ["--bootstrap-server", copy_flow.source.bootstrap, "--topic", topic, "--from-beginning"]
    options += ["--max-messages", str(len(consume(copy_flow.source, topic))), "--timeout-ms", "30000"]
    options += ["--formatter", "org.apache.kafka.connect.mirror.formatters.OffsetSyncFormatter"]
    printed = run_tool(CONSOLE_CONSUMER, options, deadline_s=90).splitlines()
    ours = [line for line in printed if topic_name in line or other in line]
    assert sorted(ours) == sorted(map(str, every))


def test_what_mirror_maker_2_copied_translates_by_its_offset_syncs(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name)
    # MirrorMaker 2 has copied 100 records after 10 of somebody else, and 20 of them twice.
    produce(copy_flow.source, topic_name, numbered(150))
    produce(copy_flow.target, remote, [NewRecord(b"theirs %d" % number) for number in range(10)])
    produce(copy_flow.target, remote, [*numbered(60), *numbered(60, start=40)])
    syncs = [
        OffsetSync(TopicName(topic_name), 0, here, there) for here, there in [(0, 10), (50, 60), (40, 70), (99, 129)]
    ]
    topic = f"mm2-offset-syncs.{TARGET}.internal"
    produce(copy_flow.source, topic, [NewRecord(sync.value, sync.key) for sync in syncs])
    store(copy_flow, mm2_position(topic_name, 99))
    copy_flow.copy(topic_name)

    # All before 100 is coarse, but for those that lead to the first record that twinlog copied.
    assert check_all(copy_flow, topic_name, begin=40) == 60
    found = copy_flow.translator.to_target(part(topic_name), 99)
    assert found == Translation(129, False, "syncs")
    # The second copy leaves the syncs of the first copy in force.
    assert copy_flow.translator.to_target(part(topic_name), 30) == Translation(11, False, "syncs")
    assert copy_flow.translator.to_source(part(topic_name), 129) == Translation(99, False, "syncs")
    assert copy_flow.translator.looked_at_syncs

    # It goes on after what twinlog has copied.
    copy_flow.translator.refresh()
    produce(copy_flow.source, topic_name, numbered(20, start=150))
    after = OffsetSync(TopicName(topic_name), 0, 160, 190)
    produce(copy_flow.source, topic, [NewRecord(after.value, after.key)])
    store(copy_flow, mm2_position(topic_name, 169))

    def translated() -> Translation[TargetOffset] | None:
        copy_flow.translator.refresh()
        return copy_flow.translator.to_target(part(topic_name), 160)

    wait_for(lambda: translated() == Translation(190, False, "syncs"), 20, "its offset syncs count")


def test_offset_syncs_on_the_target(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name)
    # A separator of its own, so a topic of its own: a flow the other way round keeps `mm2-offset-syncs.north.internal`.
    changed: dict[str, Any] = {"offset_syncs_location": "target", "separator": f"-{topic_name[-5:]}-"}
    settings = flow_settings(copy_flow.source, copy_flow.target, **changed)
    name = create_topic(copy_flow.target, settings.offset_syncs_topic, config={"cleanup.policy": "compact"})
    produce(copy_flow.source, topic_name, numbered(10))
    copy_flow.copy(topic_name, **changed)
    assert {sync.upstream for sync in syncs_of(copy_flow.target, name, [topic_name])} == {0, 9}


def test_no_sync_is_written_when_none_are_wanted(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(10))
    running = copy_flow.copy(topic_name, emit_offset_syncs=False)
    assert syncs_of(copy_flow.source, running.settings.offset_syncs_topic, [topic_name]) == []


def test_records_are_copied_where_offset_syncs_cannot_be_written(
    copy_flow: CopyFlow, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twinlog.copier.offset_writers.LOG_AFTER_S", 0.2)
    copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(10))
    # Nobody has created this one.
    running = copy_flow.start(topic_name, separator=f"-{topic_name[-5:]}-")
    assert "does not exist" in running.wait_for_event("syncs")
    produce(copy_flow.source, topic_name, numbered(10, start=10))
    running.wait_for_position(topic_name, 20)
    name = create_topic(copy_flow.source, running.settings.offset_syncs_topic)
    wait_for(lambda: 19 in [sync.upstream for sync in syncs_of(copy_flow.source, name, [topic_name])], 60, "synced")
    # What could not be written then is there now.
    assert next(sync.upstream for sync in syncs_of(copy_flow.source, name, [topic_name])) == 0
    running.release()


def test_groups_before_records_that_the_source_deleted_stay_exact_after_a_restart(
    copy_flow: CopyFlow, topic_name: str
) -> None:
    """Their copies are on the target, until the target deletes them as well."""
    remote = copy_flow.create(topic_name)
    for number in range(9):
        produce(copy_flow.source, topic_name, numbered(5, start=number * 5))
        produce(copy_flow.target, remote, [NewRecord(b"theirs %d" % number)])
        copy_flow.copy(topic_name)
    copies = Oracle(copy_flow, topic_name).copies
    delete_records(copy_flow.source, topic_name, 22)

    def places() -> list[Translation[TargetOffset] | None]:
        """By a driver that starts now."""
        settings = flow_settings(copy_flow.source, copy_flow.target)
        with connected_admins(settings) as (source, target):
            translator = Translator(settings, source, target)
            translator.refresh()
            return [translator.to_target(part(topic_name), offset) for offset, _ in copies]

    exact = [Translation(TargetOffset(there), True) for _, there in copies]
    copy_flow.maps.read()
    assert copy_flow.maps.join_segments({part(topic_name): 22}) > 0
    assert places() == exact
    delete_records(copy_flow.target, remote, exact[12].offset)
    produce(copy_flow.source, topic_name, numbered(5, start=45))
    for _ in range(18):
        copy_flow.copy(topic_name)
    copy_flow.maps.read()
    assert copy_flow.maps.join_segments({part(topic_name): 22}) > 0
    assert places()[12:] == exact[12:]
    known = copy_flow.maps.maps.map(part(topic_name))
    assert known is not None
    assert known.to_target(2) is None


def test_old_segments_are_tidied_away(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name)
    for number in range(9):
        produce(copy_flow.source, topic_name, numbered(5, start=number * 5))
        copy_flow.copy(topic_name)
    copy_flow.translator.refresh()
    assert copy_flow.maps.join_segments({part(topic_name): 0}) > 0
    latest: dict[bytes | None, bytes | None] = {}
    for one in consume(copy_flow.target, segments_topic(SOURCE)):
        if one.key is not None and topic_name.encode() in one.key:
            latest[one.key] = one.value
    assert sum(value is not None for value in latest.values()) <= 2
    assert check_all(copy_flow, topic_name) == 0
    assert not copy_flow.translator.looked_at_syncs, "months of them are not read for nothing"
