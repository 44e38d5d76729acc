"""What old brokers lack, and what is asked of them instead."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.clock import SYSTEM
from twinlog.errors import RefusedError
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.admin.topics import alter_command, ask_for_topics
from twinlog.kafka.leader_epochs import EpochOrder, compare_leader_epochs
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.topics import NewTopic
from twinlog.model.types import GroupId, TopicName, TopicPartition
from twinlog.settings.client import ClientSettings

FACTOR = "default.replication.factor"


class OldCluster:
    """Three brokers without newer requests; `factor` is their own number of replicas, None where it may not be read."""

    alias = "west"
    settings = ClientSettings(("a:9092", "b:9092"))
    loop = SimpleNamespace(clock=SYSTEM)

    def __init__(self, factor: str | None = "2", *, old: bool = True) -> None:
        self.factor = factor
        self.old = old
        self.created: list[int] = []

    def supports(self, api_key: int, version: int = 0) -> bool:
        return not self.old

    def lacks(self, operation: str, resource: str, purpose: str) -> RefusedError:
        return RefusedError(f"cluster west: it lacks {operation} on {resource}, needed for {purpose}")

    async def nodes(self, age_s: float = 0.0) -> list[int]:
        return [1, 2, 3]

    async def send_request(self, request: Any, node: int | None = None, timeout_s: float | None = None) -> Any:
        if request.name == "ListGroupsRequest":
            groups = [SimpleNamespace(group_id=f"g{node}", protocol_type="consumer", group_state=None, group_type=None)]
            return SimpleNamespace(error_code=0, groups=groups, API_VERSION=2)
        if request.name == "DescribeGroupsRequest":
            seen = [SimpleNamespace(group_id=group, error_code=0, group_state="Empty") for group in request.groups]
            return SimpleNamespace(groups=seen)
        entries = [SimpleNamespace(name=FACTOR, value=self.factor, config_source=5, read_only=True, is_sensitive=False)]
        code = 31 if self.factor is None else 0
        return SimpleNamespace(results=[SimpleNamespace(error_code=code, configs=entries)])

    async def ask_controller(self, request: Any, timeout_s: float) -> None:
        self.created += [topic.replication_factor for topic in request.topics]


@pytest.mark.parametrize(
    ("factor", "old", "created"), [("2", True, [2, 4]), (None, True, [3, 4]), ("2", False, [-1, 4])]
)
def test_the_brokers_number_of_replicas(
    factor: str | None, old: bool, created: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    cluster: Any = OldCluster(factor, old=old)
    topics = [NewTopic(TopicName("a"), 1, -1), NewTopic(TopicName("b"), 1, 4)]
    asyncio.run(ask_for_topics(cluster, topics))
    assert cluster.created == created
    assert ("lacks DESCRIBE_CONFIGS on the cluster" in caplog.text) is (factor is None)
    assert ("new topics get 3 replicas" in caplog.text) is (factor is None)


def test_groups_have_their_states(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster: Any = OldCluster()
    admin = GroupAdmin(cluster)

    async def one_by_one(asked: list[tuple[int, Any]]) -> list[Any]:
        return [await cluster.send_request(request, node) for node, request in asked]

    monkeypatch.setattr(admin, "_ask_all", one_by_one)
    found = asyncio.run(admin.listed())
    assert {name: group.empty for name, group in found.items()} == dict.fromkeys(map(GroupId, ("g1", "g2", "g3")), True)


def test_the_command_for_an_operator_is_one_that_works() -> None:
    new: Any = OldCluster(old=False)
    text = "--alter --entity-type topics --entity-name t --add-config cleanup.policy=compact"
    settings = {"cleanup.policy": "compact"}
    assert alter_command(new, TopicName("t"), settings) == f"kafka-configs.sh --bootstrap-server a:9092,b:9092 {text}"
    old: Any = OldCluster()
    assert alter_command(old, TopicName("t"), settings) == (
        f"kafka-configs.sh (that of the brokers' own release) --zookeeper HOST:2181 {text}"
    )


def test_a_broker_that_compares_no_epochs_is_not_believed() -> None:
    old: Any = OldCluster()
    part = TopicPartition(TopicName("t"), 0)
    assert asyncio.run(compare_leader_epochs(old, {part: 3})) == {part: (EpochOrder.UNKNOWN, -1)}


def test_each_leader_compares_for_itself_and_a_silent_one_keeps_no_other_from_its_answer() -> None:
    same, older, newer, silent, unread = (TopicPartition(TopicName("t"), number) for number in range(5))

    async def list_offsets(asked: Any, at: int, *, errors: dict[Any, int], **_: Any) -> dict[Any, int]:
        assert unread not in asked
        errors |= {older: Code.UNKNOWN_LEADER_EPOCH, newer: Code.FENCED_LEADER_EPOCH, silent: Code.LEADER_NOT_AVAILABLE}
        return {same: 70}

    new: Any = OldCluster(old=False)
    new.list_offsets = list_offsets
    epochs = {same: 3, older: 3, newer: 3, silent: 3, unread: -1}
    assert asyncio.run(compare_leader_epochs(new, epochs)) == {
        same: (EpochOrder.SAME, 70),
        older: (EpochOrder.OLDER, -1),
        newer: (EpochOrder.NEWER, -1),
        unread: (EpochOrder.UNKNOWN, -1),
    }
