"""Groups come and go for as long as a flow runs; what is remembered of them does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.groups import checkpoint_writer as writer
from twinlog.mirror.groups import group_sync
from twinlog.mirror.groups.checkpoint_writer import CheckpointWriter
from twinlog.mirror.groups.checkpoints import Checkpoint
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator
from twinlog.mirror.groups.group_sync import GroupSync
from twinlog.model.groups import CommittedOffset, GroupListing, GroupOffsets
from twinlog.model.types import Alias, GroupId, TopicName, TopicPartition
from twinlog.settings.flow import AdminSettings, ClientSettings, ConsumerSettings, FlowSettings, ProducerSettings

THERE = TopicPartition(TopicName("east.t"), 0)
NOBODY = ClientSettings(("127.0.0.1:1",))
SETTINGS = FlowSettings(
    Alias("east"),
    Alias("west"),
    ConsumerSettings(NOBODY),
    ProducerSettings(NOBODY),
    AdminSettings(NOBODY),
    AdminSettings(NOBODY),
)
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
    client = SimpleNamespace(lacks=lambda *_: "")
    positions: dict[GroupId, GroupOffsets] = {}
    syncing = GroupSync(
        SETTINGS, cast(ClusterAdmin, SimpleNamespace(call=call, client=client, clock=VirtualClock())), lambda: positions
    )
    for begin in range(0, 3000, 10):
        positions.clear()
        positions.update({GroupId(f"g-{number}"): {THERE: CommittedOffset(5)} for number in range(begin, begin + 10)})
        syncing.commit_offsets()
    assert remembered(syncing) <= 50


def test_checkpoints_of_groups_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FORGET_S", -1.0)
    admin = ClusterAdmin("west", NOBODY)
    try:
        writing = CheckpointWriter(
            SETTINGS, admin, admin, cast(GroupOffsetTranslator, SimpleNamespace(accepts=lambda _: True))
        )
        for number in range(300):
            group = GroupId(f"g-{number}")
            writing._last[group][THERE] = Checkpoint(group, *THERE, 5, 5)
            writing._untranslated[group, TopicName("t")] = 0.0
            writing._forget({group: {THERE: CommittedOffset(5)}})
        assert remembered(writing) <= 3
        assert list(writing._last) == ["g-299"]
    finally:
        admin.close()
