"""Of which groups somebody wants to hear why they have no checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.driver.test_topic_conflicts import flow
from twinlog.checkpoint.followed_groups import FollowedGroups
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.groups import Group
from twinlog.model.types import GroupId


def test_groups_of_copiers_need_no_checkpoints(caplog: pytest.LogCaptureFixture) -> None:
    groups = {
        GroupId(name): Group(GroupId(name), protocol, "Stable")
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
        "a->b: no checkpoints for group registry: it is no consumer group but one of sr"
    ]
