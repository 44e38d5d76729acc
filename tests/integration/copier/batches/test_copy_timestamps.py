"""Timestamps: a copy carries the time that a consumer of the source sees, whoever set it."""

from __future__ import annotations

import time

import pytest

from harness.consume import consume
from harness.produce import Codec, produce
from harness.topics import create_topic, topic_config
from harness.wait import wait_for
from tests.integration.copying import CopyFlow, flow_settings
from tests.integration.flows.mirroring import mirror_topics
from tests.integration.records import lively
from tests.integration.segments import SMALL_BATCH_BYTES, stored_batches


def wait_for_the_clock(now_ms: int) -> None:
    """Until a broker on this machine would use a later time."""
    wait_for(lambda: time.time() * 1000 > now_ms + 1, 60, f"it is later than {now_ms}")


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_append_time_becomes_the_time_of_the_record(copy_flow: CopyFlow, topic_name: str, codec: Codec) -> None:
    create_topic(copy_flow.source, topic_name, config={"message.timestamp.type": "LogAppendTime"})
    assert mirror_topics(flow_settings(copy_flow.source, copy_flow.target, topics=(topic_name,))) == {}
    remote = copy_flow.remote(topic_name)
    assert topic_config(copy_flow.target, remote) == {}
    for part in range(3):
        produce(copy_flow.source, topic_name, lively(40 + part, size=1200), codec=codec, per_batch=50)
        wait_for_the_clock(consume(copy_flow.source, topic_name)[-1].timestamp)
    made = stored_batches(copy_flow.source, topic_name)
    assert [(batch.append_time, batch.codec) for batch in made] == [(True, codec)] * 3
    assert all(batch.size > SMALL_BATCH_BYTES for batch in made)

    copy_flow.copy(topic_name)

    before, after = consume(copy_flow.source, topic_name), consume(copy_flow.target, remote)
    assert len({one.timestamp for one in before}) == 3
    assert {one.timestamp_type for one in before} == {"append"}
    assert {one.timestamp_type for one in after} == {"create"}
    assert [one.content[:-1] for one in after] == [one.content[:-1] for one in before]


def test_a_target_with_append_time_sets_its_own(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name, remote_config={"message.timestamp.type": "LogAppendTime"})
    begin_ms = time.time() * 1000
    produce(copy_flow.source, topic_name, lively(100, size=600), per_batch=50)

    copy_flow.copy(topic_name)

    after = consume(copy_flow.target, remote)
    assert {one.timestamp_type for one in after} == {"append"}
    assert min(one.timestamp for one in after) >= int(begin_ms)
    assert [one.content[:-2] for one in after] == [one.content[:-2] for one in consume(copy_flow.source, topic_name)]
