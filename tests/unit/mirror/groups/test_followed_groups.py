"""Of which groups somebody wants to hear why they have no checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.groups.followed_groups import HIDDEN_LOOK_S, FollowedGroups, why_without
from twinlog.mirror.unlisted_topics import HiddenOffsets
from twinlog.model.groups import CommittedOffset, GroupListing, GroupOffsets
from twinlog.model.types import GroupId, TopicName, TopicPartition


def test_groups_of_copiers_need_no_checkpoints(caplog: pytest.LogCaptureFixture) -> None:
    groups = {
        GroupId(name): GroupListing(GroupId(name), protocol, "Stable")
        for name, protocol in (("a-mm2", "twinlog"), ("mm2", "connect"), ("registry", "sr"), ("g", "consumer"))
    }

    def listed() -> Any:
        return groups

    def offsets(wanted: list[GroupId]) -> Any:
        assert wanted == ["g"]
        return {}, {}

    def call(step: Callable[..., Any], *args: Any) -> Any:
        return step(*args)

    source = SimpleNamespace(client=None, call=call, clock=VirtualClock())
    followed = FollowedGroups(flow("a", "b"), cast(ClusterAdmin, source), lambda _: True)
    followed._admin = SimpleNamespace(listed=listed, offsets=offsets)  # type: ignore[assignment]
    with caplog.at_level(logging.INFO, "twinlog"):
        followed.read()
    assert [record.getMessage() for record in caplog.records] == [
        "a->b: no checkpoints for group registry: its kind is sr, and the flow follows consumer groups"
    ]


class MovingGroups:
    """In place of GroupAdmin: nobody lists its group while the coordinator moves, and it may be deleted."""

    def __init__(self) -> None:
        self.moves = False
        self.committed: GroupOffsets = {TopicPartition(TopicName("t"), 0): CommittedOffset(5)}

    def listed(self) -> dict[GroupId, GroupListing]:
        here = {SHOP: GroupListing(SHOP, "consumer", "Stable")}
        return here if self.committed and not self.moves else {}

    def offsets(self, wanted: list[GroupId]) -> tuple[dict[GroupId, GroupOffsets], dict[GroupId, int]]:
        if self.moves:
            return {}, dict.fromkeys(wanted, int(Code.COORDINATOR_NOT_AVAILABLE))
        return dict.fromkeys(wanted, self.committed), {}


SHOP = GroupId("shop")


def test_a_group_is_followed_on_while_nobody_lists_it_because_its_coordinator_moves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    groups, clock = MovingGroups(), VirtualClock()
    source = SimpleNamespace(client=None, call=lambda step, *args: step(*args), clock=clock)
    followed = FollowedGroups(flow("a", "b"), cast(ClusterAdmin, source), lambda _: True)
    followed._admin = groups  # type: ignore[assignment]

    def looked() -> Any:
        clock.sleep(3600)
        return followed.read()

    with caplog.at_level(logging.INFO, "twinlog"):
        assert looked() == ({SHOP: groups.committed}, {})
        groups.moves = True
        for _ in range(3):
            assert looked() == ({SHOP: groups.committed}, {SHOP: Code.COORDINATOR_NOT_AVAILABLE})
        groups.moves = False
        groups.committed = {where: CommittedOffset(7) for where in groups.committed}
        assert looked() == ({SHOP: groups.committed}, {})
        groups.committed = {}
        for _ in range(2):
            assert looked() == ({}, {})
        assert followed._groups == []
    assert [record.getMessage() for record in caplog.records if "can be seen" not in record.getMessage()] == []


def test_a_topic_that_the_login_may_not_describe_is_named_as_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    groups, clock, asked = MovingGroups(), VirtualClock(), []
    hidden = HiddenOffsets((TopicName("t"),), "cluster a: User:mirror lacks DESCRIBE on topic t, needed for reading")

    def find_hidden() -> HiddenOffsets | None:
        asked.append(clock.monotonic())
        return None if groups.committed else hidden

    source = SimpleNamespace(client=None, call=lambda step, *args: step(*args), clock=clock)
    followed = FollowedGroups(flow("a", "b"), cast(ClusterAdmin, source), lambda _: True, find_hidden)
    listed = groups.listed()
    groups.listed = lambda: listed  # type: ignore[method-assign]
    followed._admin = groups  # type: ignore[assignment]
    with caplog.at_level(logging.INFO, "twinlog"):
        followed.read()
        assert asked == [], "each look costs a list of all topics"
        committed, groups.committed = groups.committed, {}
        for _ in range(3):
            clock.sleep(1)
            assert followed.read() == ({}, {})
        assert len(asked) == 1
        clock.sleep(HIDDEN_LOOK_S)
        followed.read()
        assert len(asked) == 2
        groups.committed = committed
        assert followed.read() == ({SHOP: committed}, {})
    assert [record.getMessage() for record in caplog.records] == [
        f"TW-RIGHT-02: a->b: no checkpoints for group shop: {why_without(hidden)}"
    ]
