"""Where records of our own go: to partition 0 or that of their key, at its leader, wherever that is by now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.errors import ClusterError, NotAppendedError, RefusedError
from twinlog.kafka.metadata import Leader, TopicMetadata
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.produce import Appended, partition_for
from twinlog.kafka.record.batch import scan
from twinlog.kafka.record.records import decode_records
from twinlog.model.types import TopicName

TOPIC = TopicName("own")
KEYS = [b"key %d" % number for number in range(20)]
"""So many that each partition has some."""

TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND = 7, 19, 20


class Turning:
    """As much of an event loop as a writer needs: time passes when somebody waits."""

    def __init__(self) -> None:
        self.clock = VirtualClock()

    async def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)


class Target:
    """A cluster with one topic. `leaders` is how it is; of that the writer knows what it asked for last."""

    alias = "west"

    def __init__(self) -> None:
        self.loop = Turning()
        self.leaders: dict[int, int] = {0: 10, 1: 11, 2: 12}
        self.error = Code.NONE
        self.down: set[int] = set()
        self.answers: Iterator[int] = iter(())
        """Codes of the next batches; then each is appended."""
        self.batches: list[tuple[int, list[bytes]]] = []
        """Partition and keys of each batch that was sent."""
        self.sizes: list[int] = []
        self.stored: set[bytes] = set()
        self.timestamps: set[int] = set()
        self.refreshed = 0
        self._known: TopicMetadata | None = None

    def topic(self, name: TopicName) -> TopicMetadata | None:
        assert name == TOPIC
        return self._known

    async def refresh(self, topics: Iterable[TopicName]) -> dict[TopicName, TopicMetadata]:
        self.refreshed += 1
        leaders = {number: Leader(node, 1) for number, node in self.leaders.items()}
        self._known = TopicMetadata(TOPIC, None, {} if self.error else leaders, self.error, partitions=3)
        return dict.fromkeys(topics, self._known)

    async def append(
        self, node: int, topics: dict[str, list[Any]], timeout_s: float, *, control: bool, transactional_id: str | None
    ) -> dict[Any, Appended]:
        if node in self.down:
            raise ClusterError("no answer")
        found = {}
        assert len({number for number, _ in topics[TOPIC]}) == len(topics[TOPIC])
        for number, data in topics[TOPIC]:
            records = [record for batch in scan(data) for record in decode_records(data, batch)]
            keys = [record.key or b"" for record in records]
            self.batches.append((number, keys))
            self.sizes.append(len(data))
            self.timestamps |= {record.timestamp for record in records}
            code = next(self.answers, Code.NONE)
            if self.leaders.get(number) != node:
                code = Code.NOT_LEADER_OR_FOLLOWER
            if not code:
                self.stored.update(keys)
            found[TOPIC, number] = Appended(int(code), 0, -1)
        # As the frame of a request does, so that what was sent is not kept until it is answered.
        topics[TOPIC][:] = [(number, b"") for number, _ in topics[TOPIC]]
        return found

    def lacks(self, operation: str, resource: str, purpose: str) -> RefusedError:
        return RefusedError(f"{operation} on {resource} for {purpose}")


@pytest.fixture
def target() -> Target:
    return Target()


Make = Callable[..., TopicWriter]


@pytest.fixture
def make(target: Target) -> Make:
    client: Any = target
    return lambda **how: TopicWriter(client, TOPIC, 1.0, "the test", **how)


def append(writer: TopicWriter, keys: Iterable[bytes] = KEYS, *, at_once: bool = False) -> None:
    asyncio.run(writer.append([(key, b"value") for key in keys], at_once=at_once))


def test_records_go_to_the_first_partition(target: Target, make: Make) -> None:
    append(make())
    assert target.batches == [(0, KEYS)]


def test_or_to_the_partition_of_their_key(target: Target, make: Make) -> None:
    append(make(by_key=True))
    assert {number for number, _ in target.batches} == {0, 1, 2}
    assert all(partition_for(key, 3) == number for number, keys in target.batches for key in keys)
    assert target.stored == set(KEYS)


def test_they_bear_the_time_of_the_clock_that_was_handed_in(target: Target, make: Make) -> None:
    target.loop.clock.now += 0.5
    append(make())
    assert target.timestamps == {1_700_000_000_500}


def test_no_batch_is_too_large_for_a_broker(target: Target, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinlog.kafka.record.builder.BATCH_BYTES", 60)
    append(make(by_key=True))
    assert len(target.batches) > 3
    assert all(size < 300 for size in target.sizes)
    assert sorted(key for _, keys in target.batches for key in keys) == sorted(KEYS)
    target.batches.clear()
    append(make(), at_once=True)
    assert target.batches == [(0, KEYS)]


def test_a_partition_without_a_leader_keeps_no_others(target: Target, make: Make) -> None:
    del target.leaders[1]
    writer = make(by_key=True)
    with pytest.raises(ClusterError, match="own-1 has no leader"):
        append(writer)
    assert {partition_for(key, 3) for key in target.stored} == {0, 2}
    target.leaders[1] = 10
    append(writer)
    assert target.stored == set(KEYS)


@pytest.mark.parametrize("gone", [True, False], ids=["gone for good", "a follower now"])
def test_where_the_leader_was_is_not_asked_for_ever(target: Target, make: Make, gone: bool) -> None:
    writer = make(by_key=True)
    append(writer)
    assert target.refreshed == 1
    append(writer)
    assert target.refreshed == 1
    target.stored.clear()
    target.leaders[0] = 12
    if gone:
        target.down.add(10)
    with pytest.raises(ClusterError):
        append(writer)
    assert {partition_for(key, 3) for key in target.stored} == {1, 2}
    append(writer)
    assert target.stored == set(KEYS)


def test_a_refusal_is_final(target: Target, make: Make) -> None:
    target.answers = iter([Code.TOPIC_AUTHORIZATION_FAILED])
    writer = make()
    with pytest.raises(RefusedError, match="WRITE on topic own for the test"):
        append(writer)
    target.error = Code.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(RefusedError, match="WRITE on topic own for the test"):
        append(writer)


def test_a_missing_topic_is_reported(target: Target, make: Make) -> None:
    target.error = Code.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(NotAppendedError, match="topic own does not exist, or has no leader") as raised:
        append(make())
    assert raised.value.code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_is_waited_for_as_long_as_that_was_asked(target: Target, make: Make) -> None:
    target.error = Code.LEADER_NOT_AVAILABLE
    with pytest.raises(NotAppendedError):
        append(make(wait_s=1.95))
    assert target.refreshed == 6


@pytest.mark.parametrize(
    ("code", "in_doubt"),
    [(NOT_ENOUGH_REPLICAS, False), (TIMED_OUT, True), (NOT_ENOUGH_REPLICAS_AFTER_APPEND, True), (None, True)],
)
def test_an_unacknowledged_record_that_may_be_in_the_log_is_in_doubt(
    target: Target, make: Make, monkeypatch: pytest.MonkeyPatch, code: int | None, in_doubt: bool
) -> None:
    monkeypatch.setattr("twinlog.kafka.record.builder.BATCH_BYTES", 100)
    writer = make()
    append(writer)
    assert (writer.appended, writer.in_doubt) == (len(KEYS), False)
    first = len(target.batches[0][1])
    if code is None:
        target.down.add(10)
    else:
        target.answers = iter([Code.NONE, code])
    with pytest.raises(ClusterError):
        append(writer)
    assert (writer.appended, writer.in_doubt) == (0 if code is None else first, in_doubt)


def test_a_batch_that_is_too_large_is_reported_with_its_size(target: Target, make: Make) -> None:
    target.answers = iter([Code.MESSAGE_TOO_LARGE])
    writer = make()
    with pytest.raises(NotAppendedError) as raised:
        append(writer)
    assert (raised.value.code, raised.value.size) == (Code.MESSAGE_TOO_LARGE, target.sizes[-1])
    # Its leader is the same.
    append(writer)
    assert target.refreshed == 1
