"""Each partition of a copier is resolved by itself: one that cannot be does not hold back the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from twinlog.errors import ClusterError
from twinlog.kafka.client import EARLIEST
from twinlog.kafka.loop import Loop
from twinlog.kafka.metadata import Leader
from twinlog.offsets.positions import Position
from twinlog.task import resolve
from twinlog.task.grant import Grant
from twinlog.task.resolve import AT_ONCE, Resolver
from twinlog.types import TopicName, TopicPartition
from twinlog.write.appends import CopyRules

PARTITIONS = 10
BROKEN = 3


class Cluster:
    """Knows its partitions, which begin at 0 and end at 20; partition n is led by broker n % 2."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    async def refresh(self, _topics: Any) -> None:
        pass

    def leader(self, partition: TopicPartition) -> Leader:
        return Leader(partition.partition % 2, 0)

    def topic(self, _name: TopicName) -> None:
        return None

    async def list_offsets(self, partitions: Sequence[TopicPartition], at: int, **_: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0 if at == EARLIEST else 20)


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def grants() -> list[Grant]:
    """Partitions with ten records behind their positions."""
    source, remote = TopicName("t"), TopicName("north.t")
    return [
        Grant(TopicPartition(source, one), TopicPartition(remote, one), None, 1000, Position(10, 10), settled=True)
        for one in range(PARTITIONS)
    ]


def resolver(loop: Loop) -> Resolver:
    unused: Any = None
    cluster: Any = Cluster(loop)
    return Resolver(cluster, cluster, unused, CopyRules(), lambda *_: None)


@pytest.mark.timeout(20)
def test_one_that_fails_holds_back_no_other(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[int] = []
    most: list[int] = []

    async def resume(_source: Any, _target: Any, grant: Grant, *_: Any) -> Position:
        running.append(grant.source.partition)
        most.append(len(running))
        await loop.sleep(0.01)
        running.remove(grant.source.partition)
        if grant.source.partition == BROKEN:
            raise ClusterError("it cannot be read")
        return Position(20, 20)

    monkeypatch.setattr(resolve, "resume_behind_log_end", resume)
    monkeypatch.setattr(Resolver, "_lacks_marker", lambda *_: False)
    resolved = loop.run(resolver(loop).resolve, grants())
    assert [source.partition for source in resolved.errors] == [BROKEN]
    assert sorted(source.partition for source in resolved.positions) == [n for n in range(PARTITIONS) if n != BROKEN]
    assert max(most) == AT_ONCE


def test_grants_are_told_apart_by_the_brokers_that_they_need(loop: Loop) -> None:
    apart = resolver(loop).apart(grants())
    assert [[grant.source.partition for grant in group] for group in apart] == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
