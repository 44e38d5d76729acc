"""What gives a remote log away that took something else in the place of what it had acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.copier.start import log_reader
from twinlog.copier.start.log_reader import find_unverified
from twinlog.errors import RefusedError
from twinlog.kafka.admin.partition_states import ProducerState
from twinlog.kafka.consumer import leader_fetch
from twinlog.kafka.fetch_session import Fetched
from twinlog.kafka.metadata import Leader
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import FetchPosition, PartitionResponse
from twinlog.kafka.record.batch import HEADER, HEADER_SIZE
from twinlog.kafka.record.stamp import LARGEST
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.types import TopicName, TopicPartition

REMOTE = TopicPartition(TopicName("north.t"), 0)


def target(loop: Loop) -> Any:
    def lacks(right: str, of: str, purpose: str) -> RefusedError:
        return RefusedError(f"{right} on {of}")

    def group_by_leader(partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        found = list(partitions)
        return {1: found} if found else {}

    leader, topic = (lambda _: Leader(1, 0)), (lambda _: None)
    return SimpleNamespace(
        alias="south", leader=leader, group_by_leader=group_by_leader, topic=topic, loop=loop, lacks=lacks
    )


@pytest.mark.parametrize(
    ("sequence", "last", "end", "epoch", "unverified"),
    [
        (20, 19, 100, 0, False),
        (20, 24, 105, 0, False),
        (20, 24, 100, 0, True),
        (20, 24, 104, 0, True),
        # Somebody else wrote there, too.
        (20, 24, 110, 0, False),
        # Another producer epoch appended before.
        (0, 99, 100, 1, False),
        (LARGEST - 1, 2, 105, 0, False),
        (LARGEST - 1, 2, 104, 0, True),
        # The log has less of it than the position counts.
        (20, 9, 100, 0, True),
        (20, -1, 100, 0, False),
    ],
)
def test_a_producer_appended_more_than_the_log_grew(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, sequence: int, last: int, end: int, epoch: int, unverified: bool
) -> None:
    async def states(*_: Any) -> tuple[dict[TopicPartition, list[ProducerState]], dict[TopicPartition, str]]:
        return {REMOTE: [ProducerState(8, 0, 7, -1, 0), ProducerState(7, epoch, last, -1, 0)]}, {}

    monkeypatch.setattr(log_reader, "producer_states", states)
    position = Position(100, 100, writer=Writer(7, 0, sequence))
    assert loop.run(find_unverified, target(loop), {REMOTE: position}, {REMOTE: end}) == ({REMOTE: unverified}, {})


def batch(base: int, *, control: bool = False, transactional: bool = True, abort: bool = False) -> bytes:
    """A batch of one record; of a marker its key shows what it is."""
    key = b"\0\0\0" + bytes([not abort])
    record = bytes([0, 0, 0, len(key) << 1]) + key + bytes([1, 0])
    record = bytes([len(record) << 1]) + record
    attributes = 0x20 * control | 0x10 * transactional
    length = HEADER_SIZE - 12 + len(record)
    return HEADER.pack(base, length, 0, 2, 0, attributes, 0, 0, 0, 7, 0, 0, 1) + record


@pytest.mark.parametrize(
    ("data", "error", "found"),
    [
        (batch(99, control=True), 0, {REMOTE: False}),
        (batch(99, control=True, abort=True), 0, {REMOTE: True}),
        (batch(99), 0, {REMOTE: True}),
        (batch(99, transactional=False), 0, {REMOTE: False}),
        (batch(120), 0, {REMOTE: False}),
        # Too large to be a marker.
        (b"", 0, {REMOTE: True}),
        (b"", Code.OFFSET_OUT_OF_RANGE, {REMOTE: False}),
        (b"", Code.NOT_LEADER_OR_FOLLOWER, {}),
    ],
)
def test_what_stands_in_the_place_of_a_commit(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, data: bytes, error: int, found: dict[TopicPartition, bool]
) -> None:
    asked: list[int] = []

    class Session:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        async def fetch(self, wanted: Mapping[TopicPartition, FetchPosition], **_: Any) -> list[Fetched]:
            asked.extend(at.offset for at in wanted.values())
            return [Fetched(one, PartitionResponse(0, error, 0, 0, 0, (), memoryview(data))) for one in wanted]

    monkeypatch.setattr(leader_fetch, "FetchSession", Session)
    unverified, errors = loop.run(find_unverified, target(loop), {REMOTE: Position(90, 100)}, {})
    assert (unverified, set(errors)) == (found, {REMOTE} - set(found))
    assert asked == [99]


def test_without_copied_records_no_append_is_in_doubt(loop: Loop) -> None:
    assert loop.run(find_unverified, target(loop), {REMOTE: Position(0, 0)}, {REMOTE: 0}) == ({REMOTE: False}, {})


@pytest.mark.parametrize("answers", [[], [PartitionResponse(0, -1, 0, 0, 0, (), memoryview(b""))]])
def test_a_partition_without_an_answer_is_named_with_the_reason(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, answers: list[PartitionResponse]
) -> None:
    class Session:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        async def fetch(self, wanted: Mapping[TopicPartition, FetchPosition], **_: Any) -> list[Fetched]:
            return [Fetched(one, answer) for one, answer in zip(wanted, answers, strict=False)]

    monkeypatch.setattr(leader_fetch, "FetchSession", Session)
    unverified, errors = loop.run(find_unverified, target(loop), {REMOTE: Position(90, 100)}, {})
    assert unverified == {}
    assert ("quota" if not answers else "error code -1") in errors[REMOTE]


def test_a_missing_read_permission_is_reported(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    class Session:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        async def fetch(self, wanted: Mapping[TopicPartition, FetchPosition], **_: Any) -> list[Fetched]:
            code = Code.TOPIC_AUTHORIZATION_FAILED
            return [Fetched(one, PartitionResponse(0, code, 0, 0, 0, (), memoryview(b""))) for one in wanted]

    monkeypatch.setattr(leader_fetch, "FetchSession", Session)
    with pytest.raises(RefusedError, match=r"READ on topic north\.t"):
        loop.run(find_unverified, target(loop), {REMOTE: Position(90, 100)}, {})
