"""A topic is read to its end and no further, whatever its brokers leave out of their answers meanwhile."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.consumer import topic_pages
from twinlog.kafka.consumer.topic_pages import TopicPages
from twinlog.kafka.fetch_session import Fetched
from twinlog.kafka.metadata import Leader, TopicMetadata
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import FetchPosition, PartitionResponse
from twinlog.kafka.protocol.offsets import EARLIEST
from twinlog.kafka.record.builder import own_batch, record_body
from twinlog.kafka.record.records import decode_records
from twinlog.model.types import TopicName, TopicPartition

PART = TopicPartition(TopicName("own"), 0)
SECOND_S = 1.0


class Cluster:
    """One partition of ten records, a batch each. `script` has what becomes of the next fetches, then they succeed.

    Time passes when somebody waits, and a second with each fetch.
    """

    alias = "south"

    def __init__(self) -> None:
        self.loop = self
        self.clock = VirtualClock()
        self.end = 10
        self.grows = False
        self.refreshed = 0
        self.script: Iterator[str] = iter(())

    async def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    def spawn(self, step: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Coroutine[Any, Any, Any]:
        return step(*args)

    async def gather(self, steps: list[Coroutine[Any, Any, Any]]) -> list[Any]:
        return [await step for step in steps]

    async def refresh(self, topics: Collection[TopicName]) -> dict[TopicName, TopicMetadata]:
        self.refreshed += 1
        return dict.fromkeys(topics, TopicMetadata(PART.topic, uuid.UUID(int=1), {0: Leader(1, 0)}, 0, 1))

    async def list_offsets(
        self, partitions: Collection[TopicPartition], at: int, *, errors: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0 if at == EARLIEST else self.end)

    def session(self, *_: Any, **__: Any) -> Cluster:
        return self

    async def fetch(self, wanted: Mapping[TopicPartition, FetchPosition], **_: Any) -> list[Fetched]:
        self.clock.sleep(SECOND_S)
        self.end += self.grows
        (at,) = wanted.values()
        what = next(self.script, "")
        if what == "silent":
            return []
        if what == "broken":
            raise ClusterError("the connection broke")
        code, data = Code.NONE, b""
        if what == "refused":
            code = Code.TOPIC_AUTHORIZATION_FAILED
        elif what != "nothing":
            data = struct.pack(">q", at.offset) + bytes(own_batch([(0, record_body(b"k", b"%d" % at.offset))])[8:])
        return [Fetched(PART, PartitionResponse(0, code, self.end, self.end, 0, (), memoryview(data)))]

    def lacks(self, operation: str, resource: str, purpose: str) -> RefusedError:
        return RefusedError(f"{operation} on {resource}")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(topic_pages, "FetchSession", cluster.session)
    return cluster


@pytest.fixture
def pages(cluster: Cluster) -> TopicPages:
    client: Any = cluster
    return TopicPages(client, PART.topic)


def offsets(pages: TopicPages, found: list[int], timeout_s: float | None = None, take_s: float = 0.0) -> list[int]:
    """Read to the end; `found` has what was read also when that fails. Each page takes `take_s` seconds."""

    async def read() -> None:
        reading = pages.begin_scan(timeout_s)
        while answers := await reading.page():
            for fetched in answers:
                for _, answer, batch in pages.visible(fetched):
                    found.extend(record.offset for record in decode_records(answer.records, batch))
            pages._client.loop.clock.sleep(take_s)

    asyncio.run(read())
    return found


def test_what_was_read_does_not_come_again(cluster: Cluster, pages: TopicPages) -> None:
    assert offsets(pages, []) == list(range(10))
    assert offsets(pages, []) == []
    cluster.end += 2
    assert offsets(pages, []) == [10, 11]


def test_a_topic_that_grows_is_read_to_the_end_that_it_had(cluster: Cluster, pages: TopicPages) -> None:
    cluster.grows = True
    assert offsets(pages, []) == list(range(10))


@pytest.mark.parametrize("what", ["silent", "nothing"])
def test_an_answer_without_records_is_no_end(cluster: Cluster, pages: TopicPages, what: str) -> None:
    cluster.script = iter(["", what, what, "", what])
    assert offsets(pages, []) == list(range(10))


@pytest.mark.parametrize("what", ["silent", "nothing"])
def test_who_gives_nothing_out_for_long_is_given_up(cluster: Cluster, pages: TopicPages, what: str) -> None:
    cluster.script = iter(["", "", *([what] * 20)])
    found: list[int] = []
    with pytest.raises(ClusterError, match="cluster south: own-0 is held up at offset 2 of 10: its leader returns"):
        offsets(pages, found)
    cluster.script = iter(())
    assert offsets(pages, found) == list(range(10))


def test_who_reads_slowly_is_not_taken_for_that(pages: TopicPages) -> None:
    assert offsets(pages, [], take_s=2 * topic_pages.STALLED_S) == list(range(10))


def test_after_an_error_reading_goes_on_where_it_stopped(cluster: Cluster, pages: TopicPages) -> None:
    cluster.script = iter(["", "broken", "", "broken", "broken"])
    assert offsets(pages, []) == list(range(10))


def test_without_a_permission_it_ends(cluster: Cluster, pages: TopicPages) -> None:
    cluster.script = iter(["", "refused"])
    found: list[int] = []
    with pytest.raises(RefusedError, match="READ on topic own"):
        offsets(pages, found)
    assert found == [0]


def test_metadata_is_asked_for_again_after_ten_seconds_or_an_error(cluster: Cluster, pages: TopicPages) -> None:
    assert len(offsets(pages, [])) == 10
    assert cluster.refreshed == 1
    # The ten fetches took ten seconds.
    cluster.end = 11
    assert offsets(pages, []) == [10]
    assert cluster.refreshed == 2
    cluster.end = 13
    assert offsets(pages, []) == [11, 12]
    assert cluster.refreshed == 2
    cluster.end, cluster.script = 14, iter(["broken"])
    assert offsets(pages, []) == [13]
    assert cluster.refreshed == 3


def test_a_leader_that_fails_to_say_its_end_is_looked_up_again(cluster: Cluster, pages: TopicPages) -> None:
    cluster.end = 1
    assert offsets(pages, []) == [0]
    right = cluster.list_offsets
    refuses = iter([True])

    async def wrong_once(*args: Any, **more: Any) -> dict[TopicPartition, int]:
        return {} if next(refuses, False) else await right(*args, **more)

    cluster.list_offsets = wrong_once  # type: ignore[method-assign]
    cluster.end = 2
    assert offsets(pages, []) == [1]
    assert cluster.refreshed == 2


def test_a_topic_that_is_missing_for_long_is_looked_for_less_often(cluster: Cluster) -> None:
    client: Any = cluster
    pages = TopicPages(client, PART.topic, optional=True, missing_s=10)
    there = cluster.refresh

    async def missing(topics: Collection[TopicName]) -> dict[TopicName, TopicMetadata]:
        await there(topics)
        return dict.fromkeys(topics, TopicMetadata(PART.topic, None, {}, Code.UNKNOWN_TOPIC_OR_PARTITION, 0))

    cluster.refresh = missing  # type: ignore[method-assign]
    looked = []
    for _ in range(200):
        assert offsets(pages, []) == []
        looked.append(cluster.refreshed)
        cluster.clock.sleep(SECOND_S)
    assert looked[:10] == list(range(1, 11)), "every second at first"
    assert looked[-1] - looked[-51] in (5, 6), "every ten seconds after 100 s"
    cluster.refresh = there  # type: ignore[method-assign]
    cluster.clock.sleep(10)
    assert len(offsets(pages, [])) == 10
