"""Which commits of a switchover the target would refuse: found before producers are fenced."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest

from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import DescribedCluster
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.acls import Acl, AclOperation, AclPermissionType, ResourceType
from twinlog.model.topics import DescribedTopic, Topic
from twinlog.model.types import GroupId, TopicName, TopicPartition
from twinlog.ops.switchover.commit_rights import find_refused_commits, groups_by_topic
from twinlog.ops.switchover.model import GroupOffset, MovedGroups, MovedTopic
from twinlog.settings.client import ClientSettings

SHOP, BILLING = GroupId("shop"), GroupId("billing")
ORDERS, COPY = TopicName("orders"), TopicName("east.orders")
P0, COPY0 = TopicPartition(ORDERS, 0), TopicPartition(COPY, 0)
MIRROR = "User:mirror"
READ = frozenset({AclOperation.READ, AclOperation.DESCRIBE})
MEND = (
    "`twinlog acls FILE --for switchover --missing` prints the command that grants it; else leave these groups out by"
)


class ScriptedTarget:
    """The answers of a cluster about the rights of `User:mirror`."""

    def __init__(self) -> None:
        self.alias = "west"
        settings = ClientSettings(("nowhere:9092",), security_protocol="SASL_PLAINTEXT", sasl_username="mirror")
        self.client = SimpleNamespace(settings=settings)
        self.groups: dict[GroupId, frozenset[int] | None] = {SHOP: READ, BILLING: READ}
        self.topics: dict[TopicName, frozenset[int] | None] = {COPY: READ}
        self.hides: set[TopicName] = set()
        """The topics on which the login lacks DESCRIBE."""
        self.acls: list[Acl] | None = None
        """None: the login may not read ACLs."""
        self.on_cluster: frozenset[int] = frozenset()

    def call(self, step: Callable[..., Any], *args: Any) -> Any:
        return getattr(self, f"_{step.__name__}")(*args)

    def _operations(self, groups: Collection[GroupId]) -> dict[GroupId, frozenset[int] | None]:
        return {group: self.groups[group] for group in groups if group in self.groups}

    def _describe_topics(self, _client: object, names: Collection[TopicName]) -> Any:
        known = {
            name: DescribedTopic(Topic(name, 1), 1, 0, operations)
            for name, operations in self.topics.items()
            if name in names
        }
        wrong = {
            name: Code.TOPIC_AUTHORIZATION_FAILED if name in self.hides else Code.UNKNOWN_TOPIC_OR_PARTITION
            for name in names
            if name not in known
        }
        return known, wrong

    def _describe_acls(self, _client: object) -> list[Acl]:
        if self.acls is None:
            raise RefusedError("no DESCRIBE on the cluster")
        return self.acls

    def _describe_cluster(self, _client: object) -> DescribedCluster:
        return DescribedCluster((1,), self.on_cluster)


def lines(target: ScriptedTarget, **commits: set[GroupId]) -> list[str]:
    wanted = {TopicName(name.replace("_", ".")): groups for name, groups in commits.items()}
    return find_refused_commits(cast("ClusterAdmin", target), wanted)


def test_a_login_with_read_on_both_is_refused_nowhere() -> None:
    assert lines(ScriptedTarget(), east_orders={SHOP, BILLING}) == []
    assert lines(ScriptedTarget()) == []


@pytest.mark.parametrize("operations", [frozenset(), frozenset({AclOperation.DESCRIBE, AclOperation.WRITE})])
def test_a_topic_without_read_is_named_with_its_groups(operations: frozenset[int]) -> None:
    target = ScriptedTarget()
    target.topics[COPY] = operations
    (line,) = lines(target, east_orders={SHOP, BILLING})
    assert line.startswith(
        "commits of billing, shop on west would be refused: User:mirror lacks READ on topic east.orders"
    )
    assert MEND in line


def test_a_group_without_read_is_named() -> None:
    target = ScriptedTarget()
    target.groups[SHOP] = frozenset({AclOperation.DESCRIBE})
    (line,) = lines(target, east_orders={SHOP, BILLING})
    assert line.startswith("commits of shop on west would be refused: User:mirror lacks READ on group shop of west; ")
    # Of brokers before Kafka 2.3 the rights are unknown.
    target.groups[SHOP] = target.topics[COPY] = None
    assert lines(target, east_orders={SHOP}) == []


def allow(operation: AclOperation) -> Acl:
    return Acl(ResourceType.TOPIC, ORDERS, MIRROR, "*", operation, AclPermissionType.ALLOW)


def test_rights_on_a_topic_that_is_yet_to_be_created() -> None:
    target = ScriptedTarget()
    # It may exist for the login, whose other rights are unknown.
    assert lines(target, orders={SHOP}) == []
    target.acls = [allow(AclOperation.CREATE), allow(AclOperation.DESCRIBE)]
    assert "lacks READ on topic orders of west" in lines(target, orders={SHOP})[0]
    target.on_cluster = frozenset({AclOperation.CLUSTER_ACTION})
    assert lines(target, orders={SHOP}) == []
    # ALL on the cluster makes no super user.
    every = Acl(ResourceType.CLUSTER, "kafka-cluster", MIRROR, "*", AclOperation.ALL, AclPermissionType.ALLOW)
    target.acls.append(every)
    assert "lacks READ on topic orders of west" in lines(target, orders={SHOP})[0]
    target.on_cluster, target.acls = frozenset(), [allow(AclOperation.READ)]
    assert lines(target, orders={SHOP}) == []
    # READ would include DESCRIBE.
    target.hides, target.acls = {ORDERS}, None
    assert "lacks READ on topic orders of west" in lines(target, orders={SHOP})[0]


def test_the_topics_in_which_groups_will_be_committed() -> None:
    def offset(group: str, there: int | None, present: int | None = None) -> GroupOffset:
        return GroupOffset(group, P0, 5, COPY0, there, present=present)

    moved = (MovedTopic(ORDERS, COPY, 1, ORDERS),)
    seen = MovedGroups({}, {"used": "Stable"}, (offset("shop", 5), offset("billing", None), offset("used", 5)))
    assert groups_by_topic(seen, moved, [COPY, ORDERS]) == {COPY: {SHOP, BILLING}}
    # A group that stands there already still begins in the topic that producers will write to.
    seen = MovedGroups({}, {}, (offset("shop", 5, present=5),))
    assert groups_by_topic(seen, moved, [COPY, ORDERS]) == {}
    assert groups_by_topic(seen, moved, [COPY]) == {ORDERS: {SHOP}}
