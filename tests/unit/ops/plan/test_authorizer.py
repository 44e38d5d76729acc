"""Rights on topics that are not there yet."""

from __future__ import annotations

import pytest

from twinlog.model.acls import Acl, AclOperation, AclPermissionType, PatternType, ResourceType
from twinlog.model.types import TopicName
from twinlog.ops.plan.obstacles import forbidden

ANN = "User:ann"


def acl(
    name: str,
    operation: AclOperation = AclOperation.WRITE,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    *,
    who: str = ANN,
    host: str = "*",
    prefix: bool = False,
    resource: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(
        resource, name, who, host, operation, permission, PatternType.PREFIXED if prefix else PatternType.LITERAL
    )


@pytest.mark.parametrize(
    "acls",
    [
        [],
        [acl("east.t")],
        [acl("east.", prefix=True)],
        [acl("*")],
        [acl("east.t", AclOperation.ALL)],
        [acl("east.t", who="User:*")],
        [acl("east.t", host="10.0.0.1")],
        [acl("east.t"), acl("east.t", permission=AclPermissionType.DENY, host="10.0.0.1")],
        # ACLs of other topics, and of groups, say nothing.
        [acl("east.other", who="User:bob"), acl("east.t", who="User:bob", resource=ResourceType.GROUP)],
        [acl("west.", who="User:bob", prefix=True)],
    ],
)
def test_what_may_be_allowed(acls: list[Acl]) -> None:
    assert not forbidden(acls, ANN, TopicName("east.t"), AclOperation.WRITE)


@pytest.mark.parametrize(
    "acls",
    [
        [acl("east.t", AclOperation.CREATE)],
        [acl("east.t", who="User:bob")],
        [acl("east.t", who="User:bob", permission=AclPermissionType.DENY)],
        [acl("east.t"), acl("east.", permission=AclPermissionType.DENY, prefix=True)],
        [acl("east.t"), acl("*", AclOperation.ALL, AclPermissionType.DENY, who="User:*")],
    ],
)
def test_what_is_surely_not(acls: list[Acl]) -> None:
    assert forbidden(acls, ANN, TopicName("east.t"), AclOperation.WRITE)
