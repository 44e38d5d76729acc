"""Copies with the offsets of their sources: transactions that end in either way and overlap, compaction, kill -9."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from harness.acls import Acl, create_acls
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.topics import delete_records, offsets
from harness.wait import wait_for
from tests.connected_admins import plain_login
from tests.integration.copier.batches.test_copy_compacted import CLEANED, wait_until_cleaned, write_segments
from tests.integration.copier.batches.test_copy_transactions import LEVELS, wait_until_marked
from tests.integration.copying import DEADLINE_S, CopyFlow, RunningCopier, flow_settings
from tests.integration.segments import stored_batches
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ProducerSettings

HOW: dict[str, Any] = {"offsets": "identical", "consumer": {"isolation_level": "read_committed"}}


class SourceTransactions:
    """A transactional producer of any partition; a record is a batch of its own."""

    def __init__(self, cluster: KafkaCluster, topic: str, transactional_id: str) -> None:
        self._topic = topic
        self._producer = Producer({**cluster.client_config(), "transactional.id": transactional_id, "linger.ms": 0})
        self._producer.init_transactions(DEADLINE_S)
        self.open = False

    def write(self, value: bytes, partition: int = 0, *, flush: bool = True) -> None:
        if not self.open:
            self._producer.begin_transaction()
            self.open = True
        self._producer.produce(self._topic, value, b"key", partition)
        if flush:
            assert self._producer.flush(DEADLINE_S) == 0

    def end(self, *, commit: bool) -> None:
        if self.open:
            (self._producer.commit_transaction if commit else self._producer.abort_transaction)(DEADLINE_S)
            self.open = False


def require_same(flow: CopyFlow, topic: str, partitions: int = 1) -> None:
    """Consumers of both isolation levels see the same records at the same offsets, and the logs have the same ends."""
    remote = flow.remote(topic)
    for number in range(partitions):
        assert offsets(flow.target, remote, number) == offsets(flow.source, topic, number)
    for isolation in LEVELS:
        copies, originals = (
            [(one.partition, one.offset, one.content) for one in consume(cluster, name, isolation=isolation)]
            for cluster, name in ((flow.target, remote), (flow.source, topic))
        )
        assert copies == originals


def wait_until_ended(cluster: KafkaCluster, topic: str, partitions: int = 1) -> None:
    """Markers are written after the coordinator has answered: wait until no transaction is open."""

    def ended() -> bool:
        for number in range(partitions):
            still_open: set[int] = set()
            for batch in stored_batches(cluster, topic, number):
                if batch.control:
                    still_open.discard(batch.producer_id)
                elif batch.transactional:
                    still_open.add(batch.producer_id)
            if still_open:
                return False
        return True

    wait_for(ended, DEADLINE_S, f"{topic} has no open transaction")


def write_any(cluster: KafkaCluster, topic: str, chance: random.Random, producers: list[SourceTransactions]) -> None:
    for number in range(60):
        one = chance.choice(producers)
        drawn = chance.random()
        if drawn < 0.25:
            produce(cluster, topic, numbered(chance.choice([1, 5]), size=50))
        elif drawn < 0.8:
            one.write(b"%d" % number)
        else:
            one.end(commit=chance.random() < 0.5)
    for one in producers:
        one.end(commit=chance.random() < 0.5)
    wait_until_ended(cluster, topic)


@pytest.mark.parametrize("trimmed", [0, 15], ids=["whole", "trimmed"])
def test_transactions_that_overlap(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str], chance: random.Random, trimmed: int
) -> None:
    remote = copy_flow.create(topic_name)
    producers = [SourceTransactions(copy_flow.source, topic_name, new_name("tx")) for _ in range(3)]
    write_any(copy_flow.source, topic_name, chance, producers)
    if trimmed:
        delete_records(copy_flow.source, topic_name, trimmed)
    running = copy_flow.start(topic_name, **HOW)
    copy_flow.wait_until_caught_up(running, topic_name)
    require_same(copy_flow, topic_name)
    write_any(copy_flow.source, topic_name, chance, producers)
    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()
    assert running.heard.held == []
    require_same(copy_flow, topic_name)
    made = stored_batches(copy_flow.target, remote)
    assert any(batch.transactional and not batch.control for batch in made)
    assert any(batch.control for batch in made)


def test_a_compacted_topic(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name, config=CLEANED, remote_config={"cleanup.policy": "compact"})
    write_segments(copy_flow.source, topic_name, "zstd")
    made = wait_until_cleaned(copy_flow.source, topic_name)
    assert any(not batch.dense and batch.count for batch in made)
    running = copy_flow.copy(topic_name, **HOW)
    assert running.heard.held == []
    require_same(copy_flow, topic_name)


@contextmanager
def transactions(
    cluster: KafkaCluster, topic: str, partitions: int, ids: list[str], chance: random.Random
) -> Iterator[None]:
    """Transactions of two producers over all partitions, and plain records, until the end of the block."""
    over = threading.Event()
    producers = [SourceTransactions(cluster, topic, one) for one in ids]
    plain = Producer({**cluster.client_config(), "linger.ms": 0})
    seeds = [random.Random(chance.random()) for _ in producers]

    def write(one: SourceTransactions, drawn: random.Random) -> None:
        number = 0
        while not over.is_set():
            for _ in range(drawn.randrange(1, 6)):
                one.write(b"%d" % number, drawn.randrange(partitions), flush=drawn.random() < 0.3)
                number += 1
            if drawn.random() < 0.3:
                plain.produce(topic, b"plain %d" % number, partition=drawn.randrange(partitions))
                plain.poll(0)
            one.end(commit=drawn.random() < 0.6)
            time.sleep(0.01)
        one.end(commit=False)

    threads = [threading.Thread(target=write, args=pair) for pair in zip(producers, seeds, strict=True)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert plain.flush(DEADLINE_S) == 0
    wait_until_ended(cluster, topic, partitions)


def test_killed_again_and_again(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str], chance: random.Random
) -> None:
    partitions = 3
    copy_flow.create(topic_name, partitions)
    with transactions(copy_flow.source, topic_name, partitions, [new_name("tx"), new_name("tx")], chance):
        for _ in range(8):
            child = copy_flow.start_child(topic_name, position_interval_ms=1000, **HOW)
            time.sleep(chance.uniform(0.7, 2.5))
            child.kill()
    running = copy_flow.copy(topic_name, **HOW)
    assert running.heard.held == []
    require_same(copy_flow, topic_name, partitions)


def test_a_transaction_at_the_end_of_the_log(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str]
) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(3, size=40), transactional_id=new_name("tx"))
    produce(copy_flow.source, topic_name, numbered(3, size=40), transactional_id=new_name("tx"), abort=True)
    wait_until_marked(copy_flow.source, topic_name, 2)
    running = copy_flow.copy(topic_name, **HOW)
    require_same(copy_flow, topic_name)
    assert offsets(copy_flow.target, remote) == (0, 8)
    # The next copier begins after a marker.
    produce(copy_flow.source, topic_name, numbered(3, size=40))
    copy_flow.copy(topic_name, **HOW)
    require_same(copy_flow, topic_name)
    assert running.heard.held == []


def test_an_aborted_transaction_waits_for_an_open_transaction_before_its_marker(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str]
) -> None:
    """The target would abort its copy by itself, at another offset, if the other transaction stayed open for long."""
    remote = copy_flow.create(topic_name)
    one, other = (SourceTransactions(copy_flow.source, topic_name, new_name("tx")) for _ in range(2))
    produce(copy_flow.source, topic_name, numbered(1, size=40))
    one.write(b"aborted")
    other.write(b"open")
    one.end(commit=False)
    running = copy_flow.start(topic_name, **HOW)
    running.wait_for_position(topic_name, 1)
    time.sleep(2)
    assert offsets(copy_flow.target, remote) == (0, 1)
    other.end(commit=True)
    wait_until_ended(copy_flow.source, topic_name)
    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()
    assert running.heard.held == []
    require_same(copy_flow, topic_name)


def test_the_rights_for_markers_and_aborted_records(
    source_cluster: KafkaCluster, topic_name: str, new_name: Callable[[str], str]
) -> None:
    """ALTER on the cluster is enough for markers, and only topics with transactions need it."""
    user, plain = "User:mirrormaker", new_name("plain")
    with KafkaCluster("guarded", acls=True, heap="256m") as target, closing(CopyFlow(source_cluster, target)) as flow:
        for name in (topic_name, plain):
            flow.create(name)
            produce(source_cluster, name, numbered(3, size=40))
        produce(source_cluster, topic_name, numbered(3, size=40), transactional_id=new_name("tx"))
        produce(source_cluster, topic_name, numbered(3, size=40), transactional_id=new_name("tx"), abort=True)
        wait_until_marked(source_cluster, topic_name, 2)
        create_acls(target, [Acl("*", user, "ALL")])
        held, copied = copied_by_mirrormaker(flow, topic_name, plain)
        assert (held.reason, held.source_offset, copied) == ("missing right", 6, 3)
        assert "User:mirrormaker lacks ALTER on the cluster" in held.text

        create_acls(target, [Acl("kafka-cluster", user, "ALTER", resource="BROKER")])
        held, copied = copied_by_mirrormaker(flow, topic_name, plain)
        assert (held.reason, held.source_offset, copied) == ("missing right", 7, 3)
        assert "User:mirrormaker lacks WRITE on transactional id " in held.text

        create_acls(target, [Acl("*", user, "WRITE", resource="TRANSACTIONAL_ID")])
        held, copied = copied_by_mirrormaker(flow, topic_name, plain)
        assert (held, copied) == (None, 3)
        require_same(flow, topic_name)


def test_brokers_that_refuse_long_transactions_hold_one_topic(
    source_cluster: KafkaCluster, topic_name: str, new_name: Callable[[str], str]
) -> None:
    plain = new_name("plain")
    config = {"transaction.max.timeout.ms": "10000"}
    with (
        KafkaCluster("short", sasl=False, heap="256m", config=config) as target,
        closing(CopyFlow(source_cluster, target)) as flow,
    ):
        for name in (topic_name, plain):
            flow.create(name)
            produce(source_cluster, name, numbered(3, size=40))
        produce(source_cluster, topic_name, numbered(3, size=40), transactional_id=new_name("tx"), abort=True)
        wait_until_marked(source_cluster, topic_name, 1)
        running = flow.start(topic_name, plain, **HOW)
        held = running.wait_for_held()
        assert (held.topic, held.message_id, held.source_offset) == (topic_name, "TW-TARGET-10", 3)
        produce(source_cluster, plain, numbered(3, size=40))
        flow.wait_until_caught_up(running, plain)
        running.release()
        assert running.heard.failures == []
        require_same(flow, plain)


def copied_by_mirrormaker(flow: CopyFlow, topic: str, plain: str) -> tuple[Any, int]:
    """Copy two topics with a login; returns the held partition of the first, if any, and the copies of the second."""
    login = plain_login(flow.target, "mirrormaker")
    settings = replace(flow_settings(flow.source, flow.target, **HOW), producer=ProducerSettings(login))
    running = RunningCopier(settings)
    end = offsets(flow.source, topic)[1]

    def copied_or_held() -> bool:
        part = running.copier.partitions.get(TopicPartition(TopicName(topic), 0))
        return bool(running.heard.held) or (part is not None and part.acknowledged.next_source == end)

    try:
        parts = [TopicPartition(TopicName(name), 0) for name in (topic, plain)]
        running.grant([replace(flow.grant(part), drained=False) for part in parts])
        running.wait_for_position(plain, 3)
        wait_for(copied_or_held, DEADLINE_S, "the topic is copied or held")
        assert running.heard.failures == []
        running.release()
    finally:
        running.crash()
    held = running.heard.held
    assert [one.topic for one in held] in ([], [topic])
    return (held[0] if held else None), offsets(flow.target, flow.remote(plain))[1]
