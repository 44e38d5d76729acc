"""Which rights on source topics become which rights on remote topics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinlog.mirror.topics.acls import remote_acl
from twinlog.mirror.topology.filters import DefaultTopicFilter
from twinlog.mirror.topology.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.mirror.topology.topology import Topology
from twinlog.model.acls import AclOperation, AclPermissionType, PatternType, TopicAcl
from twinlog.model.types import Alias, TopicName

EAST, WEST = Alias("east"), Alias("west")
FLOW = Topology(EAST, WEST, DefaultReplicationPolicy(), DefaultTopicFilter((r"orders.*", r".*\.orders")))
IDENTITY = Topology(EAST, WEST, IdentityReplicationPolicy(source=EAST), DefaultTopicFilter())
READ = TopicAcl(TopicName("orders"), "User:ann", "10.0.0.1", AclOperation.READ, AclPermissionType.ALLOW)


@pytest.mark.parametrize(
    "operation", [AclOperation.READ, AclOperation.DESCRIBE, AclOperation.ALTER, AclOperation.DELETE, 99]
)
@pytest.mark.parametrize("permission", [AclPermissionType.ALLOW, AclPermissionType.DENY])
def test_a_right_stays_what_it_is(operation: int, permission: AclPermissionType) -> None:
    acl = replace(READ, operation=operation, permission=permission)
    assert remote_acl(FLOW, acl) == replace(acl, topic=TopicName("east.orders"))
    assert remote_acl(IDENTITY, acl) == acl


def test_only_the_flow_writes_to_remote_topics() -> None:
    assert remote_acl(FLOW, replace(READ, operation=AclOperation.WRITE)) is None
    everything = replace(READ, operation=AclOperation.ALL)
    assert remote_acl(FLOW, everything) == replace(READ, topic=TopicName("east.orders"))
    for operation in (AclOperation.WRITE, AclOperation.ALL):
        denied = replace(READ, operation=operation, permission=AclPermissionType.DENY)
        assert remote_acl(FLOW, denied) == replace(denied, topic=TopicName("east.orders"))


@pytest.mark.parametrize("topic", ["other", "west.orders", "mm2-offsets.west.internal", "*"])
def test_rights_on_what_is_not_mirrored_stay(topic: str) -> None:
    assert remote_acl(FLOW, replace(READ, topic=TopicName(topic))) is None


def test_all_topics_of_the_source_are_not_all_topics_of_the_target() -> None:
    assert remote_acl(IDENTITY, replace(READ, topic=TopicName("*"))) is None


def test_prefixes_are_left_out() -> None:
    assert remote_acl(FLOW, replace(READ, pattern=PatternType.PREFIXED)) is None


def test_a_right_reads_like_a_sentence() -> None:
    assert str(READ) == "ALLOW READ on orders for User:ann from 10.0.0.1"
    assert str(replace(READ, operation=99)) == "ALLOW 99 on orders for User:ann from 10.0.0.1"
