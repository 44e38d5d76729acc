"""Rights as values, as a cluster's authorizer keeps them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from twinlog.model.types import TopicName

EVERYBODY, ANYWHERE = "User:*", "*"
"""The principal and the host of a right that counts for each login, and from each host."""

EVERY_TOPIC = TopicName("*")
"""The literal name that an authorizer takes for all topics, and for all resources of another kind."""


CLUSTER_NAME = "kafka-cluster"
"""The name that an authorizer has for the cluster itself."""


class ResourceType(IntEnum):
    """The kind of a right's resource (Kafka class ResourceType)."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(IntEnum):
    """The operation that a right allows or denies (Kafka class AclOperation)."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class AclPermissionType(IntEnum):
    """Whether a right is given or denied (Kafka class AclPermissionType)."""

    DENY = 2
    ALLOW = 3


class PatternType(IntEnum):
    """Whether the name of a right is a whole name or a prefix (Kafka class PatternType)."""

    LITERAL = 3
    PREFIXED = 4


@dataclass(frozen=True, slots=True)
class TopicAcl:
    """A right of a principal (`User:name`) from a host (`*`: any) on a topic.

    `operation`, `permission` and `pattern` are numbers of the enumerations above, or newer numbers.
    """

    topic: TopicName
    principal: str
    host: str
    operation: int
    permission: int
    pattern: int = PatternType.LITERAL

    def __str__(self) -> str:
        operation = AclOperation(self.operation).name if self.operation in set(AclOperation) else str(self.operation)
        permission = "DENY" if self.permission == AclPermissionType.DENY else "ALLOW"
        return f"{permission} {operation} on {self.topic} for {self.principal} from {self.host}"


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """A right on a resource of any kind; `resource` is a number of `ResourceType`, or a newer number."""

    resource: int
    name: str
    principal: str
    host: str
    operation: int
    permission: int
    pattern: int = PatternType.LITERAL

    def __str__(self) -> str:
        kind = (
            ResourceType(self.resource).name.lower()
            if self.resource in set(ResourceType)
            else f"resource {self.resource}"
        )
        operation = AclOperation(self.operation).name if self.operation in set(AclOperation) else str(self.operation)
        permission = "DENY" if self.permission == AclPermissionType.DENY else "ALLOW"
        prefix = "prefix " if self.pattern == PatternType.PREFIXED else ""
        kind = kind.replace("_", " ")
        return f"{permission} {operation} on {kind} {prefix}{self.name} for {self.principal} from {self.host}"

    @property
    def of_topic(self) -> TopicAcl:
        """The same right as a right on a topic."""
        return TopicAcl(TopicName(self.name), self.principal, self.host, self.operation, self.permission, self.pattern)


IMPLIED: Mapping[int, frozenset[int]] = {
    AclOperation.DESCRIBE: frozenset({AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}
"""The operations whose ALLOW includes the ALLOW of another operation (Kafka class AclAuthorizer)."""


def includes(acl: Acl, other: Acl) -> bool:
    """Whether an ACL alone has the effect of another ACL: for its principal, host, operation and all its resources."""
    if (acl.resource, acl.permission) != (other.resource, other.permission):
        return False
    if acl.principal not in (other.principal, EVERYBODY) or acl.host not in (other.host, ANYWHERE):
        return False
    implied = IMPLIED.get(other.operation, frozenset()) if acl.permission == AclPermissionType.ALLOW else ()
    if acl.operation not in (other.operation, AclOperation.ALL, *implied):
        return False
    if acl.pattern == PatternType.PREFIXED:
        return other.name.startswith(acl.name) and (other.name, other.pattern) != (EVERY_TOPIC, PatternType.LITERAL)
    return acl.name == EVERY_TOPIC or (acl.name, acl.pattern) == (other.name, other.pattern)


def passes_acls(acls: Iterable[Acl], principal: str, on_cluster: Collection[int] | None) -> bool:
    """Whether a login is a super user: it has CLUSTER_ACTION, which brokers alone need, and no ACL gives that.

    `on_cluster` are the operations that a broker reports for this login on the cluster, None if unknown.
    """
    action, allow = AclOperation.CLUSTER_ACTION, AclPermissionType.ALLOW
    given = Acl(ResourceType.CLUSTER, CLUSTER_NAME, principal, ANYWHERE, action, allow)
    return action in (on_cluster or ()) and not any(includes(replace(acl, host=ANYWHERE), given) for acl in acls)


class AclIndex:
    """ACLs of a cluster by principal and name, so that the ACLs around a single ACL are found at once."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._named: defaultdict[tuple[str, str], list[Acl]] = defaultdict(list)
        self._prefixed: defaultdict[str, list[Acl]] = defaultdict(list)
        for acl in acls:
            if acl.pattern == PatternType.PREFIXED:
                self._prefixed[acl.principal].append(acl)
            else:
                self._named[acl.principal, acl.name].append(acl)

    def gives(self, acl: Acl, without: Acl | None = None) -> bool:
        """Whether an ACL other than `without` includes `acl`."""
        return any(
            includes(one, acl)
            for principal in (acl.principal, EVERYBODY)
            for some in (
                self._named.get((principal, acl.name), ()),
                self._named.get((principal, EVERY_TOPIC), ()),
                self._prefixed.get(principal, ()),
            )
            for one in some
            if one != without
        )


def acls_data(acls: Iterable[TopicAcl]) -> list[dict[str, Any]]:
    """Rights as values of JSON."""
    return [
        {
            "topic": acl.topic,
            "principal": acl.principal,
            "host": acl.host,
            "operation": int(acl.operation),
            "permission": int(acl.permission),
            "pattern": int(acl.pattern),
        }
        for acl in acls
    ]


def acls_of(data: Iterable[Mapping[str, Any]]) -> list[TopicAcl]:
    """The rights that `acls_data` made."""
    return [
        TopicAcl(
            TopicName(one["topic"]),
            one["principal"],
            one["host"],
            one["operation"],
            one["permission"],
            one["pattern"],
        )
        for one in data
    ]


def covers(pattern: int, name: str, wanted: str) -> bool:
    """Whether the name of a right is the name, or by its `pattern` a prefix of the name, of the wanted resource."""
    if pattern == PatternType.PREFIXED:
        return wanted.startswith(name)
    return name in (wanted, EVERY_TOPIC)


def rights_on(acls: Iterable[Acl], name: str, kind: ResourceType = ResourceType.TOPIC) -> list[Acl]:
    """The rights that count for a resource, by default a topic."""
    return [acl for acl in acls if acl.resource == kind and covers(acl.pattern, acl.name, name)]


def forbidden(
    acls: Iterable[Acl],
    principal: str,
    name: str,
    operation: AclOperation,
    kind: ResourceType = ResourceType.TOPIC,
) -> bool:
    """Whether ACLs keep `principal` from an operation on a resource (rules of Kafka class StandardAuthorizerData).

    If a resource lacks ACLs, the brokers' `allow.everyone.if.no.acl.found` decides; it is unreadable, so the result is
    False. A right for a single host counts as a right for every host.
    """
    here = rights_on(acls, name, kind)
    mine = [
        acl
        for acl in here
        if acl.principal in (principal, EVERYBODY) and acl.operation in (operation, AclOperation.ALL)
    ]
    if any(acl.permission == AclPermissionType.DENY and acl.host == ANYWHERE for acl in mine):
        return True
    return bool(here) and not any(acl.permission == AclPermissionType.ALLOW for acl in mine)


def allowed_writers(acls: Iterable[Acl], topic: TopicName) -> set[str]:
    """The principals that an ACL lets write to a topic, and none keeps from it."""
    here = rights_on(acls, topic)
    allowed = {
        acl.principal
        for acl in here
        if acl.permission == AclPermissionType.ALLOW and acl.operation in (AclOperation.WRITE, AclOperation.ALL)
    }
    return {one for one in allowed if not forbidden(here, one, topic, AclOperation.WRITE)}
