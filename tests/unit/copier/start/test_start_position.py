"""Each partition of a copier is resolved by itself: one that cannot be does not hold back the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.copier.start import start_position, translated_position
from twinlog.copier.start.first_look import LogBounds, LogsAtRest
from twinlog.copier.start.resume_after_crash import Resumed
from twinlog.copier.start.start_position import OF_TWO_LEADERS, StartPosition, StartPositions
from twinlog.errors import ClusterError
from twinlog.kafka.metadata import Leader
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.offsets import EARLIEST
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import Alias, TopicName, TopicPartition

PARTITIONS = 10
BROKEN = 3


class Cluster:
    """Knows its partitions, which begin at 0 and end at 20; partition n is led by broker n % 2."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    async def refresh(self, _topics: Any) -> None:
        pass

    refresh_soon = refresh

    def open_for_data(self, _partitions: Any) -> None:
        pass

    def leader(self, partition: TopicPartition) -> Leader | None:
        return Leader(partition.partition % 2, 0)

    def topic(self, _name: TopicName) -> None:
        return None

    async def list_offsets(self, partitions: Sequence[TopicPartition], at: int, **_: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0 if at == EARLIEST else 20)


class Slow(Cluster):
    """Notes how many questions wait for an answer at the same time; two clusters note in one list."""

    def __init__(self, loop: Loop, waiting: list[str], most: list[set[str]]) -> None:
        super().__init__(loop)
        self._waiting = waiting
        self._most = most

    async def _wait(self, what: str) -> None:
        self._waiting.append(what)
        self._most.append(set(self._waiting))
        await self.loop.sleep(0.02)
        self._waiting.remove(what)

    async def refresh(self, topics: Any) -> None:
        await self._wait(f"leaders of {max(topics)}")

    async def list_offsets(self, partitions: Sequence[TopicPartition], at: int, **_: Any) -> dict[TopicPartition, int]:
        await self._wait(f"offsets of {partitions[0].topic}")
        return await super().list_offsets(partitions, at)


def grants() -> list[Grant]:
    """Partitions with ten records after their positions."""
    source, remote = TopicName("t"), TopicName("north.t")
    return [
        Grant(TopicPartition(source, one), TopicPartition(remote, one), None, 1000, Position(10, 10), drained=True)
        for one in range(PARTITIONS)
    ]


def start_positions(loop: Loop, cluster: Any = None) -> StartPositions:
    cluster = cluster or Cluster(loop)
    settings = replace(SETTINGS, source=Alias("north"))
    return StartPositions(cluster, cluster, settings, lambda *_: None, LogsAtRest(cluster))


def test_no_cluster_waits_for_the_other(loop: Loop) -> None:
    """What is asked of both is asked at once, and leaders that were just returned are not asked for again."""
    asked: list[set[str]] = []
    fresh = [replace(grant, position=None) for grant in grants()]
    slow = start_positions(loop, Slow(loop, [], asked))

    async def begin() -> StartPosition:
        await slow.refresh(fresh)
        return await slow.find_positions(fresh, refreshed=True)

    assert len(loop.run(begin).positions) == PARTITIONS
    assert len(asked) == 4
    assert {"leaders of t", "leaders of north.t"} in asked
    assert {"offsets of t", "offsets of north.t"} in asked


def test_one_whose_source_has_no_leader_says_so_and_holds_back_no_other(loop: Loop) -> None:
    class Leaderless(Cluster):
        alias = "north"

        def leader(self, partition: TopicPartition) -> Leader | None:
            return None if (partition.topic, partition.partition) == ("t", BROKEN) else super().leader(partition)

    fresh = [replace(grant, position=None) for grant in grants()]
    resolved = loop.run(start_positions(loop, Leaderless(loop)).find_positions, fresh)
    missing = TopicPartition(TopicName("t"), BROKEN)
    assert {source: str(error) for source, error in resolved.errors.items()} == {
        missing: f"cluster north: {missing} has no leader"
    }
    assert resolved.positions.keys() == {grant.source for grant in fresh} - {missing}


def test_one_that_fails_holds_back_no_other(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[int] = []
    most: list[int] = []

    async def resume(_source: Any, _target: Any, grant: Grant, *_: Any, **__: Any) -> Resumed:
        running.append(grant.source.partition)
        most.append(len(running))
        await loop.sleep(0.01)
        running.remove(grant.source.partition)
        if grant.source.partition == BROKEN:
            raise ClusterError("it cannot be read")
        return Resumed(Position(20, 20), [CopiedRun(10, 10, 10)])

    async def look(*_: Any, **__: Any) -> tuple[dict[TopicPartition, LogBounds], None]:
        return {}, None

    monkeypatch.setattr(start_position, "look", look)
    monkeypatch.setattr(translated_position, "resume_after_log_end", resume)
    both = start_positions(loop)

    async def begin() -> list[StartPosition]:
        # Those that need other brokers begin by themselves, and share what may be read at a time.
        return await loop.gather([loop.spawn(both.find_positions, group) for group in both.group_by_leader(grants())])

    groups = loop.run(begin)
    assert [source.partition for resolved in groups for source in resolved.errors] == [BROKEN]
    begun = sorted(source.partition for resolved in groups for source in resolved.positions)
    assert all(list(resolved.runs) == list(resolved.positions) for resolved in groups)
    assert begun == [n for n in range(PARTITIONS) if n != BROKEN]
    assert max(most) == 2 * OF_TWO_LEADERS


def test_grants_are_grouped_by_the_brokers_that_they_need(loop: Loop) -> None:
    apart = start_positions(loop).group_by_leader(grants())
    assert [[grant.source.partition for grant in group] for group in apart] == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
