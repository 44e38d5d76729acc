"""Groups come and go for as long as a flow runs, and may be the same on both sides of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import METADATA
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.groups import group_sync, stored_checkpoints
from twinlog.mirror.groups.checkpoint_writer import CheckpointWriter
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator
from twinlog.mirror.groups.group_sync import GroupSync
from twinlog.mirror.offsets.segments import segments_topic
from twinlog.mirror.offsets.translator import Translator
from twinlog.mirror.records import Checkpoint
from twinlog.model.groups import CommittedOffset, GroupListing, GroupOffsets
from twinlog.model.types import Alias, GroupId, SourceOffset, TopicName, TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings

THERE = TopicPartition(TopicName("east.t"), 0)
NOBODY = ClientSettings(("127.0.0.1:1",))
SETTINGS = flow("east", "west", "default")
LISTED = {
    name: GroupListing(name, "consumer", "Stable" if number % 2 else "Empty", "classic")
    for number in range(3000)
    for name in [GroupId(f"g-{number}")]
}


class Groups:
    """In place of GroupAdmin: every second group is in use, every third takes no offsets."""

    def __init__(self, _: object) -> None:
        pass

    async def offsets(self, groups: list[GroupId]) -> tuple[dict[GroupId, GroupOffsets], dict[GroupId, int]]:
        return {group: {} for group in groups}, {}

    async def listed(self) -> dict[GroupId, GroupListing]:
        return LISTED

    async def refresh(self, topics: list[TopicName]) -> None:
        pass

    async def list_offsets(self, partitions: list[TopicPartition], at: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 5)

    async def commit(self, commits: dict[GroupId, GroupOffsets]) -> dict[GroupId, dict[TopicPartition, int]]:
        return {group: dict.fromkeys(offsets, 3) for group, offsets in commits.items() if int(group[2:]) % 3 == 0}


def call(step: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
    with pytest.raises(StopIteration) as ended:
        step(*args).send(None)
    return ended.value.value


def remembered(one: object) -> int:
    return sum(len(value) for value in vars(one).values() if isinstance(value, dict | set))


def test_offsets_of_groups_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_sync, "GroupAdmin", Groups)
    there = Groups(None)
    client = SimpleNamespace(lacks=lambda *_: "", refresh=there.refresh, list_offsets=there.list_offsets)
    positions: dict[GroupId, GroupOffsets] = {}
    admin = cast(ClusterAdmin, SimpleNamespace(call=call, client=client, clock=VirtualClock()))
    syncing = GroupSync(SETTINGS, admin, lambda: positions, lambda _group: {})
    for begin in range(0, 3000, 10):
        positions.clear()
        positions.update({GroupId(f"g-{number}"): {THERE: CommittedOffset(5)} for number in range(begin, begin + 10)})
        syncing.commit_offsets()
    assert remembered(syncing) <= 50


def test_checkpoints_of_groups_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_checkpoints, "FORGET_S", -1.0)
    admin = ClusterAdmin("west", NOBODY)
    try:
        writing = CheckpointWriter(
            SETTINGS, admin, admin, cast(GroupOffsetTranslator, SimpleNamespace(accepts=lambda _: True))
        )
        for number in range(300):
            group = GroupId(f"g-{number}")
            writing.stored._last[group][THERE] = Checkpoint(group, *THERE, 5, 5)
            writing._untranslated[group, TopicName("t")] = 0.0
            writing._forget({group: {THERE: CommittedOffset(5)}})
        assert remembered(writing) + remembered(writing.stored) <= 3
        assert list(writing.stored._last) == ["g-299"]
    finally:
        admin.close()


T, COPY, BACK = map(TopicName, ("t", "east.t", "west.t"))


@contextmanager
def translator(*, one_cluster: bool) -> Iterator[tuple[GroupOffsetTranslator, VirtualCluster]]:
    """Of a flow east->west that has run, as the one back has."""
    with virtual_loop(1) as loop:
        east = VirtualCluster(loop, "east")
        west = east if one_cluster else VirtualCluster(loop, "west")
        admins = [
            ClusterAdmin(alias, ClientSettings(cluster.bootstrap), VirtualLoop(loop.world))
            for alias, cluster in (("east", east), ("west", west))
        ]
        here, there = (ClientSettings(cluster.bootstrap) for cluster in (east, west))
        settings = FlowSettings(
            *(Alias("east"), Alias("west"), ConsumerSettings(here), ProducerSettings(there)),
            *(AdminSettings(here), AdminSettings(there)),
        )
        for cluster, alias in ((west, "east"), (east, "west")):
            cluster.create(f"mm2-offsets.{alias}.internal")
            cluster.create(segments_topic(Alias(alias)))
        try:
            for admin in admins:
                admin.connect()
            source, target = admins
            yield GroupOffsetTranslator(settings, source, target, Translator(settings, source, target)), east
        finally:
            for admin in admins:
                admin.close()


@pytest.mark.parametrize("one_cluster", [False, True])
def test_commits_in_copies_are_translated_between_two_clusters_alone(one_cluster: bool) -> None:
    with translator(one_cluster=one_cluster) as (found, east):
        assert found.accepts(T)
        assert {topic: found.accepts(topic) for topic in (COPY, BACK)} == dict.fromkeys((COPY, BACK), not one_cluster)
        assert found.is_copy_beside(BACK) is one_cluster
        asked = east.asked[METADATA]
        found.accepts(COPY)
        assert east.asked[METADATA] == asked
        found.refresh([T, BACK])
        assert found._way_back is not one_cluster
        assert found.translate_offset(TopicPartition(BACK, 0), SourceOffset(3)) is None
