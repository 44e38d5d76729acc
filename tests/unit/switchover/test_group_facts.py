"""What is read of groups: nothing is taken for nothing that only could not be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.groups import CommittedOffset, Group, GroupOffsets
from twinlog.model.types import Alias, GroupId, TopicName, TopicPartition
from twinlog.settings.flow import AdminSettings, ClientSettings, ConsumerSettings, FlowSettings, ProducerSettings
from twinlog.switchover.group_facts import COMMIT_TRIES, GroupFacts
from twinlog.switchover.model import GroupsSeen, MovedTopic

SHOP, ORDERS = GroupId("shop"), TopicName("orders")
P0 = TopicPartition(ORDERS, 0)
CLIENT = ClientSettings(("nowhere:9092",))


class ScriptedGroups:
    """A cluster whose coordinator answers with an error so many times, and then with these offsets."""

    def __init__(self, alias: str, offset: int, errors: int = 0, listing: ClusterError | None = None) -> None:
        self.alias = alias
        self.offsets: GroupOffsets = {P0: CommittedOffset(offset, "")}
        self.errors = errors
        self.listing = listing
        self.client = SimpleNamespace()
        self.clock = SimpleNamespace(sleep=lambda _seconds: None, monotonic=lambda: 0.0)

    def call(self, step: Callable[..., Any], *args: Any) -> Any:
        if step.__name__ == "listed":
            if self.listing is not None:
                raise self.listing
            return {SHOP: Group(SHOP, "consumer", "Empty")}
        assert step.__name__ == "offsets", args
        if self.errors:
            self.errors -= 1
            wrong: Mapping[GroupId, int] = {SHOP: Code.NOT_COORDINATOR}
            return {}, wrong
        return {SHOP: self.offsets}, {}


def facts(source: ScriptedGroups, target: ScriptedGroups) -> GroupFacts:
    flow = FlowSettings(
        source=Alias("a"),
        target=Alias("b"),
        consumer=ConsumerSettings(CLIENT),
        producer=ProducerSettings(CLIENT),
        source_admin=AdminSettings(CLIENT),
        target_admin=AdminSettings(CLIENT),
        policy="identity",
    )
    back = replace(flow, source=flow.target, target=flow.source)
    return GroupFacts(flow, back, cast("ClusterAdmin", source), cast("ClusterAdmin", target), flow)


def seen(source: ScriptedGroups, target: ScriptedGroups) -> GroupsSeen:
    return facts(source, target).seen([MovedTopic(ORDERS, ORDERS, 1, ORDERS)], {P0: 10}, {P0: 25}, {})


def test_a_coordinator_that_moves_is_waited_for() -> None:
    (one,) = seen(ScriptedGroups("a", 10, errors=3), ScriptedGroups("b", 30, errors=3)).offsets
    assert (one.offset, one.there, one.present) == (10, 25, 30)


@pytest.mark.parametrize("silent", ["a", "b"])
def test_offsets_that_cannot_be_read_are_not_taken_for_none(silent: str) -> None:
    source, target = (
        ScriptedGroups(name, offset, COMMIT_TRIES if name == silent else 0) for name, offset in (("a", 10), ("b", 30))
    )
    with pytest.raises(ClusterError, match=f"cluster {silent}: offsets of group shop: ") as raised:
        seen(source, target)
    assert raised.value.retriable


@pytest.mark.parametrize("silent", ["a", "b"])
def test_groups_that_cannot_be_listed_are_not_taken_for_none(silent: str) -> None:
    source, target = (
        ScriptedGroups(name, 10, listing=ClusterError(f"{name} loads") if name == silent else None)
        for name in ("a", "b")
    )
    with pytest.raises(ClusterError, match=f"{silent} loads"):
        seen(source, target)
