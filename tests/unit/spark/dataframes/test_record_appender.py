"""What a task knows of its appends when it has failed: which of them may still arrive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import virtual_loop
from harness.virtual.requests import PRODUCE
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ClientSettings, ProducerSettings
from twinlog.spark.dataframes.record_appender import RecordAppender

PARTS = [TopicPartition(TopicName("rows"), number) for number in range(2)]


@pytest.fixture
def cluster() -> Iterator[VirtualCluster]:
    with virtual_loop(1) as loop:
        made = VirtualCluster(loop, "west")
        made.create("rows", 2)
        yield made


@pytest.fixture
def appender(cluster: VirtualCluster) -> Iterator[RecordAppender]:
    client = ClusterClient(cluster.loop, "west", ClientSettings(cluster.bootstrap, request_timeout_ms=3_000))
    cluster.loop.run(client.connect)
    made = RecordAppender(
        client, ProducerSettings(client.settings, delivery_timeout_ms=120_000), ProducerIdentity(7, 0), None
    )
    made.partitions(TopicName("rows"))
    yield made
    client.close()


def append(appender: RecordAppender, partition: TopicPartition) -> None:
    appender.append(partition, encode_batch([(0, record_body(None, b"value"))]), 1)


def test_answers_are_waited_for(cluster: VirtualCluster, appender: RecordAppender) -> None:
    cluster.fault(PRODUCE, Fault(delay_s=1.0, done=True))
    for part in PARTS:
        append(appender, part)
    cluster.loop.run(cluster.loop.sleep, 0.1)
    appender.close()
    began = cluster.now()
    assert cluster.loop.run(appender.wait_for_answers, 10.0) == []
    assert 0.5 < cluster.now() - began < 2


def test_a_task_waits_while_too_much_is_on_its_way(
    cluster: VirtualCluster, appender: RecordAppender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twinlog.spark.dataframes.record_appender.MOST_BYTES", 10)
    cluster.fault(PRODUCE, Fault(delay_s=3.0, done=True))
    began = cluster.now()
    append(appender, PARTS[0])
    assert cluster.now() - began >= 1
    appender.close()


def test_what_nobody_answered_may_still_arrive(cluster: VirtualCluster, appender: RecordAppender) -> None:
    append(appender, PARTS[0])
    cluster.loop.run(cluster.loop.sleep, 0.1)
    cluster.fault(PRODUCE, Fault(lost=True), times=5)
    append(appender, PARTS[1])
    cluster.loop.run(cluster.loop.sleep, 0.1)
    appender.close()
    assert cluster.loop.run(appender.wait_for_answers, 10.0) == [PARTS[1]]


def test_what_nobody_takes_is_said_long_before_it_fails_and_that_it_is_taken_again(
    cluster: VirtualCluster, appender: RecordAppender, caplog: pytest.LogCaptureFixture
) -> None:
    """Else a query stands still for as long as `delivery.timeout.ms`, and no log says why."""
    append(appender, PARTS[0])
    cluster.loop.run(cluster.loop.sleep, 5)
    assert not caplog.records
    cluster.fault(PRODUCE, Fault(lost=True), times=40)
    append(appender, PARTS[1])
    cluster.loop.run(cluster.loop.sleep, 60)
    appender.flush()
    appender.close()
    said = [
        record.getMessage() for record in caplog.records if record.name == "twinlog.spark.dataframes.record_appender"
    ]
    assert said == [
        "TW-DATA-06: rows-1 accept no records, waiting for up to kafka.delivery.timeout.ms = 120000: no answer",
        "TW-DATA-06: all partitions accept records again",
    ]
