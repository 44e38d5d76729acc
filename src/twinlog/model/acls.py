"""Rights on topics as values, as a cluster's authorizer keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from twinlog.model.types import TopicName

EVERY_TOPIC = TopicName("*")
"""The literal name that an authorizer takes for all topics."""


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
