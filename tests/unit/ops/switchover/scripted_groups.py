"""Clusters with a scripted group coordinator, for the groups of a switchover."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import LATEST
from twinlog.model.groups import CommittedOffset, GroupListing, GroupOffsets
from twinlog.model.topics import Topic
from twinlog.model.types import Alias, GroupId, TopicName, TopicPartition
from twinlog.ops.switchover.group_facts import SwitchoverGroups
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings

SHOP, ORDERS = GroupId("shop"), TopicName("orders")
P0 = TopicPartition(ORDERS, 0)
CLIENT = ClientSettings(("nowhere:9092",))


class ScriptedGroups:
    """A cluster whose coordinator answers with an error so many times, and then with these offsets."""

    def __init__(self, alias: str, offset: int, errors: int = 0, listing: ClusterError | None = None) -> None:
        self.alias = alias
        self.committed: GroupOffsets = {P0: CommittedOffset(offset, "")}
        self.errors = errors
        self.in_transaction = 0
        self.others: list[GroupId] = []
        self.asked: list[list[GroupId]] = []
        self.log: dict[TopicPartition, tuple[int, int]] = {}
        """Of partitions of new topics: where they start and end."""
        self.made = 0
        """How many partitions the new topic has, once it is made."""
        self.listing = listing
        self.hides = False
        self.state = "Empty"
        self.moves = False
        """As long as its coordinator has errors, no broker lists any group."""
        self.refuses: dict[GroupId, dict[TopicPartition, int]] = {}
        """The answer to commits."""
        self.client = SimpleNamespace(settings=CLIENT)
        self.clock = SimpleNamespace(sleep=lambda _seconds: None, monotonic=lambda: 0.0)

    def call(self, step: Callable[..., Any], *args: Any) -> Any:
        if step.__name__ == "listed":
            if self.listing is not None:
                raise self.listing
            if self.hides or (self.moves and self.errors):
                return {}
            return {name: GroupListing(name, "consumer", self.state) for name in (SHOP, *self.others)}
        if step.__name__ == "commit":
            return self.refuses
        assert step.__name__ in ("offsets", "stable_offsets"), args
        (groups,) = args
        self.asked.append(groups)
        quiet = {group: self.committed for group in groups if group in self.others}
        if self.in_transaction and step.__name__ == "stable_offsets":
            self.in_transaction -= 1
            return quiet, {SHOP: Code.UNSTABLE_OFFSET_COMMIT}
        if self.errors:
            self.errors -= 1
            wrong: Mapping[GroupId, int] = {SHOP: Code.NOT_COORDINATOR}
            return {}, wrong
        return {SHOP: self.committed} | quiet, {}

    def topics(self) -> dict[TopicName, Topic]:
        return {ORDERS: Topic(ORDERS, self.made)} if self.made else {}

    def offsets(self, parts: Collection[TopicPartition], *, latest: bool) -> dict[TopicPartition, int]:
        return {part: self.log[part][latest] for part in parts if part in self.log}

    def list_answered_offsets(self, parts: Collection[TopicPartition], at: int) -> dict[TopicPartition, int]:
        return self.offsets(parts, latest=at == LATEST)


def facts(source: ScriptedGroups, target: ScriptedGroups) -> SwitchoverGroups:
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
    groups = SwitchoverGroups(flow, back, cast("ClusterAdmin", source), cast("ClusterAdmin", target), flow)
    vars(groups)["_moves"] = SimpleNamespace(read=dict)
    vars(groups)["_returns"] = SimpleNamespace(read=dict, mark_ended=dict)
    return groups
