"""After a large answer the broker is asked for the next records before the answer is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.kafka.consumer.test_nearest import END, PART, Cluster, Reading, answer
from twinlog.kafka.consumer import partition_reader as reader
from twinlog.kafka.fetch_session import Fetched
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.fetch import FetchedPartitions, FetchPosition, PartitionResponse, RawFetch

SIZE = 100


class Backlog(Cluster):
    """Answers with `SIZE` bytes for the next offset."""

    async def send(self, request: RawFetch, node: int, _timeout_s: float, *, connection: int = 0) -> FetchedPartitions:
        self.asked.append((node, request.rack))
        await self.loop.sleep(0.001)
        answers = [
            answer(END, records=b"x" * SIZE) for parts in request.topics.values() for _, at in parts if at.offset < END
        ]
        return FetchedPartitions(0, 0, 0, [(PART.topic, answers)])


class Taking(Reading):
    """Notes the number of requests at each delivery; `expected` replaces the predicted positions."""

    def __init__(self, cluster: Cluster, expected: Callable[[FetchPosition], FetchPosition | None]) -> None:
        super().__init__(cluster, "")
        self.expected = expected
        self.requests: list[tuple[int, int]] = []
        self.dropped = 0

    def position_after(self, asked: FetchPosition, found: PartitionResponse, read_ahead: int) -> FetchPosition | None:
        assert found.records
        return self.expected(asked)

    def _deliver(self, asked: FetchPosition, fetched: Fetched) -> None:
        self.requests.append((self.offset, len(self.cluster.asked)))
        if asked.offset == self.offset:
            super()._deliver(asked, fetched)
        else:
            self.dropped += 1


def after(asked: FetchPosition) -> FetchPosition:
    return asked._replace(offset=asked.offset + 1)


@pytest.fixture(autouse=True)
def small_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BACKLOG_BYTES", SIZE)


def test_the_next_request_is_under_way_when_an_answer_is_taken(loop: Loop) -> None:
    reading = Taking(Backlog(loop), after)
    reading.run(lambda: reading.offset >= 20)
    assert reading.dropped == 0
    assert reading.requests[:20] == [(offset, offset + 2) for offset in range(20)]


def test_the_end_of_the_log_is_asked_for_after_its_last_records_are_taken(loop: Loop) -> None:
    reading = Taking(Backlog(loop), after)
    reading.run(lambda: reading.offset >= END)
    assert reading.requests[END - 1] == (END - 1, END), "a broker without more records would wait with its answer"
    assert reading.dropped == 0


@pytest.mark.parametrize("kind", ["smaller", "unsure", "full", "far"])
def test_other_answers_are_taken_first(loop: Loop, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Backlog(loop)
    cluster.far = kind == "far"
    reading = Taking(cluster, lambda asked: None if kind == "unsure" else after(asked))
    if kind == "smaller":
        monkeypatch.setattr(reader, "BACKLOG_BYTES", SIZE + 1)
    if kind == "full":
        memory: Any = reading.reader._memory
        asked = []

        def reserve(place: object, most_bytes: int) -> int:
            asked.append(place)
            # There is no room for every second answer.
            return most_bytes if len(asked) % 2 else 0

        monkeypatch.setattr(memory, "reserve", reserve)
    reading.run(lambda: reading.offset >= 20)
    assert reading.requests[:20] == [(offset, offset + 1) for offset in range(20)]


def test_a_partition_that_moved_otherwise_reads_its_records_again(loop: Loop) -> None:
    """The answer for a wrong position is delivered with that position, and the partition drops it."""
    reading = Taking(Backlog(loop), lambda asked: asked._replace(offset=asked.offset + 2))
    reading.run(lambda: reading.offset >= 20)
    assert reading.dropped > 0
    assert len(reading.delivered) == reading.offset
