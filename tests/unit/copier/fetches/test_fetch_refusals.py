"""What a partition does when its source refuses a fetch, or gives what no batch of the remote topic can hold."""

from __future__ import annotations

from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from tests.source_log import New, SourceLog
from tests.unit.copier.partitions import NotedPartition
from twinlog.copier.partition.life import AskLimit, CheckSource, PartitionRequest, PauseFetch
from twinlog.errors import CorruptBatchError, RecordTooLargeError, TwinlogError
from twinlog.kafka.producer.appends import CopyRules
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import PartitionResponse
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import RecordPolicy

SOURCE, REMOTE = TopicPartition(TopicName("shop"), 0), TopicPartition(TopicName("north.shop"), 0)
NOTHING = memoryview(b"")


class Reading:
    """A partition of which nothing is read yet, and what it asked of its copier."""

    def __init__(self, *, most_bytes: int = 1 << 20, oversized: RecordPolicy = "stop") -> None:
        noted = NotedPartition(
            Grant(SOURCE, REMOTE, None, most_bytes, None),
            Position(SourceOffset(0), TargetOffset(0), leader_epoch=3),
            VirtualClock(),
            rules=CopyRules(max_batch_bytes=1 << 20, oversized=oversized),
        )
        self.part = noted.part
        self.asked: list[PartitionRequest] = noted.requests
        self.events: list[tuple[str, str]] = noted.events
        self.failures: list[TwinlogError] = noted.failures

    def answer(self, code: int = 0, *, records: memoryview = NOTHING, **diverging: int) -> None:
        asked = self.part.fetch_position(1 << 20)
        assert asked is not None
        self.part.add_answer(asked, PartitionResponse(0, code, 10, 10, 0, (), records, **diverging))


@pytest.mark.parametrize(
    ("code", "asked", "trouble"),
    [
        (Code.OFFSET_OUT_OF_RANGE, CheckSource(SourceOffset(-1)), None),
        (Code.UNKNOWN_TOPIC_ID, CheckSource, "source: UnknownTopicIdError"),
        (Code.INCONSISTENT_TOPIC_ID, CheckSource, "source: InconsistentTopicIdError"),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, CheckSource, "source: UnknownTopicOrPartitionError"),
        (Code.NOT_LEADER_OR_FOLLOWER, PauseFetch, "source: NotLeaderForPartitionError"),
        (Code.FENCED_LEADER_EPOCH, PauseFetch, "source: FencedLeaderEpochError"),
        (Code.UNKNOWN_LEADER_EPOCH, PauseFetch, "source: UnknownLeaderEpochError"),
        (-1, PauseFetch, "source: UnknownError"),
    ],
)
def test_a_refused_fetch_is_looked_into_or_asked_again(code: int, asked: Any, trouble: str | None) -> None:
    reading = Reading()
    reading.answer(code)
    if asked is CheckSource:
        asked = CheckSource(None, trouble)
    elif asked is PauseFetch:
        asked = PauseFetch(str(trouble), 1)
    assert reading.asked == [asked]
    assert (reading.part.paused, reading.part.trouble, reading.failures) == (True, trouble, [])


def test_refusals_in_a_row_are_counted_until_the_source_answers() -> None:
    reading = Reading()
    for _ in range(2):
        reading.answer(Code.NOT_LEADER_OR_FOLLOWER)
        reading.part.resume()
    reading.answer()
    assert reading.part.trouble is None
    reading.answer(Code.NOT_LEADER_OR_FOLLOWER)
    assert [asked.refusals for asked in reading.asked if isinstance(asked, PauseFetch)] == [1, 2, 1]


def test_a_log_that_parts_from_what_was_read_is_checked_there() -> None:
    reading = Reading()
    reading.answer(diverging_epoch=2, diverging_end=7)
    assert (reading.asked, reading.part.paused) == ([CheckSource(SourceOffset(7))], True)


def test_a_missing_permission_ends_the_partition() -> None:
    reading = Reading()
    reading.answer(Code.TOPIC_AUTHORIZATION_FAILED)
    (error,) = reading.failures
    assert str(error) == "READ topic shop copying it"
    assert (reading.part.failed, reading.part.paused) == (True, True)
    # Nothing lets it read again.
    reading.part.resume()
    assert reading.part.paused


def test_records_that_are_damaged_end_the_partition_with_its_name() -> None:
    log = SourceLog()
    log.batch([New(0, b"value")])
    records = log.fetch()
    records[len(records) - 2] ^= 1
    reading = Reading()
    reading.answer(records=records)
    (error,) = reading.failures
    assert isinstance(error, CorruptBatchError)
    assert str(error).startswith("shop-0: ")


def large() -> memoryview:
    log = SourceLog()
    log.batch([New(0, bytes(range(256)) * 20)])
    return log.fetch()


def test_a_record_that_does_not_fit_waits_for_the_topics_limit() -> None:
    reading = Reading(most_bytes=1_000)
    reading.answer(records=large())
    assert (reading.asked, reading.part.paused, reading.failures) == ([AskLimit()], True, [])
    reading.part.take_limit(10_000)
    reading.answer(records=large())
    assert (reading.failures, reading.part.read.offset) == ([], 1)
    assert sum(append.count for append in reading.part.queue.waiting()) == 1


@pytest.mark.parametrize("oversized", ["stop", "skip"])
def test_a_record_that_does_not_fit_in_the_end_is_an_error_or_left_out(oversized: RecordPolicy) -> None:
    reading = Reading(most_bytes=1_000, oversized=oversized)
    reading.answer(records=large())
    reading.part.take_limit(1_000)
    reading.answer(records=large())
    events = reading.events
    if oversized == "skip":
        ((kind, text),) = events
        assert kind == "oversized"
        assert text.startswith("shop-0: record at source offset 0 left out: ")
        assert (reading.failures, reading.part.read.offset) == ([], 1)
        # Nothing waits to be appended, so the position passes over it.
        assert reading.part.acknowledged.next_source == 1
    else:
        (error,) = reading.failures
        assert isinstance(error, RecordTooLargeError)
        assert (error.source_offset, error.limit, events) == (0, 1_000, [])
        assert "raise max.message.bytes of north.shop" in str(error)


def test_an_answer_to_an_older_question_is_dropped() -> None:
    reading = Reading()
    asked = reading.part.fetch_position(1 << 20)
    assert asked is not None
    reading.part.seek(Position(SourceOffset(5), TargetOffset(0)))
    reading.part.add_answer(asked, PartitionResponse(0, Code.OFFSET_OUT_OF_RANGE, 10, 10, 0, (), NOTHING))
    assert reading.asked == []
    assert reading.part.read.offset == 5
