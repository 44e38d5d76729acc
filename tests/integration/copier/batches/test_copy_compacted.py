"""Compacted topics: batches with holes, without records, and with a delete horizon in place of their base timestamp."""

from __future__ import annotations

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import Codec, NewRecord, produce
from harness.wait import wait_for
from tests.integration.copying import CopyFlow
from tests.integration.records import seen
from tests.integration.segments import StoredBatch, stored_batches

# A segment ends before a record that is ten minutes younger than its first one, and only ended ones are cleaned.
CLEANED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "60000",
    "segment.bytes": "1048576",
}
BEGIN_MS = 1_700_000_000_000
SEGMENT_MS = 600_000


def write_segments(cluster: KafkaCluster, topic: str, codec: Codec) -> None:
    """Five segments in which keys are written over, deleted, and brought back."""
    for segment in range(5):
        records = [
            NewRecord(
                None if key % 7 == segment else b"%d in segment %d" % (key, segment) + b"." * 300,
                b"key-%02d" % key,
                (("segment", b"%d" % segment),),
                BEGIN_MS + segment * SEGMENT_MS + key,
            )
            for key in range(segment * 8, 60)
        ]
        # A producer's last batch stays, even when no record of it does: it keeps the producer's sequence number.
        produce(cluster, topic, records, codec=codec, per_batch=9, idempotent=segment == 1)
    # Nothing in the last segment is cleaned.
    produce(cluster, topic, [NewRecord(b"end", b"end", (), BEGIN_MS + 5 * SEGMENT_MS)])


def wait_until_cleaned(cluster: KafkaCluster, topic: str) -> list[StoredBatch]:
    """Wait until all but the last of each key's records have gone from the ended segments."""

    def cleaned() -> list[StoredBatch]:
        batches = stored_batches(cluster, topic)
        return batches if sum(batch.count for batch in batches) == 61 else []

    return wait_for(cleaned, 60, f"{topic} is compacted")


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_compacted_topic_is_copied_with_its_tombstones(copy_flow: CopyFlow, topic_name: str, codec: Codec) -> None:
    remote = copy_flow.create(topic_name, config=CLEANED, remote_config={"cleanup.policy": "compact"})
    write_segments(copy_flow.source, topic_name, codec)
    made = wait_until_cleaned(copy_flow.source, topic_name)
    assert any(not batch.dense and batch.count for batch in made)
    assert any(batch.count == 0 for batch in made)
    assert any(batch.delete_horizon for batch in made)

    running = copy_flow.start(topic_name)
    copy_flow.wait_until_caught_up(running, topic_name)
    assert running.lag(topic_name) == 0
    running.release()

    copies = consume(copy_flow.target, remote)
    assert seen(copies) == seen(consume(copy_flow.source, topic_name))
    assert sum(one.value is None for one in copies) > 5
    assert [one.offset for one in copies] == list(range(61))
    after = stored_batches(copy_flow.target, remote)
    assert all(batch.dense and not batch.delete_horizon for batch in after)
    assert {batch.codec for batch in after} == {batch.codec for batch in made if batch.count}


def test_a_topic_compacted_while_it_is_copied_ends_with_the_same_values(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name, config=CLEANED, remote_config=CLEANED)
    running = copy_flow.start(topic_name)
    write_segments(copy_flow.source, topic_name, "lz4")
    copy_flow.wait_until_caught_up(running, topic_name)
    wait_until_cleaned(copy_flow.source, topic_name)
    wait_until_cleaned(copy_flow.target, remote)
    produce(copy_flow.source, topic_name, [NewRecord(b"later", b"end")])
    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()
    assert running.heard.failures == []
    assert running.heard.events == []

    assert seen(consume(copy_flow.target, remote)) == seen(consume(copy_flow.source, topic_name))
