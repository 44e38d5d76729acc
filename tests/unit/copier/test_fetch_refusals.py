"""What a partition does when its source refuses a fetch, or gives what no batch of the remote topic can hold."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from tests.source_log import New, SourceLog
from twinlog.copier.partition.hooks import CopierHooks
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.errors import CorruptBatchError, RecordTooLargeError, RefusedError, TwinlogError
from twinlog.kafka.producer.append_queue import ProducerIdentity
from twinlog.kafka.producer.appends import CopyRules
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.lease.grant import Grant
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import ClientSettings, ProducerSettings, RecordPolicy

SOURCE, REMOTE = TopicPartition(TopicName("shop"), 0), TopicPartition(TopicName("north.shop"), 0)
NOTHING = memoryview(b"")


class Reading:
    """A partition of which nothing is read yet, and what it asked of its copier: hook and arguments."""

    def __init__(self, *, most_bytes: int = 1 << 20, oversized: RecordPolicy = "stop") -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.failures: list[TwinlogError] = []
        hooks: dict[str, Any] = {own.name: self._noting(own.name) for own in fields(CopierHooks) if own.name != "tally"}
        hooks["failed"] = lambda _, error: self.failures.append(error)
        hooks["source_lacks"] = lambda *missing: RefusedError(" ".join(missing))
        hooks["far_target"] = lambda: False
        self.part = PartitionCopy(
            Grant(SOURCE, REMOTE, None, most_bytes, None),
            Position(SourceOffset(0), TargetOffset(0), leader_epoch=3),
            CopyRules(max_batch_bytes=1 << 20, oversized=oversized),
            ProducerIdentity(1, 0),
            producer=ProducerSettings(ClientSettings(())),
            hooks=CopierHooks(**hooks),
            clock=VirtualClock(),
        )

    def _noting(self, name: str) -> Any:
        return lambda *args: self.asked.append((name, *(arg for arg in args if isinstance(arg, int | str | None))))

    def answer(self, code: int = 0, *, records: memoryview = NOTHING, **diverging: int) -> None:
        asked = self.part.fetch_position(1 << 20)
        assert asked is not None
        self.part.add_answer(asked, PartitionResponse(0, code, 10, 10, 0, (), records, **diverging))


@pytest.mark.parametrize(
    ("code", "asked", "trouble"),
    [
        (Code.OFFSET_OUT_OF_RANGE, ("check", -1), None),
        (Code.UNKNOWN_TOPIC_ID, ("check", None), "source: UnknownTopicIdError"),
        (Code.INCONSISTENT_TOPIC_ID, ("check", None), "source: InconsistentTopicIdError"),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, ("check", None), "source: UnknownTopicOrPartitionError"),
        (Code.NOT_LEADER_OR_FOLLOWER, ("pause", 1), "source: NotLeaderForPartitionError"),
        (Code.FENCED_LEADER_EPOCH, ("pause", 1), "source: FencedLeaderEpochError"),
        (Code.UNKNOWN_LEADER_EPOCH, ("pause", 1), "source: UnknownLeaderEpochError"),
        (-1, ("pause", 1), "source: UnknownError"),
    ],
)
def test_a_refused_fetch_is_looked_into_or_asked_again(code: int, asked: tuple[Any, ...], trouble: str | None) -> None:
    reading = Reading()
    reading.answer(code)
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
    assert [asked for asked in reading.asked if asked[0] == "pause"] == [("pause", 1), ("pause", 2), ("pause", 1)]


def test_a_log_that_parts_from_what_was_read_is_checked_there() -> None:
    reading = Reading()
    reading.answer(diverging_epoch=2, diverging_end=7)
    assert (reading.asked, reading.part.paused) == ([("check", 7)], True)


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
    assert (reading.asked, reading.part.paused, reading.failures) == ([("limit",)], True, [])
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
    events = [asked for asked in reading.asked if asked[0] == "event"]
    if oversized == "skip":
        ((_, kind, text),) = events
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
    assert ("check", -1) not in reading.asked
    assert reading.part.read.offset == 5
