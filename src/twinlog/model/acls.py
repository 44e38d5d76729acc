"""Rights on topics as values, as a cluster's authorizer keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from twinlog.model.types import TopicName

EVERY_TOPIC = TopicName("*")
"""The literal name that an authorizer takes for all topics."""


class Operation(IntEnum):
    """What a right is about (Kafka class AclOperation)."""

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


class Permission(IntEnum):
    """Whether a right is given or denied (Kafka class AclPermissionType)."""

    DENY = 2
    ALLOW = 3


class Pattern(IntEnum):
    """How the name of a right is meant (Kafka class PatternType)."""

    LITERAL = 3
    PREFIXED = 4


@dataclass(frozen=True, slots=True)
class TopicAcl:
    """One right of a principal (`User:name`) from a host (`*`: any) on a topic.

    `operation`, `permission` and `pattern` are numbers of the enumerations above, or newer ones.
    """

    topic: TopicName
    principal: str
    host: str
    operation: int
    permission: int
    pattern: int = Pattern.LITERAL

    def __str__(self) -> str:
        operation = Operation(self.operation).name if self.operation in set(Operation) else str(self.operation)
        permission = "DENY" if self.permission == Permission.DENY else "ALLOW"
        return f"{permission} {operation} on {self.topic} for {self.principal} from {self.host}"
