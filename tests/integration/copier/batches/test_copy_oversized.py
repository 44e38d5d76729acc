"""Batches and records that are too large for the remote topic, known before or found out by the target's refusal."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from harness.consume import consume
from harness.produce import Codec, NewRecord, produce
from harness.topics import offsets, set_topic_config
from tests.integration.copying import CopyFlow, RunningCopier
from tests.integration.records import seen
from tests.integration.segments import stored_batches
from twinlog.errors import RecordTooLargeError

LIMIT = 50_000
LIMITED = {"max.message.bytes": str(LIMIT)}
LARGE = {"max.message.bytes": "4000000"}


def noise(*sizes: int, start: int = 0) -> list[NewRecord]:
    """Numbered records that no codec makes smaller."""
    numbers = random.Random(len(sizes))
    return [NewRecord(b"%06d" % number + numbers.randbytes(size - 6)) for number, size in enumerate(sizes, start)]


def assert_copied(flow: CopyFlow, topic: str, *, without: Sequence[int] = ()) -> None:
    """The remote topic holds the source's records in order, except those at some source offsets."""
    before = [one for one in consume(flow.source, topic) if one.offset not in without]
    assert seen(consume(flow.target, flow.remote(topic))) == seen(before)


def largest_batch(flow: CopyFlow, topic: str) -> int:
    """Bytes of the remote topic's largest batch."""
    return max(batch.size for batch in stored_batches(flow.target, flow.remote(topic)))


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_batch_above_the_limit_is_split(copy_flow: CopyFlow, topic_name: str, codec: Codec) -> None:
    copy_flow.create(topic_name, config=LARGE, remote_config=LIMITED)
    produce(copy_flow.source, topic_name, noise(*[9_000] * 40), codec=codec, per_batch=40)
    (made,) = stored_batches(copy_flow.source, topic_name)
    assert made.size > 6 * LIMIT

    copy_flow.copy(topic_name)

    assert_copied(copy_flow, topic_name)
    assert largest_batch(copy_flow, topic_name) <= LIMIT
    # The fewest batches that can hold them are eight; halving makes no more than sixteen.
    assert len(stored_batches(copy_flow.target, copy_flow.remote(topic_name))) <= 16


def test_a_batch_that_grows_above_the_limit_without_its_codec_is_split(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name, remote_config=LIMITED)
    records = [NewRecord(b"%06d" % number + b"." * 9_000) for number in range(40)]
    produce(copy_flow.source, topic_name, records, codec="zstd", per_batch=40)
    (made,) = stored_batches(copy_flow.source, topic_name)
    assert made.size < LIMIT

    copy_flow.copy(topic_name, producer={"compression_type": "none"})

    assert_copied(copy_flow, topic_name)
    assert largest_batch(copy_flow, topic_name) <= LIMIT


@pytest.mark.parametrize("per_batch", [1, 5])
def test_the_flow_stops_on_a_record_above_the_limit(copy_flow: CopyFlow, topic_name: str, per_batch: int) -> None:
    remote = copy_flow.create(topic_name, 2, config=LARGE, remote_config=LIMITED)
    produce(copy_flow.source, topic_name, noise(100, 100, 60_000, 100, 100), per_batch=per_batch)
    produce(copy_flow.source, topic_name, noise(100, 100), partition=1)

    running = copy_flow.start(topic_name, oversized_record_policy="stop")
    partition, error = running.wait_for_failure()

    assert partition == (topic_name, 0)
    assert isinstance(error, RecordTooLargeError)
    assert error.source_offset == 2
    assert error.limit == LIMIT
    assert 60_000 < error.size < 60_200
    for word in (f"{topic_name}-0", f"{remote}-0", "source offset 2", str(LIMIT), "max.message.bytes", "skip"):
        assert word in str(error)
    # The other partition does not stop, and this one has not gone past the record.
    produce(copy_flow.source, topic_name, noise(100, 100, start=2), partition=1)
    running.heard.failures.clear()
    running.wait_for_position(topic_name, 4, 1)
    released = running.release()
    assert {part.partition: position.next_source for part, position in released.items()} in ({0: 2, 1: 4}, {0: 0, 1: 4})
    assert offsets(copy_flow.target, remote)[1] == released[partition].next_source


def test_by_policy_a_record_above_the_limit_is_left_out_with_a_note(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name, config=LARGE, remote_config=LIMITED)
    produce(copy_flow.source, topic_name, noise(100, 60_000, 100, 200, 300, 40_000, 70_000), per_batch=3)

    running = copy_flow.copy(topic_name, oversized_record_policy="skip")

    assert_copied(copy_flow, topic_name, without=[1, 6])
    texts = running.events("oversized")
    assert len(texts) == 2
    assert f"{topic_name}-0" in texts[0]
    assert "source offset 1 " in texts[0]
    assert "source offset 6 " in texts[1]
    stored = copy_flow.stored(topic_name)
    assert stored is not None
    assert (stored.next_source, stored.next_target) == (7, 5)


def copied_under_a_lower_limit(copy_flow: CopyFlow, topic: str, records: list[NewRecord], **how: int) -> RunningCopier:
    """Lower the remote topic's limit while a copier runs, then write records; the copier knows the old limit only."""
    remote = copy_flow.create(topic, config=LARGE)
    produce(copy_flow.source, topic, noise(100_000))
    running = copy_flow.start(topic)
    copy_flow.wait_until_caught_up(running, topic)
    set_topic_config(copy_flow.target, remote, LIMITED)
    produce(copy_flow.source, topic, records, **how)  # type: ignore[arg-type]
    return running


def test_batches_are_split_when_the_target_refuses_them(copy_flow: CopyFlow, topic_name: str) -> None:
    records = noise(*[5_000] * 200, start=1)
    running = copied_under_a_lower_limit(copy_flow, topic_name, records, per_batch=40)
    assert [batch.size > LIMIT for batch in stored_batches(copy_flow.source, topic_name)] == [True] * 6

    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()

    assert running.heard.events == []
    assert_copied(copy_flow, topic_name)
    assert max(batch.size for batch in stored_batches(copy_flow.target, copy_flow.remote(topic_name))[1:]) <= LIMIT


def test_a_refused_batch_of_one_large_and_small_records_is_split(copy_flow: CopyFlow, topic_name: str) -> None:
    running = copied_under_a_lower_limit(copy_flow, topic_name, noise(3_000, 48_000, 3_000, start=1), per_batch=3)
    assert stored_batches(copy_flow.source, topic_name)[1].count == 3

    copy_flow.wait_until_caught_up(running, topic_name)

    assert_copied(copy_flow, topic_name)


def test_refused_while_nothing_is_acknowledged_yet(copy_flow: CopyFlow, topic_name: str) -> None:
    # A broker takes any first sequence number of a producer it does not know: what follows a refused batch must not
    # overtake it.
    copy_flow.create(topic_name, config=LARGE, remote_config=LIMITED)
    for start in range(0, 100, 20):
        produce(copy_flow.source, topic_name, noise(*[5_000] * 17, start=start), per_batch=17)
        produce(copy_flow.source, topic_name, noise(*[7_000] * 3, start=start + 17), per_batch=3)
    sizes = [batch.size for batch in stored_batches(copy_flow.source, topic_name)]
    assert [size > LIMIT for size in sizes] == [True, False] * 5

    running = copy_flow.start(topic_name, max_batch_bytes=1_000_000)
    copy_flow.wait_until_caught_up(running, topic_name)

    assert_copied(copy_flow, topic_name)
    assert running.heard.events == []


def test_a_partition_is_held_at_a_record_that_the_target_refuses(copy_flow: CopyFlow, topic_name: str) -> None:
    running = copied_under_a_lower_limit(copy_flow, topic_name, noise(3_000, 60_000, 3_000, start=1), per_batch=3)

    held = running.wait_for_held()

    assert (held.source, held.reason) == ((topic_name, 0), "oversized record")
    assert (held.source_offset, held.target_offset) == (2, 2)
    for word in (copy_flow.remote(topic_name), "source offset 2", "max.message.bytes"):
        assert word in f"{held.text}; {held.way_out}"
    assert running.release()[held.source].next_source == 2
    assert_copied(copy_flow, topic_name, without=[2, 3])


def test_by_policy_a_record_that_the_target_refuses_is_left_out(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name, config=LARGE, remote_config=LIMITED)
    produce(copy_flow.source, topic_name, noise(60_000, 3_000, 3_000, 70_000, 3_000, 80_000), per_batch=6)

    running = copy_flow.copy(topic_name, max_batch_bytes=1_000_000, oversized_record_policy="skip")

    assert_copied(copy_flow, topic_name, without=[0, 3, 5])
    assert [text.split(" at source offset ")[1].split()[0] for text in running.events("oversized")] == ["0", "3", "5"]
    stored = copy_flow.stored(topic_name)
    assert stored is not None
    assert (stored.next_source, stored.next_target) == (6, 3)


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_a_limit_that_was_raised_meanwhile_counts(copy_flow: CopyFlow, topic_name: str, policy: str) -> None:
    remote = copy_flow.create(topic_name, config=LARGE, remote_config=LIMITED)
    produce(copy_flow.source, topic_name, noise(100))
    running = copy_flow.start(topic_name, oversized_record_policy=policy)
    copy_flow.wait_until_caught_up(running, topic_name)

    set_topic_config(copy_flow.target, remote, LARGE)
    produce(copy_flow.source, topic_name, noise(100, 60_000, 100, start=1), per_batch=3)
    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()

    assert running.heard.events == []
    assert_copied(copy_flow, topic_name)


def test_a_record_waits_for_a_limit_that_follows_its_source(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name, config=LIMITED, remote_config=LIMITED)
    running = copy_flow.start(topic_name, sync_topic_configs_interval_s=30.0)
    set_topic_config(copy_flow.source, topic_name, LARGE)
    produce(copy_flow.source, topic_name, noise(100, 60_000))

    assert f"{remote} takes {LIMIT} bytes and {topic_name} 4000000" in running.wait_for_event("limit")
    assert running.heard.failures == []
    # What the driver does on this event.
    set_topic_config(copy_flow.target, remote, LARGE)
    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()

    assert_copied(copy_flow, topic_name)
