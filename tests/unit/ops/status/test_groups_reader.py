"""A group whose coordinator does not answer is not taken for one that has committed nothing, or is not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.groups.group_offsets import TranslatedGroupOffset
from twinlog.mirror.groups.safe_move import Obstacle
from twinlog.mirror.records import Checkpoint
from twinlog.model.groups import CommittedOffset, GroupListing, GroupOffsets
from twinlog.model.types import Alias, GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.groups.command import lines, missing
from twinlog.ops.groups.reader import GroupsReader, GroupsSnapshot
from twinlog.ops.inventory import LogOffsets

SYNCED = replace(flow("a", "b", "default"), sync_group_offsets_interval_s=1.0)
SHOP, BILLING = GroupId("shop"), GroupId("billing")
HERE, THERE = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("a.t"), 0)


class Cluster:
    """The groups `shop` and `billing`; the coordinator of `shop` answers with `code` and does not list it."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.client = SimpleNamespace(connected=True)
        self.clock = VirtualClock()
        self.code = 0
        self.answers_at = float("inf")
        self.kept = True
        self.in_transaction = False
        """Whether `shop` has committed more in one, as its coordinator knows."""
        self.where = HERE if alias == "a" else THERE

    def call(self, step: Callable[..., Any], *args: Any) -> Any:
        code = self.code if self.clock.monotonic() < self.answers_at else 0
        there = [BILLING] if code else [BILLING, SHOP]
        if step.__name__ == GroupAdmin.listed.__name__:
            return {
                group: GroupListing(group, "consumer", "Stable" if self.alias == "a" else "Empty") for group in there
            }
        if step.__name__ == GroupAdmin.unlisted.__name__:
            return 1 if code == Code.COORDINATOR_NOT_AVAILABLE and self.kept else 0
        if step.__name__ == GroupAdmin.kept.__name__:
            return self.kept
        (groups,) = args
        committed: GroupOffsets = {self.where: CommittedOffset(5)}
        if self.in_transaction and step.__name__ == GroupAdmin.stable_offsets.__name__:
            code = code or Code.UNSTABLE_OFFSET_COMMIT
        wrong = {SHOP: int(code)} if code and SHOP in groups else {}
        return {group: committed for group in groups if group not in wrong}, wrong


class Scene:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.source, self.target = Cluster("a"), Cluster("b")

        def connect(alias: Alias, _: object) -> ClusterAdmin:
            return cast(ClusterAdmin, self.source if alias == "a" else self.target)

        self.reader = GroupsReader(SYNCED, connect=cast(Any, connect))
        for group in (SHOP, BILLING):
            checkpoint = Checkpoint(group, *THERE, SourceOffset(5), TargetOffset(5))
            self.reader._last[group] = {THERE: (checkpoint, 0)}
        monkeypatch.setattr(self.reader, "_read_checkpoints", lambda: None)
        monkeypatch.setattr(self.reader, "_learn", lambda _: None)
        monkeypatch.setattr(self.reader, "_logs", lambda *_: ({HERE: 5}, {THERE: LogOffsets(0, 5)}))
        monkeypatch.setattr(self.reader, "_copied", lambda *_: SourceOffset(5))
        found = TranslatedGroupOffset(THERE, TargetOffset(5), exact=True)
        monkeypatch.setattr(self.reader._translator, "translate_offset", lambda *_: found)
        monkeypatch.setattr(self.reader._translator, "past_copies", lambda *_: None)

    def read(self, *wanted: str) -> GroupsSnapshot:
        return self.reader.read(wanted)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_a_group_that_nobody_lists_is_shown_by_its_checkpoints(scene: Scene) -> None:
    scene.source.code = Code.COORDINATOR_NOT_AVAILABLE
    seen = scene.read()
    billing, shop = seen.groups
    assert (billing.group, shop.group) == (BILLING, SHOP)
    assert [reason.obstacle for reason in shop.reasons] == [Obstacle.SOURCE_SILENT]
    assert shop.partitions[0].facts.checkpoint_source == 5
    assert billing.safe
    assert seen.source_trouble is None
    assert (
        "partitions of __consumer_offsets without a leader: 1; the source does not list the groups there, and those "
        "without a checkpoint are not shown"
    ) in lines(seen)


@pytest.mark.parametrize(
    "code", [Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS]
)
def test_a_coordinator_that_moves_is_waited_for(scene: Scene, code: Code) -> None:
    scene.source.code, scene.source.answers_at = code, scene.source.clock.monotonic() + 1
    seen = scene.read()
    assert [group.group for group in seen.groups] == [BILLING, SHOP]
    assert [group.source_state for group in seen.groups] == ["Stable", "Stable"]
    assert (seen.unlisted, [part.facts.committed for group in seen.groups for part in group.partitions]) == (0, [5, 5])


def test_a_group_in_a_transaction_whose_coordinator_moves_may_not_move(scene: Scene) -> None:
    scene.source.in_transaction = True
    _, shop = scene.read().groups
    assert [reason.obstacle for reason in shop.reasons] == [Obstacle.IN_TRANSACTION]
    scene.source.code, scene.source.answers_at = Code.NOT_COORDINATOR, scene.source.clock.monotonic() + 1
    _, shop = scene.read().groups
    assert [reason.obstacle for reason in shop.reasons] == [Obstacle.IN_TRANSACTION]


def test_a_coordinator_of_the_target_without_a_leader_is_no_group_without_offsets(scene: Scene) -> None:
    scene.target.code = Code.COORDINATOR_NOT_AVAILABLE
    _, shop = scene.read().groups
    assert [reason.obstacle for reason in shop.reasons] == [Obstacle.TARGET_SILENT]


def test_a_target_that_never_had_a_group_is_no_silent_one(scene: Scene) -> None:
    scene.target.code, scene.target.kept = Code.COORDINATOR_NOT_AVAILABLE, False
    _, shop = scene.read().groups
    assert [reason.obstacle for reason in shop.reasons] == [Obstacle.NOT_COMMITTED]


def test_a_named_group_is_not_said_to_have_committed_nothing(scene: Scene) -> None:
    scene.source.code = Code.COORDINATOR_NOT_AVAILABLE
    scene.reader._last.clear()
    with pytest.raises(ClusterError, match=r"offsets of group shop could not be read: .*\(error code 15\)"):
        scene.read(SHOP)


def test_nobody_waits_for_no_group_where_some_cannot_be_listed() -> None:
    assert missing(GroupsSnapshot("a->b", 0, unlisted=2)) == (
        "a->b: partitions of __consumer_offsets without a leader: 2; the source does not list the groups there"
    )
