"""Who cannot read a topic of its own names the partition, and what its broker answered."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.metadata import Leader, TopicMetadata
from twinlog.kafka.protocol.offsets import EARLIEST, LATEST
from twinlog.model.types import Alias, TopicName, TopicPartition

TOPIC = TopicName("positions")
NOT_LEADER, UNKNOWN, NO_LISTENER, INVALID = 6, 3, 72, 17


class Cluster:
    """What a cluster answers about the topic; `refuses` are the codes by which leaders refuse to return an offset."""

    def __init__(self, *, error: int = 0, leaderless: dict[int, int] | None = None) -> None:
        self.alias = Alias("south")
        self.loop = SimpleNamespace(clock=VirtualClock())
        self.error = error
        self.leaderless = leaderless or {}
        self.refuses: dict[int, dict[int, int]] = {EARLIEST: {}, LATEST: {}}

    async def refresh(self, topics: Collection[TopicName]) -> dict[TopicName, TopicMetadata]:
        leaders = {number: Leader(1, 0) for number in range(3) if number not in self.leaderless}
        found = TopicMetadata(TOPIC, uuid.UUID(int=1), leaders, self.error, 3, errors=self.leaderless)
        return dict.fromkeys(topics, found)

    async def list_offsets(
        self, partitions: Collection[TopicPartition], at: int, *, errors: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        refused = {part: code for part in partitions if (code := self.refuses[at].get(part.partition))}
        errors.update(refused)
        return {part: 0 for part in partitions if part not in refused}

    def read(self) -> list[Any]:
        admin = SimpleNamespace(alias=self.alias, client=self, call=lambda step, *args: asyncio.run(step(*args)))
        return list(TopicReader(cast(ClusterAdmin, admin), TOPIC).read())


def refusal(cluster: Cluster) -> str:
    with pytest.raises(ClusterError) as raised:
        cluster.read()
    return str(raised.value)


def test_a_complete_topic_is_read() -> None:
    assert Cluster().read() == []


def test_only_a_topic_that_is_gone_does_not_exist() -> None:
    assert refusal(Cluster(error=UNKNOWN)) == "cluster south: topic positions does not exist"
    assert re.fullmatch(
        r"cluster south: topic positions cannot be read: .+ \(error code 17\)", refusal(Cluster(error=INVALID))
    )


def test_partitions_without_a_leader_are_named() -> None:
    text = refusal(Cluster(leaderless={1: NO_LISTENER, 2: 5}))
    assert re.fullmatch(
        r"cluster south: positions-1 does not report where it ends \(nor do 1 more\): .+ code 72\)", text
    )


@pytest.mark.parametrize(("at", "what"), [(LATEST, "ends"), (EARLIEST, "begins")])
def test_a_leader_without_an_offset_is_named(at: int, what: str) -> None:
    cluster = Cluster()
    cluster.refuses[at] = {2: NOT_LEADER}
    assert re.fullmatch(rf"cluster south: positions-2 does not report where it {what}: .+ code 6\)", refusal(cluster))
