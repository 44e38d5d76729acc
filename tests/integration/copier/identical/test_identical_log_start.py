"""Copies with the offsets of their sources, while retention and DeleteRecords move the begin of the source log."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import closing, suppress

import pytest
from confluent_kafka import KafkaException

from harness.cluster import KafkaCluster
from harness.produce import NewRecord, numbered, produce
from harness.topics import delete_records, offsets, set_topic_config
from harness.wait import wait_for
from tests.integration.copier.identical.test_identical_transactions import HOW, require_same, transactions
from tests.integration.copying import DEADLINE_S, CopyFlow

PARTITIONS = 3


def wait_until_same_begin(flow: CopyFlow, topic: str, partitions: int = 1) -> None:
    """Wait until each remote log begins at the offset of its source."""

    def same() -> bool:
        # A partition may be without a leader for a moment.
        with suppress(KafkaException):
            return all(
                offsets(flow.target, flow.remote(topic), number)[0] == offsets(flow.source, topic, number)[0]
                for number in range(partitions)
            )
        return False

    wait_for(same, DEADLINE_S, "the remote logs begin as their sources")


def test_records_that_an_operator_deletes(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(300), per_batch=7)
    running = copy_flow.start(topic_name, **HOW)
    copy_flow.wait_until_caught_up(running, topic_name)
    # Nothing is written meanwhile.
    for begin in (101, 300):
        delete_records(copy_flow.source, topic_name, begin)
        wait_until_same_begin(copy_flow, topic_name)
        assert offsets(copy_flow.target, remote) == (begin, 300)
    produce(copy_flow.source, topic_name, numbered(50))
    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()
    assert (running.heard.held, running.heard.events) == ([], [])
    require_same(copy_flow, topic_name)

    # The next copier makes up for the time without a copier.
    delete_records(copy_flow.source, topic_name, 320)
    running = copy_flow.start(topic_name, **HOW)
    wait_until_same_begin(copy_flow, topic_name)
    running.release()
    require_same(copy_flow, topic_name)


def test_retention_of_the_source(copy_flow: CopyFlow, topic_name: str, chance: random.Random) -> None:
    remote = copy_flow.create(topic_name, config={"segment.bytes": "1048576"})
    running = copy_flow.start(topic_name, **HOW)
    for _ in range(4):
        produce(copy_flow.source, topic_name, (NewRecord(chance.randbytes(10_000)) for _ in range(100)))
    copy_flow.wait_until_caught_up(running, topic_name)
    assert offsets(copy_flow.target, remote)[0] == 0
    set_topic_config(copy_flow.source, topic_name, {"retention.bytes": "1500000", "segment.bytes": "1048576"})
    wait_for(lambda: offsets(copy_flow.source, topic_name)[0] > 0, DEADLINE_S, "retention deletes records")
    wait_until_same_begin(copy_flow, topic_name)
    running.release()
    assert running.heard.held == []
    require_same(copy_flow, topic_name)


@pytest.mark.scenario
def test_killed_while_the_begin_moves(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str], chance: random.Random
) -> None:
    """Also inside of transactions, which are open on the target."""
    copy_flow.create(topic_name, PARTITIONS)
    with transactions(copy_flow.source, topic_name, PARTITIONS, [new_name("tx"), new_name("tx")], chance):
        for _ in range(5):
            child = copy_flow.start_child(topic_name, position_interval_ms=1000, **HOW)
            time.sleep(chance.uniform(1, 3))
            for number in range(PARTITIONS):
                copied = offsets(copy_flow.target, copy_flow.remote(topic_name), number)[1]
                delete_records(copy_flow.source, topic_name, chance.randrange(copied + 1), number)
            time.sleep(chance.uniform(0, 6))
            child.kill()
    running = copy_flow.start(topic_name, **HOW)
    copy_flow.wait_until_caught_up(running, topic_name)
    wait_until_same_begin(copy_flow, topic_name, PARTITIONS)
    running.release()
    assert running.heard.held == []
    require_same(copy_flow, topic_name, PARTITIONS)


@pytest.mark.scenario
def test_replicas_and_a_leader_that_dies(source_cluster: KafkaCluster, topic_name: str, chance: random.Random) -> None:
    config = {"min.insync.replicas": "2"}
    with (
        KafkaCluster("replicas", 3, sasl=False, heap="256m", config=config) as target,
        closing(CopyFlow(source_cluster, target)) as flow,
    ):
        flow.create(topic_name, PARTITIONS)
        for number in range(PARTITIONS):
            produce(source_cluster, topic_name, numbered(300), partition=number)
        running = flow.start(topic_name, **HOW)
        flow.wait_until_caught_up(running, topic_name)
        for node in (1, 2, 3):
            target.kill(node)
            for number in range(PARTITIONS):
                begin = offsets(source_cluster, topic_name, number)[0]
                delete_records(source_cluster, topic_name, begin + chance.randrange(1, 100), number)
                produce(source_cluster, topic_name, numbered(20), partition=number)
            time.sleep(chance.uniform(0, 8))
            target.restart(node)
            wait_until_same_begin(flow, topic_name, PARTITIONS)
        flow.wait_until_caught_up(running, topic_name)
        running.release()
        assert running.heard.held == []
        require_same(flow, topic_name, PARTITIONS)


def test_records_of_applications_that_have_moved_stay(copy_flow: CopyFlow, topic_name: str) -> None:
    """Applications write to the target, and an operator empties the old source while the flow still runs."""
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(100))
    running = copy_flow.start(topic_name, **HOW)
    copy_flow.wait_until_caught_up(running, topic_name)
    produce(copy_flow.target, remote, numbered(3))
    delete_records(copy_flow.source, topic_name, 100)
    held = running.wait_for_held()
    assert (held.reason, held.message_id, held.source_offset) == ("diverged", "TW-IDENT-01", 100)
    running.release()
    assert offsets(copy_flow.target, remote) == (0, 103)
