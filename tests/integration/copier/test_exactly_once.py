"""Copies in transactions: a reader of committed records finds each one once, whatever happens to the copiers."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any

import pytest

from harness.checks.checker import Load, require_clean
from harness.consume import Record, consume
from harness.produce import numbered, produce
from harness.topics import offsets
from harness.wait import wait_for
from tests.integration.copying import CopyFlow, RunningCopier
from tests.integration.mirror.test_translation import check_all
from tests.integration.segments import stored_batches
from twinlog.errors import FencedError, RecordTooLargeError
from twinlog.kafka.fetch_session import Fetched, FetchSession
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicName, TopicPartition

PARTITIONS = 4
COMMITTED = {"isolation_level": "read_committed"}
EXACTLY: Mapping[str, Any] = {"exactly_once": "enabled", "consumer": COMMITTED}


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def committed(running: RunningCopier, topic: str, partition: int = 0) -> Position:
    return running.partition_copy(topic, partition).durable


def wait_until_committed(flow: CopyFlow, running: RunningCopier, topic: str, partition: int = 0) -> Position:
    """Wait until everything that a source partition holds now is committed on the target."""
    end = offsets(flow.source, topic, partition)[1]

    def reached() -> bool:
        return bool(running.heard.failures) or committed(running, topic, partition).next_source >= end

    wait_for(reached, 60, f"{topic}-{partition} is committed up to {end}", every_s=0.005)
    assert running.heard.failures == []
    return committed(running, topic, partition)


def test_records_and_positions_arrive_together(copy_flow: CopyFlow, topic_name: str) -> None:
    flow = copy_flow
    remote = flow.create(topic_name, 2)
    produce(flow.source, topic_name, numbered(100))
    running = flow.copy(topic_name, **EXACTLY)
    assert running.heard.events == []
    require_same(flow, topic_name, remote)
    assert {batch.transactional for batch in stored_batches(flow.target, remote)} == {True}
    # The marker of the transaction counts: that is where the next record will stand.
    stored, other = flow.stored(topic_name, 0), flow.stored(topic_name, 1)
    assert stored is not None
    assert other is not None
    assert (stored.next_source, stored.next_target) == (100, offsets(flow.target, remote)[1])
    assert (other.next_source, other.next_target) == (0, 0)


def require_same(flow: CopyFlow, topic: str, remote: str) -> None:
    assert values(consume(flow.target, remote)) == values(consume(flow.source, topic))


def test_a_record_comes_through_quickly_and_an_idle_copier_writes_nothing(
    copy_flow: CopyFlow, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = copy_flow
    answers: list[int] = []
    fetch = FetchSession.fetch

    async def counted(session: FetchSession, *wanted: Any, **limits: Any) -> list[Fetched]:
        found = await fetch(session, *wanted, **limits)
        answers.append(len(found))
        return found

    monkeypatch.setattr(FetchSession, "fetch", counted)
    remote = flow.create(topic_name)
    # Who waited for a transaction's time to be over would wait here for minutes.
    patient = {"transaction_timeout_ms": 800_000}
    running = flow.start(topic_name, **EXACTLY, transaction_interval_ms=400_000, producer=patient)
    for number in range(20):
        produce(flow.source, topic_name, numbered(1, start=number))
        wait_until_committed(flow, running, topic_name)
    end = offsets(flow.target, flow.positions_topic)[1]
    # Each time the source waits half a second for records, as long as positions wait to be stored.
    before = len(answers)
    wait_for(lambda: len(answers) >= before + 4, 60, "the source had nothing four times")
    assert offsets(flow.target, flow.positions_topic)[1] == end
    running.release()
    require_same(flow, topic_name, remote)


def test_a_copier_crashes_again_and_again(copy_flow: CopyFlow, topic_name: str, chance: random.Random) -> None:
    flow = copy_flow
    remote = flow.create(topic_name, PARTITIONS)

    async def end_in_a_transaction() -> None:
        copier = running.copier
        while not any(part.copied.in_transaction for part in copier.partitions.values()):
            await copier.loop.sleep(0.001)
        copier.stop()

    with Load(flow.source, topic_name, PARTITIONS, rate=4000, codec="lz4"):
        for number in range(10):
            running = flow.start(topic_name, **EXACTLY)
            if number % 2:
                running.run(end_in_a_transaction)
            else:
                time.sleep(chance.uniform(0.05, 0.6))
            assert running.heard.failures == []
            running.crash()
    running = flow.copy(topic_name, **EXACTLY)
    assert running.heard.events == []
    require_clean(flow.source, topic_name, flow.target, remote)
    # Something was aborted, or the crashes came at the wrong moments and show nothing.
    whole = consume(flow.target, remote, isolation="read_uncommitted")
    assert len(whole) > len(consume(flow.target, remote))


def test_a_zombie_is_fenced_and_ends(copy_flow: CopyFlow, topic_name: str) -> None:
    flow = copy_flow
    remote = flow.create(topic_name, PARTITIONS)
    with Load(flow.source, topic_name, PARTITIONS, rate=2000):
        zombie = flow.start(topic_name, **EXACTLY)
        wait_until_committed(flow, zombie, topic_name)
        heir = flow.start(topic_name, **EXACTLY)
        _, error = zombie.wait_for_failure()
        wait_until_committed(flow, heir, topic_name)
    assert isinstance(error, FencedError)
    assert "north-mm2-MirrorSourceConnector-0" in str(error)
    assert "north->south" in str(error)
    assert len(zombie.events("fenced")) == 1
    flow.wait_until_caught_up(heir, topic_name)
    heir.release()
    assert heir.heard.failures == []
    assert heir.heard.events == []
    require_clean(flow.source, topic_name, flow.target, remote)


def test_partitions_move_between_copiers_under_load(copy_flow: CopyFlow, topic_name: str) -> None:
    flow = copy_flow
    remote = flow.create(topic_name, PARTITIONS)
    first, second = TopicPartition(TopicName(topic_name), 0), TopicPartition(TopicName(topic_name), 1)
    with Load(flow.source, topic_name, PARTITIONS, rate=3000):
        running = flow.start(topic_name, **EXACTLY)
        other = flow.open(**EXACTLY, worker_group_id="another")
        for _ in range(4):
            for partition in (first, second):
                position = running.release_one(partition)
                assert flow.stored(*partition) == position
                other.grant([flow.grant(partition)])
            time.sleep(0.15)
            for partition in (first, second):
                position = other.release_one(partition)
                assert flow.stored(*partition) == position
                running.grant([flow.grant(partition)])
            time.sleep(0.15)
    flow.wait_until_caught_up(running, topic_name)
    running.release()
    assert running.heard.failures == other.heard.failures == []
    assert running.heard.events == other.heard.events == []
    require_clean(flow.source, topic_name, flow.target, remote)


def test_transactions_are_aborted_at_any_moment(copy_flow: CopyFlow, topic_name: str, chance: random.Random) -> None:
    flow = copy_flow
    remote = flow.create(topic_name, 2)
    with Load(flow.source, topic_name, 2, rate=400):
        running = flow.start(topic_name, **EXACTLY)
        # On a slow machine fewer of these moments fall into a transaction.
        for tried in range(200):
            if tried >= 12 and len(running.events("transaction")) >= 6:
                break
            time.sleep(chance.uniform(0.0, 0.15))
            running.abort_transaction()
        sent = [offsets(flow.source, topic_name, number)[1] for number in range(2)]
    for number in range(2):
        wait_until_committed(flow, running, topic_name, number)
    running.release()
    assert min(sent) > 50
    assert running.heard.failures == []
    assert running.events("foreign") == []
    assert len(running.events("transaction")) >= 6
    require_clean(flow.source, topic_name, flow.target, remote)
    # Where a record was copied to twice, its translation is that of the copy that counts.
    assert check_all(flow, topic_name, 0) == 0
    assert check_all(flow, topic_name, 1) == 0


def test_a_copier_that_stood_still_too_long_goes_on(copy_flow: CopyFlow, topic_name: str) -> None:
    """The target has aborted its transaction meanwhile, and nobody else has copied."""
    flow = copy_flow
    remote = flow.create(topic_name)
    settings = {**EXACTLY, "producer": {"transaction_timeout_ms": 1000}, "transaction_boundary": "interval"}
    with Load(flow.source, topic_name, 1, rate=500):
        running = flow.start(topic_name, transaction_interval_ms=60_000, **settings)
        for _ in range(5):
            wait_until_committed(flow, running, topic_name)
            running.stand_still(2.0)
            wait_until_committed(flow, running, topic_name)
            if running.events("transaction"):
                break
    assert any("was open for" in text for text in running.events("transaction"))
    running.release()
    assert running.heard.failures == []
    running = flow.copy(topic_name, **EXACTLY)
    require_clean(flow.source, topic_name, flow.target, remote)


def test_aborted_and_open_source_transactions_stay_behind(copy_flow: CopyFlow, topic_name: str, new_name: Any) -> None:
    flow = copy_flow
    remote = flow.create(topic_name)
    for number in range(6):
        produce(
            flow.source,
            topic_name,
            numbered(20, start=20 * number),
            transactional_id=new_name("tx"),
            abort=number % 2 == 1,
        )
    running = flow.start(topic_name, **EXACTLY)
    # The last marker holds no record; the position passes over it all the same.
    wait_until_committed(flow, running, topic_name)
    running.release()
    expected = [b"%d" % number for start in (0, 40, 80) for number in range(start, start + 20)]
    assert values(consume(flow.target, remote)) == expected
    assert values(consume(flow.target, remote, isolation="read_uncommitted")) == expected


@pytest.mark.parametrize("policy", ["skip", "stop"])
def test_an_oversized_record(copy_flow: CopyFlow, topic_name: str, policy: str) -> None:
    flow = copy_flow
    remote = flow.create(topic_name, 2, remote_config={"max.message.bytes": "20000"})
    produce(flow.source, topic_name, numbered(10, size=500))
    produce(flow.source, topic_name, numbered(1, start=10, size=50_000))
    produce(flow.source, topic_name, numbered(10, start=11, size=500))
    produce(flow.source, topic_name, numbered(10), partition=1)
    # The copier believes in a higher limit, so that the target has to refuse.
    running = flow.start(topic_name, max_batch_bytes=1_000_000, oversized_record_policy=policy, **EXACTLY)
    if policy == "stop":
        _, error = running.wait_for_failure()
        assert isinstance(error, RecordTooLargeError)
        running.release()
        stored = flow.stored(topic_name)
        assert stored is not None
        assert stored.next_source <= 10
        arrived = consume(flow.target, remote, partitions=[0])
        assert len(arrived) == stored.next_source
        return
    wait_until_committed(flow, running, topic_name, 0)
    wait_until_committed(flow, running, topic_name, 1)
    running.release()
    there = [value[:2].rstrip(b".") for value in values(consume(flow.target, remote, partitions=[0])) if value]
    assert there == [b"%d" % number for number in range(21) if number != 10]


def test_switched_on_and_off_again(copy_flow: CopyFlow, topic_name: str) -> None:
    """Each mode goes on where the other crashed: after its position, and after what arrived after that."""
    flow = copy_flow
    remote = flow.create(topic_name, PARTITIONS)
    with Load(flow.source, topic_name, PARTITIONS, rate=3000):
        for mode in ("disabled", "preparing", "enabled", "disabled", "enabled", "preparing"):
            flow.take_over()
            running = flow.start(topic_name, exactly_once=mode, consumer=COMMITTED, position_interval_ms=2000)
            time.sleep(0.5)
            running.crash()
    flow.take_over()
    running = flow.copy(topic_name, consumer=COMMITTED)
    assert running.events("foreign") == []
    require_clean(flow.source, topic_name, flow.target, remote)
