"""What a principal may do with a topic that is not there yet, by a cluster's ACLs."""

from __future__ import annotations

from collections.abc import Iterable

from twinlog.model.acls import EVERY_TOPIC, Acl, Operation, Pattern, Permission, Resource
from twinlog.model.types import TopicName

EVERYBODY = "User:*"


def forbidden(acls: Iterable[Acl], principal: str, topic: TopicName, operation: Operation) -> bool:
    """Whether ACLs keep `principal` from an operation on `topic` (rules of Kafka class StandardAuthorizerData).

    Without any ACL on the topic the brokers' `allow.everyone.if.no.acl.found` decides, which cannot be read: False
    then. A right for one host counts as one for every host.
    """
    here = [acl for acl in acls if acl.resource == Resource.TOPIC and _covers(acl, topic)]
    mine = [
        acl for acl in here if acl.principal in (principal, EVERYBODY) and acl.operation in (operation, Operation.ALL)
    ]
    if any(acl.permission == Permission.DENY and acl.host == "*" for acl in mine):
        return True
    return bool(here) and not any(acl.permission == Permission.ALLOW for acl in mine)


def _covers(acl: Acl, topic: TopicName) -> bool:
    if acl.pattern == Pattern.PREFIXED:
        return topic.startswith(acl.name)
    return acl.name in (topic, EVERY_TOPIC)
