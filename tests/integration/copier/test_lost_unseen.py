"""The target lost records and took others in their place, before anybody could look: the next copier sees it.

The log of a target that lost what a copier had acknowledged is made here without losing anything: the stored position
counts more than was copied, and after that stands what the copier appended next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from harness.consume import consume
from harness.produce import NewRecord, produce
from harness.wait import wait_for
from tests.integration.copier.test_exactly_once import EXACTLY, wait_until_committed
from tests.integration.copying import POSITION_PARTITIONS, SOURCE, CopyFlow
from tests.integration.segments import stored_batches
from twinlog.kafka.protocol.produce import partition_for
from twinlog.mirror.offsets.positions import Position, Writer, encode_position
from twinlog.model.types import TopicName, TopicPartition

LEFT, LOST, COUNT = 90, 10, 120
RECORDS = [NewRecord(b"%d" % number, timestamp=1_700_000_000_000 + number) for number in range(COUNT)]


def arrange(flow: CopyFlow, topic: str, **settings: Any) -> tuple[str, Position]:
    """Copy what is to be left, produce the rest, and return the remote topic and the position of what was left."""
    remote = flow.create(topic)
    produce(flow.source, topic, RECORDS[:LEFT], per_batch=10)
    flow.copy(topic, **settings)
    produce(flow.source, topic, RECORDS[LEFT:])
    position = flow.stored(topic)
    assert position is not None
    return remote, position


def pretend(flow: CopyFlow, topic: str, position: Position) -> None:
    """Store a position that counts more than there is."""
    stored = encode_position(SOURCE, TopicPartition(TopicName(topic), 0), position)
    record = NewRecord(stored.value, stored.key, headers=stored.headers)
    produce(flow.target, flow.positions_topic, [record], partition=partition_for(stored.key, POSITION_PARTITIONS))


def values(flow: CopyFlow, remote: str) -> list[int]:
    return [int(record.value or b"") for record in consume(flow.target, remote)]


@pytest.mark.parametrize("taken", [5, 10, 15])
def test_late_appends_hide_no_loss(copy_flow: CopyFlow, topic_name: str, taken: int) -> None:
    """As many of them as the target lost, fewer, or more."""
    remote, left = arrange(copy_flow, topic_name)
    astray = RECORDS[LEFT + LOST : LEFT + LOST + taken]
    produce(copy_flow.target, remote, astray, idempotent=True)
    end, producer = LEFT + LOST, stored_batches(copy_flow.target, remote)[-1].producer_id
    pretend(copy_flow, topic_name, replace(left, next_source=end, next_target=end, writer=Writer(producer, 0, 0)))
    running = copy_flow.copy(topic_name)
    assert values(copy_flow, remote) == [*range(LEFT), *range(end, end + taken), *range(LEFT, COUNT)]
    (event,) = running.events("target")
    assert f"source offsets {LEFT} to {end - 1} of {topic_name}-0 are copied again" in event


@pytest.mark.parametrize(("first", "taken"), [(LEFT + LOST, 5), (LEFT + LOST, 10), (LEFT + LOST, 15), (LEFT, 10)])
def test_an_aborted_transaction_hides_no_loss(copy_flow: CopyFlow, topic_name: str, first: int, taken: int) -> None:
    """It stands where another was committed; or only the marker of that one was lost, and it was aborted itself."""
    remote, left = arrange(copy_flow, topic_name, **EXACTLY)
    assert left.next_target is not None
    produce(copy_flow.target, remote, RECORDS[first : first + taken], transactional_id=topic_name, abort=True)
    behind_marker = left.next_target + LOST + 1
    pretend(copy_flow, topic_name, replace(left, next_source=LEFT + LOST, next_target=behind_marker))
    running = copy_flow.copy(topic_name, **EXACTLY)
    assert values(copy_flow, remote) == list(range(COUNT))
    (event,) = running.events("target")
    assert f"source offsets {LEFT} to {LEFT + LOST - 1} of {topic_name}-0 are copied again" in event


def test_a_target_that_ends_a_transaction_by_itself_hides_no_loss(copy_flow: CopyFlow, topic_name: str) -> None:
    """The marker of the one before was lost, so that it was aborted, too."""
    settings: Mapping[str, Any] = {**EXACTLY, "producer": {"transaction_timeout_ms": 2500}}
    remote = copy_flow.create(topic_name)
    running = copy_flow.start(topic_name, transaction_interval_ms=60_000, transaction_boundary="interval", **settings)
    produce(copy_flow.source, topic_name, RECORDS[:LEFT], per_batch=10)
    left = wait_until_committed(copy_flow, running, topic_name)
    assert left.next_target is not None
    produce(copy_flow.target, remote, RECORDS[LEFT : LEFT + LOST], transactional_id=topic_name, abort=True)
    first_lost = left.next_target
    copied = replace(left, next_source=LEFT + LOST, next_target=first_lost + LOST + 1)
    part = running.partition_copy(topic_name)

    async def pretend_copied() -> None:
        # At once, as the source must have what the copier is to go on with.
        produce(copy_flow.source, topic_name, RECORDS[LEFT:])
        part.copied.runs.add([(LEFT, LOST)], first_lost)
        part.commit(copied)
        part.seek(copied)
        # The copier commits by itself after half the time-out; it stands still before that, until the target aborts.
        while part.acknowledged.next_source == copied.next_source:
            await running.copier.loop.sleep(0.001)
        wait_for(lambda: stored_batches(copy_flow.target, remote)[-1].control, 60, "the target ends the transaction")

    running.run(pretend_copied)
    assert "was open for" in running.wait_for_event("transaction")
    wait_until_committed(copy_flow, running, topic_name)
    running.release()
    assert running.heard.failures == []
    assert values(copy_flow, remote) == list(range(COUNT))
