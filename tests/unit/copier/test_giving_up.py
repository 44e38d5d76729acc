"""A batch that the target does not take is tried as often and as long as the producer's settings ask."""

from __future__ import annotations

from typing import Any

import pytest

from harness.virtual.clock import BEGIN, VirtualClock
from tests.unit.copier.partitions import NotedPartition
from twinlog.clock import LONG_AGO
from twinlog.errors import CopyError, TwinlogError
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.produce_errors import NO_ANSWER
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.settings.client import ClientSettings

SOURCE, REMOTE = TopicPartition(TopicName("shop"), 0), TopicPartition(TopicName("north.shop"), 0)
CLIENT = ClientSettings((), retry_backoff_ms=100, retry_backoff_max_ms=300)


class Target:
    """A partition whose target answers as the test asks; `failures` are what the flow would stop on."""

    def __init__(self, **producer: Any) -> None:
        noted = NotedPartition(
            Grant(SOURCE, REMOTE, None, 1 << 20, None), Position(0, 0), VirtualClock(), client=CLIENT, **producer
        )
        self.part = noted.part
        self.failures: list[TwinlogError] = noted.failures
        self.put()

    def put(self) -> None:
        """Read another batch."""
        data = encode_batch([(0, record_body(b"k", b"v", ()))])
        self.part.queue.put([Append(data, 1, SourceOffset(0), SourceOffset(1), 0, ((SourceOffset(0), 1),))])

    def answer(self, code: int, *, reached: bool = True) -> float:
        """Send the batch and answer it; returns how many seconds it then waits."""
        queue = self.part.queue
        queue.not_before = LONG_AGO
        assert queue.next_bytes(BEGIN)
        sent = queue.take_append()
        sent.reached = reached
        queue.record_response(sent, code, 0)
        return queue.not_before - BEGIN


@pytest.mark.parametrize("code", [NO_ANSWER, Code.NOT_LEADER_OR_FOLLOWER])
def test_after_the_last_retry_the_flow_stops(code: int) -> None:
    target = Target(retries=2)
    for _ in range(2):
        target.answer(code)
        assert target.failures == []
    target.answer(code)
    (error,) = target.failures
    assert isinstance(error, CopyError)
    assert "north.shop-0: the target did not take source offsets 0 to 0 of shop-0 within retries = 2" in str(error)


def test_waiting_for_a_broker_that_is_down_is_no_retry() -> None:
    target = Target(retries=1)
    for _ in range(5):
        target.answer(NO_ANSWER, reached=False)
    target.answer(NO_ANSWER)
    assert target.failures == []
    target.answer(NO_ANSWER)
    assert len(target.failures) == 1


def test_a_success_before_the_last_retry_is_one() -> None:
    target = Target(retries=1)
    target.answer(NO_ANSWER)
    target.answer(Code.NONE)
    assert target.failures == []
    assert target.part.acknowledged.next_target == 1


def test_pauses_grow_up_to_the_most() -> None:
    target = Target()
    pauses = [target.answer(NO_ANSWER) for _ in range(5)]
    for pause, middle in zip(pauses, (0.1, 0.2), strict=False):
        assert 0.7 * middle <= pause <= 1.2 * middle
    assert all(0.2 <= pause <= 0.3 for pause in pauses[2:])
    assert target.failures == []


def test_after_the_delivery_timeout_the_flow_stops() -> None:
    target = Target(delivery_timeout_ms=30_000)
    now = BEGIN
    target.part.check_overdue(now + 29)
    assert target.failures == []
    target.answer(NO_ANSWER)
    target.part.check_overdue(now + 31)
    target.part.check_overdue(now + 32)
    (error,) = target.failures
    assert "within delivery.timeout.ms = 30000 (target: no answer)" in str(error)


@pytest.mark.parametrize("code", [NO_ANSWER, Code.NOT_LEADER_OR_FOLLOWER, Code.MESSAGE_TOO_LARGE])
def test_what_is_answered_after_the_end_is_not_sent_again(code: int) -> None:
    target = Target(delivery_timeout_ms=30_000)
    queue = target.part.queue
    sent = queue.take_append()
    target.part.check_overdue(BEGIN + 31)
    queue.record_response(sent, code, -1)
    (error,) = target.failures
    assert "within delivery.timeout.ms = 30000" in str(error)
    assert not target.part.queue.next_bytes(BEGIN + 60)
    # Nor does anything else, as when a transaction is aborted.
    target.part.abort(ProducerIdentity(1, 1))
    target.put()
    assert not queue.next_bytes(BEGIN + 60)


def test_what_was_delivered_after_all_counts() -> None:
    target = Target(delivery_timeout_ms=30_000)
    sent = target.part.queue.take_append()
    target.part.check_overdue(BEGIN + 31)
    target.part.queue.record_response(sent, Code.NONE, 0)
    assert target.part.acknowledged.next_target == 1


def test_what_was_delivered_is_not_late() -> None:
    target = Target(delivery_timeout_ms=30_000)
    target.answer(Code.NONE)
    target.part.check_overdue(BEGIN + 100)
    assert target.failures == []
