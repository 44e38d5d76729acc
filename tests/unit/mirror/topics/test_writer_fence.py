"""The ACLs by which a login is the only writer of topics."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from twinlog.mirror.topics.other_writers import find_other_writers
from twinlog.mirror.topics.writer_fence import SoleWriter, sole_writer
from twinlog.model.acls import EVERY_TOPIC, Acl, AclOperation, AclPermissionType, PatternType, ResourceType
from twinlog.model.types import TopicName

OWN, TOPIC = "User:mirror", TopicName("a.t")


def acl(
    principal: str,
    operation: AclOperation = AclOperation.WRITE,
    name: str = TOPIC,
    pattern: PatternType = PatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> Acl:
    return Acl(ResourceType.TOPIC, name, principal, "*", operation, permission, pattern)


each_way_to_write = pytest.mark.parametrize(
    "there",
    [
        acl("User:app"),
        acl("User:app", AclOperation.ALL),
        acl("User:app", name=EVERY_TOPIC),
        acl("User:app", name="a.", pattern=PatternType.PREFIXED),
    ],
    ids=["topic", "all operations", "all topics", "prefix"],
)
"""The ACLs by which another login may write to the topic."""


def fence(acls: Sequence[Acl]) -> SoleWriter:
    return sole_writer(find_other_writers(acls, [TOPIC], OWN))


DENIED = str(acl("User:app", permission=AclPermissionType.DENY).of_topic)


@each_way_to_write
def test_each_other_login_is_denied_on_the_topic(there: Acl) -> None:
    found = fence([acl(OWN), there])
    assert [str(one) for one in found.acls] == [DENIED]
    assert found.open_topics == ()


def test_the_flow_and_denied_logins_get_no_acl() -> None:
    denied = acl("User:app", permission=AclPermissionType.DENY)
    assert fence([acl(OWN), acl("User:app"), denied, acl("User:ann", AclOperation.READ)]) == SoleWriter((), ())


def test_a_right_of_everybody_is_never_denied() -> None:
    found = fence([acl("User:*"), acl("User:app")])
    assert found.acls == ()
    assert found.open_topics == (
        "an ACL lets User:* write to a.t, and a DENY would concern the flow, too; remove this ACL",
    )
