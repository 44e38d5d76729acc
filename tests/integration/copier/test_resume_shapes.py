"""A copier crashes, and the target has changed, hidden or held back what arrived after the stored position."""

from __future__ import annotations

from typing import Literal

import pytest

from harness.consume import consume
from harness.produce import NewRecord, numbered, produce
from harness.quotas import quota
from harness.topics import delete_records, offsets
from harness.wait import wait_for
from tests.integration.copier.test_held import AHEAD_MS, ONE_HOUR
from tests.integration.copying import CopyFlow
from twinlog.settings.per_topic import PerTopic
from twinlog.settings.transform import FailedRecordSettings

NEVER = {"position_interval_ms": 3_600_000}
"""Positions are stored when a partition is taken and when it is released, not in between."""


def values(flow: CopyFlow, topic: str) -> list[int]:
    """The numbers of the records that the remote topic holds."""
    return [int((record.value or b"").rstrip(b".")) for record in consume(flow.target, flow.remote(topic))]


def crash_after_position(flow: CopyFlow, topic: str, count: int) -> None:
    """Copy `count` records and crash, with a stored position that counts none of them."""
    produce(flow.source, topic, numbered(count), per_batch=10)
    running = flow.start(topic, **NEVER)
    running.wait_for_position(topic, count)
    running.crash()
    stored = flow.stored(topic)
    assert stored is not None
    assert stored.next_target == 0


def test_a_topic_that_stamps_its_own_time_is_followed(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name, remote_config={"message.timestamp.type": "LogAppendTime"})
    crash_after_position(copy_flow, topic_name, 500)
    running = copy_flow.copy(topic_name)
    assert running.heard.events == []
    assert values(copy_flow, topic_name) == list(range(500))


@pytest.mark.parametrize("deleted", [200, 207, 300])
def test_what_the_target_deleted_meanwhile_is_not_copied_again(
    copy_flow: CopyFlow, topic_name: str, deleted: int
) -> None:
    remote = copy_flow.create(topic_name)
    crash_after_position(copy_flow, topic_name, 300)
    delete_records(copy_flow.target, remote, deleted)
    produce(copy_flow.source, topic_name, numbered(50, start=300))
    running = copy_flow.copy(topic_name)
    assert running.heard.events == []
    assert offsets(copy_flow.target, remote) == (deleted, 350)
    assert values(copy_flow, topic_name) == list(range(deleted, 350))


@pytest.mark.scenario
def test_what_waits_in_a_throttled_connection_is_not_there_twice(copy_flow: CopyFlow, topic_name: str) -> None:
    """The broker reads the rest of what a dead copier sent only when its time to wait is over."""
    remote = copy_flow.create(topic_name)
    count = 300
    produce(copy_flow.source, topic_name, numbered(count, size=20_000), per_batch=10)
    with quota(copy_flow.target, "twinlog-test-producer", "producer_byte_rate", 200_000):
        for _ in range(3):
            before = offsets(copy_flow.target, remote)[1]
            child = copy_flow.start_child(topic_name, **NEVER)
            wait_for(lambda: offsets(copy_flow.target, remote)[1] >= before + 30, 60, "it copies", every_s=0.02)  # noqa: B023
            child.kill()
        running = copy_flow.start(topic_name)
        running.wait_for_position(topic_name, 200)
    copy_flow.wait_until_caught_up(running, topic_name)
    assert running.heard.events == []
    assert values(copy_flow, topic_name) == list(range(count))


@pytest.mark.parametrize("side", ["source", "target"])
def test_what_is_read_after_a_crash_may_be_throttled(copy_flow: CopyFlow, topic_name: str, side: str) -> None:
    """Over a quota a broker answers without naming a partition: what arrived is not taken for what did not."""
    copy_flow.create(topic_name)
    count = 300
    produce(copy_flow.source, topic_name, numbered(count, size=20_000), per_batch=10)
    running = copy_flow.start(topic_name, **NEVER)
    running.wait_for_position(topic_name, count)
    running.crash()
    clusters = {"source": copy_flow.source, "target": copy_flow.target}
    clients = {"source": "twinlog-test-consumer", "target": "twinlog-test-producer"}
    with quota(clusters[side], clients[side], "consumer_byte_rate", 1_000_000):
        running = copy_flow.start(topic_name)
        copy_flow.wait_until_caught_up(running, topic_name)
    assert running.heard.events == []
    assert values(copy_flow, topic_name) == list(range(count))


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
@pytest.mark.parametrize("kind", ["refused", "oversized"])
def test_records_after_those_that_a_policy_left_out_are_not_copied_again(
    copy_flow: CopyFlow, topic_name: str, kind: str, policy: Literal["skip", "dead-letter"]
) -> None:
    config = ONE_HOUR if kind == "refused" else {"max.message.bytes": "2000"}
    remote = copy_flow.create(topic_name, remote_config=config)
    bad = NewRecord(b"-1", timestamp=AHEAD_MS) if kind == "refused" else NewRecord(b"-" * 5_000)
    good = numbered(40)
    records = [*good[:10], bad, *good[10:20], bad, bad, *good[20:]]
    produce(copy_flow.source, topic_name, records, per_batch=len(records))
    dead = f"{topic_name}-dead" if policy == "dead-letter" else ""
    letters = FailedRecordSettings(tolerance="all", dead_letter_topic=dead, dead_letter_replication_factor=1)
    policies = {f"{kind}_record_policy": PerTopic(policy), "failed_records": letters}
    running = copy_flow.start(topic_name, **NEVER, **policies)
    wait_for(lambda: offsets(copy_flow.target, remote)[1] == 40, 60, "all but those are copied")
    running.crash()
    running = copy_flow.copy(topic_name, **policies)
    assert [event for event in running.heard.events if event[0] == "foreign"] == []
    assert values(copy_flow, topic_name) == list(range(40))
