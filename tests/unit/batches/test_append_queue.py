from __future__ import annotations

from dataclasses import replace

import pytest

from harness.virtual.clock import VirtualClock
from tests.source_log import New, SourceLog
from twinlog.batches.prepare import prepare
from twinlog.kafka.producer.append_queue import KNOWN_S, MAX_WINDOW, AppendQueue, Gate
from twinlog.kafka.producer.appends import Append, CopyRules, Markers
from twinlog.kafka.producer.produce_errors import UNVERIFIED, SentAppend
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.batch import read_batch
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition

PART = TopicPartition(TopicName("north.t"), 0)
NOW = 1000.0


class Owner:
    """Owns a queue: notes what is acknowledged, and what it is in trouble with."""

    def __init__(self, appends: int) -> None:
        self.acknowledged: list[int] = []
        self.troubles: list[SentAppend] = []
        self.queue = AppendQueue(
            PART,
            ProducerIdentity(7, 0),
            lambda append, base_offset: self.acknowledged.append(base_offset),
            self.troubles.append,
            now=VirtualClock().monotonic,
        )
        self.put(appends)

    def put(self, count: int) -> None:
        self.queue.put([batch_of(2) for _ in range(count)])

    def take_all(self, now: float = NOW) -> list[SentAppend]:
        """Everything that may be sent at a time."""
        sent = []
        while self.queue.next_bytes(now):
            sent.append(self.queue.take_append())
        return sent


def batch_of(records: int) -> Append:
    log = SourceLog()
    log.batch([New(number) for number in range(records)])
    (append,) = prepare(log.fetch(), 0, CopyRules()).appends
    return append


@pytest.fixture
def known() -> Owner:
    """One whose producer the broker knows, with ten more appends."""
    owner = Owner(1)
    (first,) = owner.take_all()
    owner.queue.record_response(first, 0, 0)
    owner.put(10)
    return owner


def test_the_first_append_of_a_producer_flies_alone() -> None:
    owner = Owner(10)
    (first,) = owner.take_all()
    owner.queue.record_response(first, 0, 0)
    assert [sent.sequence for sent in owner.take_all()] == [2, 4, 6, 8, 10]
    assert owner.acknowledged == [0]


def test_the_first_append_is_tried_again_alone() -> None:
    owner = Owner(10)
    (first,) = owner.take_all()
    owner.queue.record_response(first, 7, -1)
    assert owner.troubles == [first]
    owner.queue.retry_failed(NOW)
    assert owner.take_all() == [first]


def test_what_the_target_finds_corrupt_is_counted_by_itself() -> None:
    owner = Owner(1)
    for code in (Code.CORRUPT_MESSAGE, Code.REQUEST_TIMED_OUT, Code.CORRUPT_MESSAGE):
        (sent,) = owner.take_all()
        owner.queue.record_response(sent, code, -1)
        owner.queue.retry_failed(0.0)
    assert [(trouble.failures, trouble.corrupt) for trouble in owner.troubles] == [(3, 2)] * 3
    assert len({id(trouble) for trouble in owner.troubles}) == 1


def test_after_a_long_silence_an_append_flies_alone_again(known: Owner) -> None:
    sent = known.take_all()
    assert len(sent) == MAX_WINDOW
    for one in sent:
        known.queue.record_response(one, 0, 0)
    assert len(known.take_all(NOW + KNOWN_S)) == 1


def test_a_new_identity_begins_alone_with_sequence_0(known: Owner) -> None:
    known.queue.clear(ProducerIdentity(7, 1))
    known.put(3)
    assert [sent.sequence for sent in known.take_all()] == [0]


@pytest.mark.parametrize("code", [0, Code.NOT_LEADER_OR_FOLLOWER])
def test_an_answer_to_an_append_that_was_cleared_away_counts_for_nothing(known: Owner, code: int) -> None:
    earlier = known.take_all()
    known.queue.clear(ProducerIdentity(7, 1))
    known.queue.record_response(earlier[0], code, 10)
    known.put(1)
    (now,) = known.take_all()
    for sent in earlier[1:]:
        known.queue.record_response(sent, code, 20)
    assert (known.queue.in_flight, known.acknowledged, known.troubles) == (1, [0], [])
    known.queue.record_response(now, 0, 30)
    assert (known.queue.in_flight, known.acknowledged, known.troubles) == (0, [0, 30], [])
    assert known.queue.idle


def test_appends_are_acknowledged_in_order(known: Owner) -> None:
    first, second, third, *_ = known.take_all()
    known.queue.record_response(third, 0, 40)
    known.queue.record_response(second, 0, 20)
    assert known.acknowledged == [0]
    known.queue.record_response(first, 0, 10)
    assert known.acknowledged == [0, 10, 20, 40]


def test_parts_take_the_place_of_a_refused_append(known: Owner) -> None:
    sent = known.take_all()
    for one in sent:
        known.queue.record_response(one, 10 if one is sent[0] else 45, -1)
    assert known.troubles == [sent[0]]
    known.queue.replace_first([batch_of(1), batch_of(1)])
    assert [one.sequence for one in known.take_all()] == [2, 3, 4, 6, 8]
    assert known.queue.queued_bytes == sum(batch.bytes for batch in [batch_of(2)] * 9 + [batch_of(1)] * 2)


def test_a_refused_append_can_be_left_out(known: Owner) -> None:
    sent = known.take_all()
    for one in sent:
        known.queue.record_response(one, 10 if one is sent[0] else 45, -1)
    known.queue.replace_first([])
    again = known.take_all()
    assert [one.append for one in again[:4]] == [one.append for one in sent[1:]]
    assert [one.sequence for one in again] == [2, 4, 6, 8, 10]


def set_aside(known: Owner) -> list[SentAppend]:
    """Has the first append of a full window set aside; returns the window."""
    sent = known.take_all()
    for one in sent:
        known.queue.record_response(one, Code.INVALID_RECORD if one is sent[0] else 45, -1)
    known.queue.set_first_aside()
    return sent


def test_an_append_set_aside_leaves_the_window_and_holds_back_all_later_ones(known: Owner) -> None:
    sent = set_aside(known)
    known.put(1)
    assert (known.queue.all_acknowledged, known.queue.ready, known.queue.stopped) == (True, False, False)
    assert known.queue.first is sent[0].append
    assert known.take_all() == []
    known.queue.replace_first([])
    again = known.take_all()
    assert [one.append for one in again[:4]] == [one.append for one in sent[1:]]
    assert [one.sequence for one in again] == [2, 4, 6, 8, 10]
    assert known.queue.queued_bytes == 10 * batch_of(2).bytes


def test_a_drop_of_unsent_appends_leaves_the_one_set_aside(known: Owner) -> None:
    first = set_aside(known)[0].append
    assert len(known.queue.unsent) == 9
    known.queue.drop_pending()
    assert list(known.queue.waiting()) == [first]
    assert known.queue.queued_bytes == first.bytes
    known.queue.drop_appends(lambda append: True)
    known.put(1)
    assert [one.sequence for one in known.take_all()] == [2]


def transactional(appends: int) -> Owner:
    """One whose producer appends within transactions, with appends before the first transaction."""
    owner = Owner(0)
    owner.queue.clear(ProducerIdentity(7, 3, transactional=True))
    owner.put(appends)
    return owner


def test_nothing_leaves_before_a_transaction_has_the_partition() -> None:
    owner = transactional(2)
    assert owner.take_all() == []
    owner.queue.gate = Gate.OPEN
    (first,) = owner.take_all()
    batch = read_batch(memoryview(first.append.data), 0)
    assert batch is not None
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 0)


def test_a_transaction_that_closes_sends_only_what_it_sent_before() -> None:
    owner = transactional(2)
    owner.queue.gate = Gate.OPEN
    (first,) = owner.take_all()
    owner.queue.gate = Gate.RETRIES
    owner.queue.record_response(first, 7, -1)
    owner.queue.retry_failed(NOW)
    assert owner.take_all() == [first]
    owner.queue.record_response(first, 0, 40)
    assert owner.queue.all_acknowledged
    assert owner.take_all() == []
    assert owner.queue.next_sequence == 2


def test_an_aborted_transaction_sends_nothing_again() -> None:
    owner = transactional(1)
    owner.queue.gate = Gate.OPEN
    (first,) = owner.take_all()
    owner.queue.gate = Gate.SHUT
    owner.queue.record_response(first, 7, -1)
    owner.queue.retry_failed(NOW)
    assert owner.take_all() == []
    owner.queue.clear(ProducerIdentity(7, 4, transactional=True))
    owner.put(1)
    assert owner.take_all() == []
    assert owner.queue.next_sequence == 0


def test_an_ended_queue_calls_no_hook_and_sends_nothing_again(known: Owner) -> None:
    first, second, *others = known.take_all()
    known.queue.end()
    known.queue.record_response(first, 0, 10)
    for one in (second, *others):
        known.queue.record_response(one, 7, -1)
    assert known.acknowledged == [0, 10]
    assert known.troubles == []
    known.queue.retry_failed(NOW)
    assert known.take_all() == []
    known.queue.clear(ProducerIdentity(7, 1))
    known.put(1)
    assert known.take_all() == []


def test_what_was_refused_after_an_append_waits_for_it(known: Owner) -> None:
    first, second, third, *others = known.take_all()
    for one in (second, third, *others):
        known.queue.record_response(one, 45, -1)
        assert known.take_all() == []
    known.queue.record_response(first, 0, 10)
    # Nobody lost track: what they were refused for has arrived.
    assert known.troubles == []
    again = known.take_all()
    assert again[:4] == [second, third, *others]
    for base, one in enumerate(again):
        known.queue.record_response(one, 0, 20 + base)
    assert known.acknowledged == [0, 10, 20, 21, 22, 23, 24]


def test_what_is_refused_again_without_one_before_it_is_trouble(known: Owner) -> None:
    first, second, *others = known.take_all()
    for one in (second, *others):
        known.queue.record_response(one, 45, -1)
    known.queue.record_response(first, 0, 10)
    for one in known.take_all():
        known.queue.record_response(one, 45, -1)
    assert known.troubles == [second]
    assert known.take_all() == []


def test_after_a_failure_the_first_goes_alone_and_then_the_others(known: Owner) -> None:
    """A topic that was recreated takes any first sequence number: the others would overtake the first."""
    sent = known.take_all()
    for one in sent:
        known.queue.record_response(one, 3, -1)
    known.queue.retry_failed(NOW)
    assert known.take_all() == [sent[0]]
    known.queue.record_response(sent[0], 3, -1)
    assert known.troubles == [sent[0], sent[0]]
    known.queue.retry_failed(NOW)
    assert known.take_all() == [sent[0]]
    known.queue.record_response(sent[0], 0, 0)
    assert known.take_all()[:4] == sent[1:]


def expecting_late_appends(*spans: tuple[int, int]) -> tuple[Owner, list[SentAppend]]:
    """A queue that goes on after source offset 9 with sequence number 5, and what it sends of these source offsets."""
    owner = Owner(0)
    owner.queue.clear(ProducerIdentity(7, 0), 5)
    owner.queue.late.expect_appends(10, 0, 1000)
    sent = []
    for first, count in spans:
        owner.queue.put([replace(batch_of(count), spans=((first, count),))])
        (one,) = owner.take_all()
        owner.queue.record_response(one, 0, 0)
        sent.append(one)
    return owner, sent


def test_a_predecessors_append_in_the_place_of_ours_is_ours_if_nothing_is_missing() -> None:
    owner, (first, second) = expecting_late_appends((10, 2), (12, 3))
    assert [first.sequence, second.sequence] == [5, 7]
    owner.queue.put([replace(batch_of(2), spans=((15, 2),))])
    (third,) = owner.take_all()
    owner.queue.record_response(third, 0, 40, there=True)
    assert (owner.acknowledged, owner.troubles) == ([0, 0, 40], [])


@pytest.mark.parametrize("there", [True, False])
def test_after_a_hole_a_predecessors_append_may_hold_other_records(there: bool) -> None:
    owner, _ = expecting_late_appends((10, 2))
    owner.queue.put([replace(batch_of(2), spans=((13, 2),))])
    (one,) = owner.take_all()
    owner.queue.record_response(one, 0, 40, there=there)
    assert [sent.code for sent in owner.troubles] == ([UNVERIFIED] if there else [])
    assert owner.acknowledged == ([0] if there else [0, 40])


def test_doubt_ends_with_what_a_predecessor_can_have_sent() -> None:
    owner, _ = expecting_late_appends(*((10 + 2 * number, 2) for number in range(20)))
    assert not owner.queue.late.expected
    owner.queue.put([replace(batch_of(2), spans=((90, 2),))])
    (one,) = owner.take_all()
    owner.queue.record_response(one, 0, 40, there=True)
    assert owner.troubles == []


def test_what_was_refused_as_too_large_counts_once() -> None:
    """Its parts and what was refused after it are sent again, and are no more than a predecessor can have sent."""
    owner, _ = expecting_late_appends((10, 2))
    left = owner.queue.late.bytes
    owner.queue.put([replace(batch_of(2), spans=((first, 2),)) for first in (12, 14, 16)])
    sent = owner.take_all()
    for one in sent:
        owner.queue.record_response(one, 10 if one is sent[0] else 45, -1)
    parts = [replace(batch_of(1), spans=((first, 1),)) for first in (12, 13)]
    owner.queue.replace_first(parts)
    assert owner.queue.late.bytes == left
    again = owner.take_all()
    assert [one.unverified for one in again] == [False] * 4
    assert owner.queue.late.bytes == left - sum(one.append.bytes for one in again)


def marker_of(first: int, count: int = 1) -> Append:
    offset = SourceOffset(first)
    return Append(bytearray(), count, offset, SourceOffset(first + count), -1, ((offset, count),), step=Markers())


def test_a_step_waits_for_all_appends_before_it_and_holds_up_all_later_ones(known: Owner) -> None:
    queue = known.queue
    queue.drop_pending()
    known.put(2)
    step = marker_of(7, 3)
    queue.put([step])
    known.put(2)
    first, second = known.take_all()
    queue.record_response(second, 0, 4)
    assert queue.step is None
    queue.record_response(first, 0, 2)
    assert queue.step is step
    assert known.take_all() == []
    queue.set_first_aside()
    assert (queue.step, queue.idle, queue.ready, queue.first) == (None, False, False, step)
    queue.drop_pending()
    assert list(queue.waiting()) == [step]
    known.put(1)
    queue.finish_aside(6)
    assert known.acknowledged == [0, 2, 4, 6]
    # A step has no sequence number of this producer.
    assert [sent.sequence for sent in known.take_all()] == [6]


def test_a_step_of_an_ended_queue_does_not_begin() -> None:
    owner = Owner(0)
    owner.queue.put([marker_of(0)])
    assert owner.queue.step is not None
    owner.queue.end()
    assert owner.queue.step is None


def test_late_appends_are_verified_after_a_step() -> None:
    owner = Owner(0)
    owner.queue.late.expect_appends(SourceOffset(5), TargetOffset(5), 1_000)
    owner.queue.put([marker_of(5)])
    owner.queue.set_first_aside()
    owner.queue.finish_aside(5)
    log = SourceLog(6)
    log.batch([New(1)])
    owner.queue.put(prepare(log.fetch(), SourceOffset(6), CopyRules()).appends)
    (sent,) = owner.take_all()
    assert not sent.unverified
