"""The topic of exact maps is read once for all who need it at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from twinlog.copier.start.stored_maps import StoredMaps
from twinlog.errors import ClusterError
from twinlog.kafka.net.loop import Loop
from twinlog.mirror.offsets.exact_map import ExactMap, Point
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import Segment
from twinlog.model.types import TopicName, TopicPartition

COUNT = 30


def partition(number: int) -> TopicPartition:
    return TopicPartition(TopicName("t"), number)


class Readings:
    """Counts readings; each partition has one point, at its number."""

    def __init__(self, loop: Loop, *, failing: bool = False) -> None:
        target: Any = SimpleNamespace(loop=loop)
        self._loop = loop
        self._failing = failing
        self.maps = StoredMaps(target, TopicName("maps"))
        self.maps._records = self._records  # type: ignore[method-assign, assignment]
        self.wanted: list[int] = []

    async def _records(self, wanted: Mapping[TopicPartition, Position]) -> list[tuple[bytes, bytes]]:
        self.wanted.append(len(wanted))
        await self._loop.sleep(0.02)
        if self._failing:
            raise ClusterError("it cannot be read")
        segments = [Segment(one, 0, False, (Point(one.partition, one.partition),)) for one in wanted]
        return [(segment.key, segment.value) for segment in segments]

    async def ask(self, number: int) -> ExactMap:
        return (await self.maps.read({partition(number): Position(100 + number, 100 + number)}))[partition(number)]


def test_one_reading_serves_all_who_ask_at_the_same_time(loop: Loop) -> None:
    readings = Readings(loop)

    async def ask() -> list[ExactMap]:
        found = await loop.gather([loop.spawn(readings.ask, number) for number in range(COUNT)])
        # What was stored since is not in what was read.
        return [*found, await readings.ask(0)]

    found = loop.run(ask)
    assert readings.wanted == [COUNT, 1]
    ends = [(known.points()[0].source, known.next_source) for known in found]
    assert ends == [(number, 100 + number) for number in [*range(COUNT), 0]]


def test_who_asks_again_after_a_failure_has_it_read_again(loop: Loop) -> None:
    readings = Readings(loop, failing=True)

    async def ask(number: int) -> bool:
        try:
            await readings.ask(number)
        except ClusterError:
            return True
        return False

    async def twice() -> list[bool]:
        return [*await loop.gather([loop.spawn(ask, number) for number in range(2)]), await ask(0)]

    assert loop.run(twice) == [True] * 3
    assert readings.wanted == [2, 1]
